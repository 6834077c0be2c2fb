"""The nine numbers that the kinetic networks see of each parameter.

In order: the gradient ∇Ũ; the position θ; running averages of ∇Ũ with the six decays below; the
momentum r. Each is scaled to unit root-mean-square within its tensor, so that one trained sampler
fits any model and any number of data. The momentum comes last because it alone differs between
the two evaluations of one step: the other eight are encoded once.

Weights are valid only with the features they were trained on. Any change here raises
`FEATURE_VERSION`, and `l2e.load` refuses samplers of another version.

Arrays are feature-major: [features, P], all tensors of the model side by side.
"""

import math
from itertools import accumulate

import jax
import jax.numpy as jnp
from jax import lax

from l2e.types import Params

FEATURE_VERSION = 1
DECAYS = (0.1, 0.5, 0.9, 0.99, 0.999, 0.9999)
NUM_SHARED = 2 + len(DECAYS)
NUM_FEATURES = NUM_SHARED + 1

# Added to a mean square: it guards against 0/0 and lies far below the square of any gradient.
_FLOOR = 1e-30


def tensor_sizes(params: Params) -> tuple[int, ...]:
    """Number of parameters in each tensor, in raveled order."""
    return tuple(math.prod(leaf.shape) for leaf in jax.tree.leaves(params))


def initial_averages(num_parameters: int) -> jax.Array:
    """Running averages before the first gradient: zeros [6, P]."""
    return jnp.zeros((len(DECAYS), num_parameters), jnp.float32)


def update_averages(averages: jax.Array, gradient: jax.Array) -> jax.Array:
    """m ← d m + (1 − d) ∇Ũ for every decay d.

    Their missing bias correction is a common factor within a tensor, which `normalise` removes.
    """
    decays = jnp.asarray(DECAYS, averages.dtype)[:, None]
    return decays * averages + (1.0 - decays) * gradient[None, :]


def normalise(block: jax.Array, sizes: tuple[int, ...]) -> jax.Array:
    """Scale each row of [F, P] to unit root-mean-square within each tensor."""
    tensors = jnp.split(block, list(accumulate(sizes))[:-1], axis=-1)
    return jnp.concatenate([tensor * _inverse_rms(tensor) for tensor in tensors], axis=-1)


def _inverse_rms(tensor: jax.Array) -> jax.Array:
    return lax.rsqrt(jnp.mean(jnp.square(tensor), axis=-1, keepdims=True) + _FLOOR)


def shared_features(
    gradient: jax.Array, position: jax.Array, averages: jax.Array, sizes: tuple[int, ...]
) -> jax.Array:
    """The eight features that do not depend on the momentum: [8, P]."""
    rows = jnp.concatenate([gradient[None, :], position[None, :], averages])
    return normalise(rows, sizes)


def momentum_feature(momentum: jax.Array, sizes: tuple[int, ...]) -> jax.Array:
    """The ninth feature: [P]."""
    return normalise(momentum[None, :], sizes)[0]
