"""Eq. (6) of Kim et al. (2024): one step of Hamiltonian dynamics with friction and noise.

With discretisation step ε, friction C, temperature T and a kinetic energy whose gradients are
α = ∇_θ g and β = ∇_r g, the stochastic differential equation and its discretisation are

    dr = −(∇U + α + Cβ) dt + √(2CT) dW      r ← r − ε (∇U + α) − εC β + ξ,  ξ ~ N(0, 2εCT)
    dθ = β dt                               θ ← θ + ε β

where β is taken at (θ, r) for the friction and at (θ, new r) for the move. Users set the step
size h = ε² and the momentum decay a = εC, as tables of SGHMC do. Fluctuation and dissipation
balance when the noise has variance 2aT: the target is then exp(−(U + g)/T).

No networks and no data here. Every function works on pytrees and on flat arrays alike.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from l2e.types import Key, Params

DEFAULT_LEARNING_RATE = 0.01
"""ℓ: where no step size is given, h = ℓ/n."""

DEFAULT_MOMENTUM_DECAY = 0.1


class Physics(NamedTuple):
    """The two choices in which published implementations of eq. (6) differ.

    Attributes:
        noise_scale: (a, T) -> standard deviation of ξ.
        initial_momentum: (key, θ, T) -> r₀, shaped like θ.
    """

    noise_scale: Callable[[jax.Array, float], jax.Array]
    initial_momentum: Callable[[Key, Params, float], Params]


def momentum_step(
    momentum: Any,
    gradient: Any,
    alpha: Any,
    beta: Any,
    noise: Any,
    step_size: jax.Array,
    momentum_decay: jax.Array,
    noise_scale: jax.Array,
) -> Any:
    """r − ε (∇U + α) − aβ + sξ, with ε = √h and ξ standard normal; s is the noise scale."""
    epsilon = jnp.sqrt(step_size)
    return jax.tree.map(
        lambda r, g, al, be, xi: r - epsilon * (g + al) - momentum_decay * be + noise_scale * xi,
        momentum,
        gradient,
        alpha,
        beta,
        noise,
    )


def position_step(position: Any, beta: Any, step_size: jax.Array) -> Any:
    """θ + ε β, with ε = √h."""
    epsilon = jnp.sqrt(step_size)
    return jax.tree.map(lambda theta, be: theta + epsilon * be, position, beta)


def noise_scale(momentum_decay: jax.Array, temperature: float) -> jax.Array:
    """√(2aT): the standard deviation that balances the friction a at temperature T."""
    return jnp.sqrt(2.0 * momentum_decay * temperature)


def normal_like(key: Key, tree: Params) -> Params:
    """Standard normal noise shaped like a pytree, drawn in one piece over its raveled form."""
    flat, unravel = ravel_pytree(tree)
    return unravel(jax.random.normal(key, flat.shape, flat.dtype))


def thermal_momentum(key: Key, position: Params, temperature: float) -> Params:
    """r₀ ~ N(0, T I), the stationary law of the momentum under g = ½‖r‖²."""
    return jax.tree.map(lambda xi: jnp.sqrt(temperature) * xi, normal_like(key, position))


def _reference_noise_scale(momentum_decay: jax.Array, temperature: float) -> jax.Array:
    return jnp.sqrt(jnp.full_like(momentum_decay, 2.0 * 0.1 * temperature))


def _zero_momentum(key: Key, position: Params, temperature: float) -> Params:
    return jax.tree.map(jnp.zeros_like, position)


PHYSICS: dict[str, Physics] = {
    "exact": Physics(noise_scale, thermal_momentum),
    # What the paper's public code runs: friction 0.1 typed in place, no ε in the noise, r₀ = 0.
    "reference": Physics(_reference_noise_scale, _zero_momentum),
}
