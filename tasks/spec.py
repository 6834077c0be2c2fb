"""What names a task: a data set and a network, as frozen, hashable values."""

import re
from dataclasses import dataclass

_FORM = re.compile(
    r"(?P<dataset>[a-z0-9_-]+)/(?P<family>[a-z]+)(?P<channels>\d+)(x(?P<depth>\d+))?(?P<residual>r)?"
)


@dataclass(frozen=True)
class ModelSpec:
    """A network, without the data's shape.

    Attributes:
        channels: width of every convolution.
        depth: number of convolutions.
        residual: whether a skip connection goes around each convolution.
        dense: units of the layer before the read-out.
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
        """``{family}{channels}x{depth}``, with ``r`` when residual; ``dense`` is not in it."""
        return f"{self.family}{self.channels}x{self.depth}{'r' * self.residual}"


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
        """``dataset/model``, such as ``kmnist/cnn8x3r``."""
        return f"{self.dataset}/{self.model.name}"

    @classmethod
    def parse(cls, name: str) -> "TaskSpec":
        """Read a name back; a missing depth means 1.

        Raises:
            ValueError: the name has another form.

        Example:
            >>> TaskSpec.parse("kmnist/cnn8x3r").model
            ModelSpec(channels=8, depth=3, residual=True, dense=20, family='cnn')
            >>> TaskSpec.parse("fashion_mnist/cnn32").name
            'fashion_mnist/cnn32x1'
        """
        match = _FORM.fullmatch(name)
        if match is None:
            raise ValueError(
                f"{name!r} does not name a task; "
                "expected DATASET/cnn{channels}x{depth}, with a final "
                "r for residual, such as 'mnist/cnn4x1' or 'kmnist/cnn8x3r'."
            )
        model = ModelSpec(
            channels=int(match["channels"]),
            depth=int(match["depth"] or 1),
            residual=match["residual"] is not None,
            family=match["family"],
        )
        return cls(match["dataset"], model)


def _check_count(field: str, value: int, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{field} is {value!r}; expected a whole number from {least} on.")
