"""Step-size schedules: step count -> value. Anything else, take from optax."""

import math

import jax
import jax.numpy as jnp

from l2e.checks import check_positive
from l2e.types import Schedule


def constant(value: float | jax.Array) -> Schedule:
    """The same value at every step."""
    return lambda count: jnp.full_like(count, value, dtype=jnp.float32)


def cosine_cycles(peak: float | jax.Array, period: int) -> Schedule:
    """Cosine annealing with warm restarts: peak/2 · (cos(π (t mod period)/period) + 1).

    Args:
        peak: the value at the start of each cycle.
        period: steps in a cycle.

    Returns:
        A schedule. Source: Zhang et al. (2020), "Cyclical Stochastic Gradient MCMC", eq. (1).

    Raises:
        ValueError: when the peak is not positive or the period not a positive number of steps.
    """
    check_positive("the cycle's peak", peak)
    if period < 1:
        raise ValueError(f"the cycle's period is {period!r}; expected at least 1 step")

    def value(count: jax.Array) -> jax.Array:
        phase = (count % period).astype(jnp.float32) / period
        return 0.5 * peak * (jnp.cos(math.pi * phase) + 1.0)

    return value


def as_schedule(value: float | jax.Array | Schedule, what: str = "step_size") -> Schedule:
    """Accept a number or a schedule.

    Raises:
        ValueError: when a number is not positive and finite.
    """
    if callable(value):
        return value
    check_positive(what, value, " or a schedule")
    return constant(value)
