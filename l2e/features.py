"""The nine numbers that the kinetic networks see of each parameter.

In order: the gradient ∇Ũ; the position θ; running averages of ∇Ũ with the six decays below; the
momentum r. Each is scaled to unit root-mean-square within its tensor, so that one trained sampler
fits any model and any number of data. The momentum comes last because it alone differs between
the two evaluations of one step.

Weights are valid only with the features they were trained on. Any change here raises
`FEATURE_VERSION`, and `l2e.load` refuses samplers of another version.

Arrays are feature-major tiles [features, T] of `l2e.tiles`.
"""

import jax
import jax.numpy as jnp
from jax import lax

from l2e.tiles import Tiling, group_sums

FEATURE_VERSION = 1
DECAYS = (0.1, 0.5, 0.9, 0.99, 0.999, 0.9999)
NUM_SHARED = 2 + len(DECAYS)
NUM_FEATURES = NUM_SHARED + 1
GRADIENT, POSITION, AVERAGES = 0, 1, 2

# Added to a mean square: it guards against 0/0 and lies far below the square of any gradient.
_FLOOR = 1e-30


def initial(tiling: Tiling) -> jax.Array:
    """Before the first gradient: zeros [n, 8, T]."""
    return jnp.zeros((tiling.count, NUM_SHARED, tiling.width), jnp.float32)


def update(
    shared: jax.Array, gradient: jax.Array, position: jax.Array, momentum: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """One tile's features of this step, from the last step's and three tiles [T].

    m ← d m + (1 − d) ∇Ũ for every decay d. The averages' missing bias correction is a common factor
    within a tensor, which scaling removes.

    Returns:
        The eight features that do not depend on the momentum, unscaled [8, T]; and sums of squares
        by group, theirs [8, T / LANES] and the momentum's [1, T / LANES].
    """
    decays = jnp.asarray(DECAYS, shared.dtype)[:, None]
    averages = decays * shared[AVERAGES:] + (1.0 - decays) * gradient[None, :]
    rows = (gradient[None, :], position[None, :], averages)
    sums = jnp.concatenate([squares(row) for row in rows])
    return jnp.concatenate(rows), (sums, squares(momentum[None, :]))


def squares(features: jax.Array) -> jax.Array:
    """Sums of squares by group: [F, T] -> [F, T / LANES]."""
    return group_sums(jnp.square(features))


def scales(tiling: Tiling, sums: jax.Array) -> jax.Array:
    """What `tiles.by_group` multiplies features by: 1 / RMS of each feature in each tensor.

    Args:
        tiling: where the tensors lie.
        sums: of `squares`, for all tiles [n, F, T / LANES].

    Returns:
        One factor a group [n, F, T / LANES].
    """
    return tiling.per_tensor(lambda total, size: lax.rsqrt(total / size + _FLOOR), sums)
