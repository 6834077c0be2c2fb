"""The learned sampler, eq. (6) of Kim et al. (2024): SGHMC with a meta-learned kinetic energy.

    r' = r − ε (∇Ũ(θ) + α_φ(θ, r)) − a β_φ(θ, r) + √(2aT) ξ,   ξ ~ N(0, I)
    θ' = θ + ε β_φ(θ, r')

with h = ε², a = εC, and α_φ ≈ ∇_θ g, β_φ ≈ ∇_r g of `l2e.kinetic`, evaluated on the features of
`l2e.features`. Target: exp(−(U(θ) + g(θ, r))/T) in the sense of the paper's section 3; exact only
where α and β are the gradients of one g, as for the Gaussian.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from l2e import dynamics, features
from l2e.checks import check_momentum_decay, check_temperature
from l2e.samplers.info import observe
from l2e.schedules import as_schedule
from l2e.tables import lookup
from l2e.types import Batch, Info, Key, Kinetic, Params, Potential, Sampler, Schedule


class L2EState(NamedTuple):
    """θ; flat momentum [P]; flat running averages of the gradient [6, P]; steps taken."""

    position: Params
    momentum: jax.Array
    averages: jax.Array
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
    momentum, _ = ravel_pytree(physics.initial_momentum(key, position, temperature))
    averages = features.initial_averages(momentum.size)
    return L2EState(position, momentum, averages, jnp.zeros((), jnp.int32))


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
    """One step: momentum, then position, sharing all of the features but the momentum."""
    energy, gradient_tree = potential.value_and_grad(state.position, batch)
    gradient, _ = ravel_pytree(gradient_tree)
    theta, unravel = ravel_pytree(state.position)
    sizes = features.tensor_sizes(state.position)

    h, a = kinetic.physics(phi, step_size(state.steps), momentum_decay)
    averages = features.update_averages(state.averages, gradient)
    encoded = kinetic.encode(phi, features.shared_features(gradient, theta, averages, sizes))

    def gradients(r: jax.Array) -> tuple[jax.Array, jax.Array]:
        feature = features.momentum_feature(r, sizes)
        return kinetic.gradients(phi, encoded, feature, r, jnp.sqrt(h))

    alpha, beta = gradients(state.momentum)
    noise = jax.random.normal(key, theta.shape, theta.dtype)
    momentum = dynamics.momentum_step(
        state.momentum, gradient, alpha, beta, noise, h, a, physics.noise_scale(a, temperature)
    )
    _, beta = gradients(momentum)
    position = unravel(dynamics.position_step(theta, beta, h))

    info = observe(energy, gradient_tree, state.position, position)
    return L2EState(position, momentum, averages, state.steps + 1), info
