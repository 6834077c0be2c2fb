"""Which tasks a sampler is meta-trained on, and which it is judged on."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import jax

from l2e.types import Key, Params, Task
from tasks.build import Parts, bind, split
from tasks.convolution import CONVOLUTIONS
from tasks.datasets import data_folder, load
from tasks.glyphs import LETTERS
from tasks.images import checksum
from tasks.models import MODELS
from tasks.spec import ModelSpec, TaskSpec
from tasks.tables import lookup

LogPrior = Callable[[Params], jax.Array]


@dataclass(frozen=True)
class TaskDistribution:
    """Uniform over ``specs``; an `l2e.types.TaskFamily`.

    Data sets are loaded once a process and kept as bytes (the eight last used); the standardised
    arrays of two are kept too, so that held-out evaluations do not evict what is trained on.

    Attributes:
        specs: what `sample` draws from.
        heldout: what it never draws: other data sets, not only other networks.
        log_prior: θ -> log p(θ), for every task.
        data_dir: the data folder; ``$L2E_DATA`` when None.
        convolution: a key of `tasks.convolution.CONVOLUTIONS`.
    """

    specs: tuple[TaskSpec, ...]
    heldout: tuple[TaskSpec, ...]
    log_prior: LogPrior
    data_dir: Path | None = None
    convolution: str = "unfold"

    def __post_init__(self) -> None:
        if not self.specs:
            raise ValueError("specs is empty; expected at least one task to train on.")
        doubles = sorted({spec.name for spec in self.specs if self.specs.count(spec) > 1})
        if doubles:
            raise ValueError(f"specs holds {', '.join(doubles)} twice; list each task once.")
        shared = {spec.dataset for spec in self.specs} & {spec.dataset for spec in self.heldout}
        if shared:
            raise ValueError(
                f"{', '.join(sorted(shared))} is in specs and in heldout; held-out tasks judge "
                "transfer to unseen data. Take the data set out of one of the two."
            )
        lookup(CONVOLUTIONS, self.convolution, "convolution")
        for spec in (*self.specs, *self.heldout):
            lookup(MODELS, spec.model.family, "model family")

    def sample(self, key: Key) -> TaskSpec:
        """Draw a spec, uniformly; pure in the key."""
        return self.specs[int(jax.random.randint(key, (), 0, len(self.specs)))]

    def build(self, spec: Hashable) -> Task:
        """Load the data and bind the network; any spec will do, drawn or not.

        Raises:
            TypeError: not a `TaskSpec`.
            DataError: the data is missing or fails a check.
        """
        if not isinstance(spec, TaskSpec):
            raise TypeError(f"spec is {spec!r}; expected a TaskSpec (TaskSpec.parse reads a name).")
        parts = _parts(spec.dataset, spec.valid, data_folder(spec.dataset, self.data_dir))
        return bind(spec, parts, self.log_prior, self.convolution)

    def identity(self) -> dict[str, Any]:
        """Names of all tasks and SHA-256 of all data sets, loading each: bad data fails here.

        Raises:
            DataError: the first data set that is missing or fails a check.
        """
        return {
            "tasks": [spec.name for spec in self.specs],
            "heldout": [spec.name for spec in self.heldout],
            "sha256": {
                name: checksum(_load(name, data_folder(name, self.data_dir)))
                for name in dict.fromkeys(spec.dataset for spec in (*self.specs, *self.heldout))
            },
        }


_load = lru_cache(maxsize=8)(load)


@lru_cache(maxsize=2)
def _parts(name: str, valid: int, folder: Path | None) -> Parts:
    return split(_load(name, folder), valid)


@dataclass(frozen=True)
class Design:
    """The specs of a named distribution, before data folder and prior."""

    specs: tuple[TaskSpec, ...]
    heldout: tuple[TaskSpec, ...]


def cross(
    datasets: Iterable[str],
    channels: Iterable[int],
    depths: Iterable[int],
    residual: Iterable[bool] = (False,),
) -> tuple[TaskSpec, ...]:
    """Every combination as a spec."""
    models = [ModelSpec(*choice) for choice in product(channels, depths, residual)]
    return tuple(TaskSpec(*choice) for choice in product(datasets, models))


def _named(names: Iterable[str]) -> tuple[TaskSpec, ...]:
    return tuple(TaskSpec.parse(name) for name in names)


_IMAGES = ("mnist", "fashion_mnist", "emnist", "bloodmnist")

DISTRIBUTIONS: dict[str, Design] = {
    # Every network costs one compilation; every letter set is free.
    "quick": Design(
        specs=_named(
            f"glyphs-{letters}-{model}"
            for letters in LETTERS
            for model in ("8/cnn4x1", "8/cnn8x1r", "8/cnn4x2r", "12/cnn4x1")
        ),
        heldout=_named(["digits/cnn16x1"]),
    ),
    "small": Design(
        specs=cross(_IMAGES, channels=(4, 8), depths=(1, 2)),
        heldout=_named(["kmnist/cnn12x2"]),
    ),
    "paper": Design(
        specs=cross(_IMAGES, (4, 8, 16), (1, 2, 3, 4, 5), (False, True)),
        heldout=_named(["kmnist/cnn32x3r", "cifar10/cnn32x3r"]),
    ),
}
"""Distributions by name."""


def named(
    name: str,
    log_prior: LogPrior,
    data_dir: Path | None = None,
    convolution: str = "unfold",
) -> TaskDistribution:
    """Make one of `DISTRIBUTIONS`.

    Args:
        name: a key of `DISTRIBUTIONS`.
        log_prior: θ -> log p(θ), for every task.
        data_dir: the data folder; ``$L2E_DATA`` when None.
        convolution: a key of `tasks.convolution.CONVOLUTIONS`.

    Raises:
        ValueError: unknown name; lists the known ones.
    """
    design = lookup(DISTRIBUTIONS, name, "distribution")
    return TaskDistribution(design.specs, design.heldout, log_prior, data_dir, convolution)
