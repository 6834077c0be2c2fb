"""Refusing impossible settings when a kernel is built, before any compute."""

import math
from typing import Any


def check_temperature(temperature: Any) -> None:
    """Raise ValueError unless T is finite and not negative. Traced values pass."""
    if isinstance(temperature, (int, float)) and not 0.0 <= temperature < math.inf:
        raise ValueError(
            f"temperature is {temperature!r}; expected 0 (descent), 1 (the posterior) or any "
            "other finite number that is not negative"
        )


def check_momentum_decay(momentum_decay: Any) -> None:
    """Raise ValueError unless 0 < a ≤ 1. Traced values pass."""
    if isinstance(momentum_decay, (int, float)) and not 0.0 < momentum_decay <= 1.0:
        raise ValueError(
            f"momentum_decay is {momentum_decay!r}; expected a number above 0 and at most 1 "
            "(it is one minus the momentum coefficient: 0.1 for momentum 0.9)"
        )
