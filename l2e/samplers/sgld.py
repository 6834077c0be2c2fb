"""Stochastic-gradient Langevin dynamics (Welling & Teh, 2011).

    θ ← θ − h ∇Ũ(θ) + √(2hT) ξ,   ξ ~ N(0, I)

Target: exp(−U(θ)/T) as h → 0 and batches grow.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from l2e.checks import check_temperature
from l2e.dynamics import DEFAULT_LEARNING_RATE, normal_like
from l2e.samplers.info import observe
from l2e.schedules import as_schedule
from l2e.types import Batch, Info, Key, Params, Potential, Sampler, Schedule


class SGLDState(NamedTuple):
    """θ and the number of steps taken."""

    position: Params
    steps: jax.Array


def build(
    potential: Potential,
    *,
    step_size: float | jax.Array | Schedule | None = None,
    temperature: float = 1.0,
) -> Sampler:
    """An SGLD kernel.

    Args:
        potential: Ũ and its gradient.
        step_size: h, in units of 1/U; a number or a schedule of the step count. By default
            0.01/n, the learning rate 0.01 of the mean loss.
        temperature: T; 1 is the posterior, 0 is stochastic gradient descent.

    Returns:
        A `Sampler`.

    Raises:
        ValueError: for a step size that is not positive or a negative temperature.

    Example:
        >>> import jax, jax.numpy as jnp, l2e
        >>> U = l2e.minibatch(lambda m, y: -0.5 * (y - m) ** 2, lambda m: -0.5 * m**2, num_data=2)
        >>> kernel = build(U, step_size=0.1, temperature=0.0)
        >>> state = kernel.init(jax.random.key(0), jnp.float32(1.0))
        >>> state, info = kernel.step(jax.random.key(1), state, jnp.array([0.0, 0.0]))
        >>> round(float(state.position), 4)
        0.7
    """
    if step_size is None:
        step_size = DEFAULT_LEARNING_RATE / potential.num_data
    check_temperature(temperature)
    return Sampler(
        init=init,
        step=partial(
            step,
            potential=potential,
            step_size=as_schedule(step_size),
            temperature=temperature,
        ),
    )


def init(key: Key, position: Params) -> SGLDState:
    """Start at `position`; nothing is random."""
    return SGLDState(position, jnp.zeros((), jnp.int32))


def step(
    key: Key,
    state: SGLDState,
    batch: Batch,
    *,
    potential: Potential,
    step_size: Schedule,
    temperature: float,
) -> tuple[SGLDState, Info]:
    """One Langevin step."""
    energy, gradient = potential.value_and_grad(state.position, batch)
    h = step_size(state.steps)
    noise_scale = jnp.sqrt(2.0 * h * temperature)
    position = jax.tree.map(
        lambda theta, g, xi: theta - h * g + noise_scale * xi,
        state.position,
        gradient,
        normal_like(key, state.position),
    )
    info = observe(energy, gradient, state.position, position)
    return SGLDState(position, state.steps + 1), info
