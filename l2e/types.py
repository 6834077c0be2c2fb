"""The contract, on one page.

Every sampler is two pure functions; every task is a model and its data. Nothing here computes.

Shapes in docstrings: ``P`` parameters, ``B`` examples, ``Y`` classes, ``K`` draws.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple, Protocol

import jax

Key = jax.Array
"""A typed JAX random key (``jax.random.key``). The caller owns it; nobody keeps it."""

Params = Any
"""A pytree of float32 arrays: the position of a chain."""

Batch = Any
"""A pytree of arrays whose leading axis is the example; ``(x, y)`` for classification."""

Schedule = Callable[[jax.Array], jax.Array]
"""Step count -> value, as in optax."""


class Potential(NamedTuple):
    """The energy U(θ) = −Σᵢ log p(yᵢ|xᵢ,θ) − log p(θ) and its minibatch estimate.

    Built by `l2e.potential.minibatch`, the only place where a likelihood is scaled by n.
    """

    value_and_grad: Callable[[Params, Batch], tuple[jax.Array, Params]]
    num_data: float


class Info(NamedTuple):
    """What a reader wants to know of one step; scalars, float32."""

    energy: jax.Array
    gradient_norm: jax.Array
    update_norm: jax.Array


class SamplerState(Protocol):
    """What the next step needs. The parameter pytree is always called ``position``."""

    @property
    def position(self) -> Params:
        """The parameters θ, with the structure and dtypes that `Sampler.init` was given."""
        ...


class Sampler(NamedTuple):
    """A Markov kernel as two pure functions; both jit, vmap and scan."""

    init: Callable[[Key, Params], Any]
    step: Callable[[Key, Any, Batch], tuple[Any, Info]]


class Kinetic(NamedTuple):
    """The gradients α ≈ ∇_θ g and β ≈ ∇_r g of a kinetic energy g(θ, r), per parameter.

    Attributes:
        init: key -> φ, the meta-parameters (a pytree of float32 arrays).
        physics: (φ, h, a) -> (h, a), the step size ε² and the momentum decay εC in force.
        encode: (φ, features [8, P]) -> whatever both evaluations of one step share.
        gradients: (φ, encoded, momentum feature [P], momentum [P], ε) -> (α [P], β [P]).
        options: the arguments it was built with, for the manifest of an exported sampler.
    """

    init: Callable[[Key], Params]
    physics: Callable[[Params, jax.Array, jax.Array], tuple[jax.Array, jax.Array]]
    encode: Callable[[Params, jax.Array], Any]
    gradients: Callable[[Params, Any, jax.Array, jax.Array, jax.Array], tuple[jax.Array, jax.Array]]
    options: Mapping[str, Any]


class Task(NamedTuple):
    """One inference problem: a model, a prior and three parts of one data set.

    Attributes:
        name: for people, ``dataset/model``.
        signature: equal signatures have the same functions, shapes and dtypes, hence one program.
        init: key -> θ, the parameters at which a chain starts.
        apply: (θ, x [B, ...]) -> logits [B, Y].
        log_likelihood: (θ, (x, y)) -> log p(yᵢ|xᵢ,θ) [B].
        log_prior: θ -> log p(θ), a scalar, up to a constant.
        num_data: n, the number of training examples.
        train: (x float32 [n, ...], y int32 [n]); chains see this part alone.
        valid: meta-losses and step sizes are judged here.
        test: reported numbers come from here.
        micro_batch: how many examples' gradients are computed at once, to stay in a cache or in
            memory; None for the whole batch.
    """

    name: str
    signature: Hashable
    init: Callable[[Key], Params]
    apply: Callable[[Params, jax.Array], jax.Array]
    log_likelihood: Callable[[Params, Batch], jax.Array]
    log_prior: Callable[[Params], jax.Array]
    num_data: int
    train: Batch
    valid: Batch
    test: Batch
    micro_batch: int | None = None


class TaskFamily(Protocol):
    """A distribution over tasks, and the tasks it never draws."""

    @property
    def heldout(self) -> tuple[Hashable, ...]:
        """Specs kept from training, for judging transfer."""
        ...

    def sample(self, key: Key) -> Hashable:
        """Draw a spec; pure in the key."""
        ...

    def build(self, spec: Hashable) -> Task:
        """Load the data and bind the model. Bad data fails here, before any compute."""
        ...
