"""Stochastic-gradient Hamiltonian Monte Carlo (Chen et al., 2014), as eq. (6) with g = ½‖r‖².

    r ← (1 − a) r − ε ∇Ũ(θ) + √(2aT) ξ,   ξ ~ N(0, I)
    θ ← θ + ε r

with h = ε² and a = εC. Target: exp(−(U(θ) + ½‖r‖²)/T) as ε → 0 and batches grow.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from l2e import dynamics
from l2e.checks import check_momentum_decay, check_temperature
from l2e.samplers.info import observe
from l2e.schedules import as_schedule
from l2e.types import Batch, Info, Key, Params, Potential, Sampler, Schedule


class SGHMCState(NamedTuple):
    """θ, r and the number of steps taken."""

    position: Params
    momentum: Params
    steps: jax.Array


def build(
    potential: Potential,
    *,
    step_size: float | jax.Array | Schedule | None = None,
    momentum_decay: float | jax.Array = dynamics.DEFAULT_MOMENTUM_DECAY,
    temperature: float = 1.0,
) -> Sampler:
    """An SGHMC kernel.

    Args:
        potential: Ũ and its gradient.
        step_size: h = ε², in units of 1/U; a number or a schedule of the step count. By default
            0.01/n, the learning rate 0.01 of the mean loss.
        momentum_decay: a = εC, one minus the momentum coefficient.
        temperature: T; 1 is the posterior, 0 is gradient descent with momentum.

    Returns:
        A `Sampler`; its momentum starts at N(0, T I).

    Raises:
        ValueError: for a step size that is not positive, a decay outside (0, 1] or a negative
            temperature.

    Example:
        >>> import jax, jax.numpy as jnp, l2e
        >>> U = l2e.minibatch(lambda m, y: -0.5 * (y - m) ** 2, lambda m: -0.5 * m**2, num_data=2)
        >>> kernel = build(U, step_size=0.25, momentum_decay=0.5, temperature=0.0)
        >>> state = kernel.init(jax.random.key(0), jnp.float32(1.0))
        >>> state, info = kernel.step(jax.random.key(1), state, jnp.array([0.0, 0.0]))
        >>> float(state.momentum), float(state.position)
        (-1.5, 0.25)
    """
    if step_size is None:
        step_size = dynamics.DEFAULT_LEARNING_RATE / potential.num_data
    check_temperature(temperature)
    check_momentum_decay(momentum_decay)
    return Sampler(
        init=partial(init, temperature=temperature),
        step=partial(
            step,
            potential=potential,
            step_size=as_schedule(step_size),
            momentum_decay=jnp.asarray(momentum_decay, jnp.float32),
            temperature=temperature,
        ),
    )


def init(key: Key, position: Params, *, temperature: float) -> SGHMCState:
    """Start at `position` with a momentum drawn from N(0, T I)."""
    momentum = dynamics.thermal_momentum(key, position, temperature)
    return SGHMCState(position, momentum, jnp.zeros((), jnp.int32))


def step(
    key: Key,
    state: SGHMCState,
    batch: Batch,
    *,
    potential: Potential,
    step_size: Schedule,
    momentum_decay: jax.Array,
    temperature: float,
) -> tuple[SGHMCState, Info]:
    """One step: momentum, then position."""
    energy, gradient = potential.value_and_grad(state.position, batch)
    h = step_size(state.steps)
    momentum = dynamics.momentum_step(
        state.momentum,
        gradient,
        jax.tree.map(jnp.zeros_like, gradient),
        state.momentum,
        dynamics.normal_like(key, state.position),
        h,
        momentum_decay,
        dynamics.noise_scale(momentum_decay, temperature),
    )
    position = dynamics.position_step(state.position, momentum, h)
    info = observe(energy, gradient, state.position, position)
    return SGHMCState(position, momentum, state.steps + 1), info
