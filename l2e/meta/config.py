"""Every default of meta-training, in one place.

A configuration is frozen, validated when it is made, written to `config.json` and into every
checkpoint, and compared field by field on `--resume`.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from l2e.chain import check_lengths
from l2e.checks import check_momentum_decay, check_positive, check_temperature
from l2e.dynamics import DEFAULT_LEARNING_RATE, DEFAULT_MOMENTUM_DECAY, PHYSICS
from l2e.jsonable import jsonable
from l2e.kinetic import KINETICS
from l2e.meta.losses import LOSSES
from l2e.meta.strategies import STRATEGIES
from l2e.tables import lookup
from l2e.types import Kinetic

# Fields that may differ between a run and its continuation: none of them touches a meta-parameter.
FREE_ON_RESUME = frozenset({"outer_steps", "checkpoint_every", "heldout_every", "heldout_chains"})


@dataclass(frozen=True)
class KineticConfig:
    """Which kinetic energy is learned, the size of its network, and its scales.

    A scale of None is the kinetic energy's own default (see `l2e.kinetic`).
    """

    name: str = "anchored"
    widths: tuple[int, ...] = (32, 32)
    alpha_scale: float | None = None
    beta_scale: float | None = None

    def __post_init__(self) -> None:
        """Refuse unknown names and impossible sizes."""
        lookup(KINETICS, self.name, "kinetic energy")
        if not self.widths or min(self.widths) < 1:
            raise ValueError(f"widths is {self.widths}; expected one positive width a hidden layer")

    def build(self) -> Kinetic:
        """The kinetic energy itself."""
        scales = {"alpha_scale": self.alpha_scale, "beta_scale": self.beta_scale}
        given = {name: value for name, value in scales.items() if value is not None}
        return KINETICS[self.name](widths=self.widths, **given)


@dataclass(frozen=True)
class InnerConfig:
    """The chain whose model average is judged (Algorithm 2).

    Attributes:
        burn_in: steps before the first draw's own `thin` steps.
        draws: K.
        thin: steps from one draw to the next.
        batch_size: B, at most the size of the data set.
        learning_rate: ℓ of the mean loss; the step size is h = ℓ/n.
        momentum_decay: a.
        temperature: T.
        physics: row of `l2e.dynamics.PHYSICS`.
        num_data: n in the potential, where it is not the data set's own size.
        prior_std: standard deviation of the Gaussian prior on every parameter.
        predict_batch: validation images evaluated at once; bounds memory.
    """

    burn_in: int = 2500
    draws: int = 10
    thin: int = 50
    batch_size: int = 128
    learning_rate: float = DEFAULT_LEARNING_RATE
    momentum_decay: float = DEFAULT_MOMENTUM_DECAY
    temperature: float = 1.0
    physics: str = "exact"
    num_data: int | None = None
    prior_std: float = 1.0
    predict_batch: int = 250

    def __post_init__(self) -> None:
        """Refuse impossible chains."""
        check_lengths(self.burn_in, self.draws, self.thin)
        check_temperature(self.temperature)
        check_momentum_decay(self.momentum_decay)
        lookup(PHYSICS, self.physics, "physics")
        _at_least_one(self, "batch_size", "predict_batch")
        check_positive("learning_rate", self.learning_rate)
        check_positive("prior_std", self.prior_std)
        if self.num_data is not None:
            _at_least_one(self, "num_data")

    @property
    def steps(self) -> int:
        """Gradient steps of one chain."""
        return self.burn_in + self.draws * self.thin


@dataclass(frozen=True)
class MetaConfig:
    """A meta-training run.

    Attributes:
        tasks: row of the task distributions' table.
        kinetic: what is learned.
        inner: the chain by which φ is judged.
        meta_loss: row of `l2e.meta.losses.LOSSES`.
        strategy: row of `l2e.meta.strategies.STRATEGIES`.
        pairs: N, antithetic pairs in an outer step.
        chunk: pairs evaluated side by side in one vectorised program. It bounds memory, and it
            is part of the configuration because it shapes the arithmetic.
        sigma: standard deviation of the perturbations of φ.
        learning_rate: of Adam on φ; so are beta1 and beta2.
        clip_norm: the estimated gradient is scaled down to this norm if it is longer.
        max_dropped: share of a step's pairs that may be non-finite before the run stops.
        outer_steps: length of the run.
        seed: all randomness.
        checkpoint_every: outer steps between checkpoints.
        heldout_every: outer steps between evaluations on tasks never trained on.
        heldout_chains: chains per such evaluation, at least 2 for a standard error.
    """

    tasks: str
    kinetic: KineticConfig = field(default_factory=KineticConfig)
    inner: InnerConfig = field(default_factory=InnerConfig)
    meta_loss: str = "bma"
    strategy: str = "open_es"
    pairs: int = 8
    chunk: int = 4
    sigma: float = 0.01
    learning_rate: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.99
    clip_norm: float = 1.0
    max_dropped: float = 0.5
    outer_steps: int = 1000
    seed: int = 0
    checkpoint_every: int = 1
    heldout_every: int = 20
    heldout_chains: int = 8

    def __post_init__(self) -> None:
        """Refuse impossible runs."""
        lookup(LOSSES, self.meta_loss, "meta-loss")
        lookup(STRATEGIES, self.strategy, "strategy")
        if not self.kinetic.build().options:
            learnable = [name for name, build in KINETICS.items() if build().options]
            raise ValueError(
                f"kinetic energy {self.kinetic.name!r} has nothing to learn; learnable: "
                f"{', '.join(learnable)}"
            )
        _at_least_one(self, "pairs", "chunk", "outer_steps", "checkpoint_every")
        _at_least_one(self, "heldout_every")
        for name in ("sigma", "learning_rate", "clip_norm"):
            check_positive(name, getattr(self, name))
        for name in ("pairs", "heldout_chains"):
            if getattr(self, name) % self.chunk:
                raise ValueError(
                    f"{name} is {getattr(self, name)} and chunk {self.chunk}; expected a multiple, "
                    "so that every chunk runs the same program"
                )
        if self.heldout_chains < 2:
            raise ValueError(f"heldout_chains is {self.heldout_chains}; expected at least 2")
        for name in ("beta1", "beta2"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"{name} is {getattr(self, name)}; expected a decay in [0, 1)")
        if not 0.0 <= self.max_dropped < 1.0:
            raise ValueError(f"max_dropped is {self.max_dropped}; expected a share in [0, 1)")

    def to_json(self) -> dict[str, Any]:
        """Plain nested dictionaries and lists."""
        return jsonable(asdict(self))


def first_difference(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str | None:
    """The first field in which two configurations differ, as 'name: ours, theirs', or None.

    Fields in `FREE_ON_RESUME` are passed over.
    """
    for name in sorted((ours.keys() | theirs.keys()) - FREE_ON_RESUME):
        mine, other = ours.get(name), theirs.get(name)
        if isinstance(mine, Mapping) and isinstance(other, Mapping):
            inner = first_difference(mine, other)
            if inner:
                return f"{name}.{inner}"
        elif mine != other:
            return f"{name}: now {mine!r}, in the checkpoint {other!r}"
    return None


def _at_least_one(config: Any, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} is {value!r}; expected a whole number of at least 1")


_PAPER = MetaConfig(tasks="paper")

PRESETS: dict[str, MetaConfig] = {
    "quick": MetaConfig(
        tasks="quick",
        inner=InnerConfig(burn_in=150, draws=10, thin=5, batch_size=64, predict_batch=1000),
        outer_steps=60,
        checkpoint_every=5,
        heldout_every=10,
    ),
    "small": MetaConfig(
        tasks="small",
        inner=InnerConfig(burn_in=150, draws=10, thin=5, batch_size=128),
        outer_steps=100,
        checkpoint_every=5,
        heldout_every=25,
    ),
    "paper": _PAPER,
    "reference": replace(
        _PAPER,
        kinetic=KineticConfig(name="gradient", alpha_scale=1e-3, beta_scale=1e-3),
        inner=replace(_PAPER.inner, physics="reference", num_data=50_000),
    ),
}
