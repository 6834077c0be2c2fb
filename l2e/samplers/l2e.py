"""The learned sampler, eq. (6) of Kim et al. (2024): SGHMC with a meta-learned kinetic energy.

    r' = r − ε (∇Ũ(θ) + α_φ(θ, r)) − a β_φ(θ, r) + √(2aT) ξ,   ξ ~ N(0, I)
    θ' = θ + ε β_φ(θ, r')

with h = ε², a = εC, and α_φ ≈ ∇_θ g, β_φ ≈ ∇_r g of `l2e.kinetic`, evaluated on the features of
`l2e.features`. Target: exp(−(U(θ) + g(θ, r))/T) in the sense of the paper's section 3; exact only
where α and β are the gradients of one g, as for the Gaussian.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from l2e import dynamics, features
from l2e.checks import check_momentum_decay, check_temperature
from l2e.parallel import each, each_in_place
from l2e.samplers.info import observe
from l2e.schedules import as_schedule
from l2e.tables import lookup
from l2e.tiles import Tiling, by_group, masked
from l2e.types import Batch, Info, Key, Kinetic, Params, Potential, Sampler, Schedule


class L2EState(NamedTuple):
    """The position; the rest in tiles (`l2e.tiles`).

    Attributes:
        position: θ.
        momentum: r [n, T].
        features: the last step's eight shared features, unscaled [n, 8, T]. The six running
            averages among them are what the next step needs.
        steps: steps taken.
    """

    position: Params
    momentum: jax.Array
    features: jax.Array
    steps: jax.Array


def build(
    potential: Potential,
    *,
    kinetic: Kinetic,
    phi: Params,
    step_size: float | jax.Array | Schedule | None = None,
    momentum_decay: float | jax.Array = dynamics.DEFAULT_MOMENTUM_DECAY,
    temperature: float = 1.0,
    physics: str = "exact",
) -> Sampler:
    """A learned kernel. `l2e.load(name).build(potential)` calls this with trained φ.

    Args:
        potential: Ũ and its gradient.
        kinetic: a row of `l2e.KINETICS`, built.
        phi: its meta-parameters. A population of φ is one `vmap` over this argument.
        step_size: h = ε², in units of 1/U; by default 0.01/n. Kinetic energies that learn
            their own physics scale it.
        momentum_decay: a = εC.
        temperature: T; 1 is the posterior.
        physics: a row of `l2e.dynamics.PHYSICS`.

    Returns:
        A `Sampler`.

    Raises:
        ValueError: as for SGHMC, and for an unknown physics.
    """
    if step_size is None:
        step_size = dynamics.DEFAULT_LEARNING_RATE / potential.num_data
    check_temperature(temperature)
    check_momentum_decay(momentum_decay)
    chosen = lookup(dynamics.PHYSICS, physics, "physics")
    return Sampler(
        init=partial(init, temperature=temperature, physics=chosen),
        step=partial(
            step,
            potential=potential,
            kinetic=kinetic,
            phi=phi,
            step_size=as_schedule(step_size),
            momentum_decay=jnp.asarray(momentum_decay, jnp.float32),
            temperature=temperature,
            physics=chosen,
        ),
    )


def init(key: Key, position: Params, *, temperature: float, physics: dynamics.Physics) -> L2EState:
    """Start at `position`, with the momentum of the chosen physics and empty averages."""
    tiling = Tiling.of(position)
    momentum = tiling.pack(physics.initial_momentum(key, position, temperature))
    return L2EState(position, momentum, features.initial(tiling), jnp.zeros((), jnp.int32))


def step(
    key: Key,
    state: L2EState,
    batch: Batch,
    *,
    potential: Potential,
    kinetic: Kinetic,
    phi: Params,
    step_size: Schedule,
    momentum_decay: jax.Array,
    temperature: float,
    physics: dynamics.Physics,
) -> tuple[L2EState, Info]:
    """One step: momentum, then position.

    Three passes over the tiles, because a feature's scale needs the whole tensor: the features,
    the momentum, the position.
    """
    energy, gradient = potential.value_and_grad(state.position, batch)
    h, a = kinetic.physics(phi, step_size(state.steps), momentum_decay)
    tiling = Tiling.of(state.position)
    noise = jax.random.normal(key, (sum(tiling.sizes),), jnp.float32)
    forces = partial(_forces, kinetic=kinetic, phi=phi, epsilon=jnp.sqrt(h))
    noise_scale = physics.noise_scale(a, temperature)

    shared, (sums, r_sums) = each_in_place(
        features.update,
        state.features,
        tiling.pack(gradient),
        tiling.pack(state.position),
        state.momentum,
    )
    seen = (shared, features.scales(tiling, sums))
    momentum, r_sums_after = each(
        partial(_move_momentum, forces=forces, h=h, a=a, noise_scale=noise_scale),
        state.momentum,
        features.scales(tiling, r_sums),
        *seen,
        tiling.pack_raveled(noise),
        jnp.asarray(tiling.valid),
    )
    moved = each(
        partial(_move_position, forces=forces, h=h),
        momentum,
        features.scales(tiling, r_sums_after),
        *seen,
    )
    position = tiling.unpack(moved, state.position)
    info = observe(energy, gradient, state.position, position)
    return L2EState(position, momentum, shared, state.steps + 1), info


Forces = Callable[[jax.Array, jax.Array, jax.Array, jax.Array], tuple[jax.Array, jax.Array]]


def _forces(
    r: jax.Array,
    r_scale: jax.Array,
    shared: jax.Array,
    scale: jax.Array,
    *,
    kinetic: Kinetic,
    phi: Params,
    epsilon: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """α and β of one tile [T], from the momentum [T] and the shared features [8, T]."""
    encoded = kinetic.encode(phi, by_group(shared, scale))
    feature = by_group(r[None, :], r_scale)[0]
    return kinetic.gradients(phi, encoded, feature, r, epsilon)


def _move_momentum(
    r: jax.Array,
    r_scale: jax.Array,
    shared: jax.Array,
    scale: jax.Array,
    noise: jax.Array,
    valid: jax.Array,
    *,
    forces: Forces,
    h: jax.Array,
    a: jax.Array,
    noise_scale: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """The new momentum of one tile, and its sums of squares by group."""
    alpha, beta = forces(r, r_scale, shared, scale)
    gradient = shared[features.GRADIENT]
    r = dynamics.momentum_step(r, gradient, alpha, beta, noise, h, a, noise_scale)
    r = masked(r, valid)
    return r, features.squares(r[None, :])


def _move_position(
    r: jax.Array,
    r_scale: jax.Array,
    shared: jax.Array,
    scale: jax.Array,
    *,
    forces: Forces,
    h: jax.Array,
) -> jax.Array:
    """The new position of one tile, from its new momentum."""
    _, beta = forces(r, r_scale, shared, scale)
    return dynamics.position_step(shared[features.POSITION], beta, h)
