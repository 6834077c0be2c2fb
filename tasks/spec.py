"""What names a task: a data set and a network, as frozen, hashable values."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

_TASK = re.compile(r"(?P<dataset>[a-z0-9_-]+)/(?P<family>[a-z]+)(?P<sizes>\d.*)")

RESNET_WIDTH = 16
"""Channels of a ResNet's first stage where its name gives none (He et al., 2016, section 4.2)."""


@dataclass(frozen=True)
class ModelSpec:
    """A network, without the data's shape.

    Attributes:
        channels: width of every convolution; of a ResNet's first stage.
        depth: number of convolutions; for a ResNet, one more, the read-out, is counted with them.
        residual: whether a skip connection goes around each convolution; of no use to a ResNet.
        dense: units of the layer before the read-out; of no use to a ResNet.
        family: a key of `tasks.models.MODELS` (looked up when the network is built).
    """

    channels: int
    depth: int = 1
    residual: bool = False
    dense: int = 20
    family: str = "cnn"

    def __post_init__(self) -> None:
        for field in ("channels", "depth", "dense"):
            _check_count(field, getattr(self, field), 1)
        if not isinstance(self.residual, bool):
            raise ValueError(f"residual is {self.residual!r}; expected True or False.")
        if not re.fullmatch(r"[a-z]+", self.family):
            raise ValueError(f"family is {self.family!r}; expected small letters, such as 'cnn'.")

    @property
    def name(self) -> str:
        """The family and its sizes; ``dense`` is not in it.

        ``resnet{depth}``, with ``w{channels}`` when the width is not 16: ``resnet20``,
        ``resnet20w8``. Any other family is ``{family}{channels}x{depth}``, with ``r`` when
        residual: ``cnn8x3r``.
        """
        return self.family + _form(self.family).write(self)


class _Form(NamedTuple):
    """How a family writes its sizes behind its name."""

    pattern: re.Pattern[str]
    missing: dict[str, int]
    write: Callable[[ModelSpec], str]


_CHANNELS_FIRST = _Form(
    re.compile(r"(?P<channels>\d+)(x(?P<depth>\d+))?(?P<residual>r)?"),
    {"depth": 1},
    lambda model: f"{model.channels}x{model.depth}{'r' * model.residual}",
)

_DEPTH_FIRST = _Form(
    re.compile(r"(?P<depth>\d+)(w(?P<channels>\d+))?"),
    {"channels": RESNET_WIDTH},
    lambda model: f"{model.depth}" + f"w{model.channels}" * (model.channels != RESNET_WIDTH),
)

_FORMS = {"resnet": _DEPTH_FIRST}


def _form(family: str) -> _Form:
    # Any family has a name, known or not: the table of networks alone says which there are.
    return _FORMS.get(family, _CHANNELS_FIRST)


@dataclass(frozen=True)
class TaskSpec:
    """A network on a data set.

    Attributes:
        dataset: a name that `tasks.datasets.load` finds.
        model: the network.
        valid: how many training images to keep for validation, but a fifth of them at most.
    """

    dataset: str
    model: ModelSpec
    valid: int = 1000

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9_-]+", self.dataset):
            raise ValueError(
                f"dataset is {self.dataset!r}; expected a name of small letters, digits, '_', '-'."
            )
        _check_count("valid", self.valid, 1)

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """``dataset/model``, such as ``kmnist/cnn8x3r`` or ``cifar10/resnet20``."""
        return f"{self.dataset}/{self.model.name}"

    @classmethod
    def parse(cls, name: str) -> "TaskSpec":
        """Read a name back; a missing depth means 1, a ResNet's missing width 16.

        Raises:
            ValueError: the name has another form.

        Example:
            >>> TaskSpec.parse("kmnist/cnn8x3r").model
            ModelSpec(channels=8, depth=3, residual=True, dense=20, family='cnn')
            >>> TaskSpec.parse("fashion_mnist/cnn32").name
            'fashion_mnist/cnn32x1'
            >>> TaskSpec.parse("cifar10/resnet20").model
            ModelSpec(channels=16, depth=20, residual=False, dense=20, family='resnet')
            >>> TaskSpec.parse("cifar10/resnet56w8").name
            'cifar10/resnet56w8'
        """
        task = _TASK.fullmatch(name)
        model = task and _read_model(task["family"], task["sizes"])
        if task is None or model is None:
            raise ValueError(
                f"{name!r} does not name a task; "
                "expected DATASET/cnn{channels}x{depth}, with a final "
                "r for residual, such as 'mnist/cnn4x1' or 'kmnist/cnn8x3r', or "
                "DATASET/resnet{depth}, with a final w{channels} for a width other than "
                f"{RESNET_WIDTH}, such as 'cifar10/resnet20' or 'cifar10/resnet20w8'."
            )
        return cls(task["dataset"], model)


def _read_model(family: str, sizes: str) -> ModelSpec | None:
    """The model, or None where the family writes its sizes otherwise."""
    form = _form(family)
    match = form.pattern.fullmatch(sizes)
    if match is None:
        return None
    return ModelSpec(
        channels=int(match["channels"] or form.missing["channels"]),
        depth=int(match["depth"] or form.missing["depth"]),
        residual=bool(match.groupdict().get("residual")),
        family=family,
    )


def _check_count(field: str, value: int, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{field} is {value!r}; expected a whole number from {least} on.")
