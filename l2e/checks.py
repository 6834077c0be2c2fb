"""Refusing impossible numbers before any compute is spent. Traced values pass unseen."""

import math
from typing import Any

import jax.numpy as jnp
from jax.core import Tracer


def check_positive(name: str, value: Any, remedy: str = "") -> None:
    """Raise ValueError unless the value is a positive, finite number."""
    number = _concrete(value)
    if number is not None and not 0.0 < number < math.inf:
        raise ValueError(f"{name} is {number!r}; expected a positive, finite number{remedy}")


def check_temperature(temperature: Any) -> None:
    """Raise ValueError unless T is finite and not negative."""
    number = _concrete(temperature)
    if number is not None and not 0.0 <= number < math.inf:
        raise ValueError(
            f"temperature is {number!r}; expected 0 (descent), 1 (the posterior) or any "
            "other finite number that is not negative"
        )


def check_momentum_decay(momentum_decay: Any) -> None:
    """Raise ValueError unless 0 < a ≤ 1."""
    number = _concrete(momentum_decay)
    if number is not None and not 0.0 < number <= 1.0:
        raise ValueError(
            f"momentum_decay is {number!r}; expected a number above 0 and at most 1 "
            "(it is one minus the momentum coefficient: 0.1 for momentum 0.9)"
        )


def _concrete(value: Any) -> float | None:
    """The number itself, or None for a traced value or one per chain."""
    if isinstance(value, Tracer) or jnp.ndim(value):
        return None
    return float(value)
