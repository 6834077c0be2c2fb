"""Log-priors over a parameter pytree, each up to an additive constant."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from l2e.types import Params


def gaussian(std: float = 1.0) -> Callable[[Params], jax.Array]:
    """Independent N(0, std²) on every parameter: log p(θ) = −‖θ‖² / (2 std²) + const.

    Args:
        std: standard deviation, in the parameters' own units.

    Returns:
        θ -> log p(θ), a float32 scalar.

    Raises:
        ValueError: when std is not positive.

    Example:
        >>> import jax.numpy as jnp
        >>> float(gaussian(std=2.0)({"w": jnp.array([2.0, 0.0])}))
        -0.5
    """
    if not std > 0:
        raise ValueError(f"the prior's std is {std!r}; expected a positive number")

    def log_prior(params: Params) -> jax.Array:
        squares = sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(params))
        return -0.5 / std**2 * jnp.asarray(squares)

    return log_prior
