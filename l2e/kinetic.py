"""Kinetic energies g(θ, r), given by their gradients α ≈ ∇_θ g and β ≈ ∇_r g.

The learned ones run one small network on every parameter: nine features in, two numbers out
(`l2e.features`). Their meta-parameters φ are a flat dictionary of arrays. Adding a kinetic energy
is one builder and one row of `KINETICS`.
"""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp

from l2e.features import NUM_FEATURES, NUM_SHARED
from l2e.types import Key, Kinetic, Params

Widths = tuple[int, ...]

# A schedule may end at a step size of 0, where α must stay finite.
_SMALLEST = 1e-30


def gaussian(**_: object) -> Kinetic:
    """g = ½‖r‖²: α = 0, β = r. The learned sampler is then plain SGHMC; φ is empty."""
    return Kinetic(
        init=lambda key: {},
        physics=_given_physics,
        encode=lambda phi, features: (),
        gradients=lambda phi, encoded, feature, r, epsilon: (jnp.zeros_like(r), r),
        options={},
    )


def gradient(
    *, widths: Widths = (32, 32), alpha_scale: float = 1.0, beta_scale: float = 1.0
) -> Kinetic:
    """Free gradients, the paper's choice: α = s_α net_α, β = s_β net_β.

    Nothing ties β to the momentum before training: where that starts is the luck of the key.

    Args:
        widths: hidden widths of the network; (32, 32) has the paper's 1,442 numbers.
        alpha_scale: s_α, in units of ∇U.
        beta_scale: s_β, in units of the momentum.
    """

    def gradients(
        phi: Params, encoded: jax.Array, feature: jax.Array, r: jax.Array, epsilon: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        net_alpha, net_beta = _decode(phi, encoded, feature, widths)
        return alpha_scale * net_alpha, beta_scale * net_beta

    return Kinetic(
        init=lambda key: _init_network(key, widths),
        physics=_given_physics,
        encode=_encode,
        gradients=gradients,
        options=_checked_options(widths, alpha_scale, beta_scale),
    )


def anchored(
    *, widths: Widths = (32, 32), alpha_scale: float = 0.1, beta_scale: float = 1.0
) -> Kinetic:
    """SGHMC plus what is learned: α = (s_α/ε) net_α, β = r + s_β net_β.

    The last layer starts at zero, and so do the two further meta-parameters, which multiply the
    step size by exp(φ_h) and add φ_a to the logit of the momentum decay. φ = 0 *is* SGHMC.

    Args:
        widths: hidden widths of the network.
        alpha_scale: s_α; the learned kick to a momentum of order 1 is of order s_α.
        beta_scale: s_β, in units of the momentum.
    """

    def init(key: Key) -> Params:
        zero = jnp.zeros((), jnp.float32)
        network = _init_network(key, widths)
        last = f"w{len(widths)}"
        network[last] = jnp.zeros_like(network[last])
        return network | {"log_step_size": zero, "logit_momentum_decay": zero}

    def physics(
        phi: Params, step_size: jax.Array, momentum_decay: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        # sigmoid(logit(a) + φ_a), written so that φ_a = 0 returns a itself and nothing overflows.
        odds_against = (1.0 - momentum_decay) * jnp.exp(-phi["logit_momentum_decay"])
        decay = momentum_decay / (momentum_decay + odds_against)
        return step_size * jnp.exp(phi["log_step_size"]), decay

    def gradients(
        phi: Params, encoded: jax.Array, feature: jax.Array, r: jax.Array, epsilon: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        net_alpha, net_beta = _decode(phi, encoded, feature, widths)
        kick = alpha_scale / jnp.maximum(epsilon, _SMALLEST)
        return kick * net_alpha, r + beta_scale * net_beta

    return Kinetic(
        init=init,
        physics=physics,
        encode=_encode,
        gradients=gradients,
        options=_checked_options(widths, alpha_scale, beta_scale),
    )


KINETICS: dict[str, Callable[..., Kinetic]] = {
    "gaussian": gaussian,
    "gradient": gradient,
    "anchored": anchored,
}


def _checked_options(widths: Widths, alpha_scale: float, beta_scale: float) -> dict[str, Any]:
    if not all(isinstance(width, int) and width >= 1 for width in widths):
        raise ValueError(f"widths is {widths!r}; expected whole numbers of at least 1")
    for name, scale in (("alpha_scale", alpha_scale), ("beta_scale", beta_scale)):
        if not math.isfinite(scale):
            raise ValueError(f"{name} is {scale!r}; expected a finite number")
    return {"widths": widths, "alpha_scale": alpha_scale, "beta_scale": beta_scale}


def _given_physics(
    phi: Params, step_size: jax.Array, momentum_decay: jax.Array
) -> tuple[jax.Array, jax.Array]:
    return step_size, momentum_decay


def _init_network(key: Key, widths: Widths) -> Params:
    """Weights w0, w1, … [out, in] ~ N(0, 2/in), biases b0, b1, … [out] = 0; two outputs."""
    sizes = (NUM_FEATURES, *widths, 2)
    network: Params = {}
    for layer, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        weights = jax.random.normal(jax.random.fold_in(key, layer), (fan_out, fan_in))
        network[f"w{layer}"] = math.sqrt(2.0 / fan_in) * weights
        network[f"b{layer}"] = jnp.zeros((fan_out,), jnp.float32)
    return network


def _encode(phi: Params, features: jax.Array) -> jax.Array:
    """The shared part of the first layer: [8, P] -> [W, P]."""
    return phi["w0"][:, :NUM_SHARED] @ features + phi["b0"][:, None]


def _decode(phi: Params, encoded: jax.Array, feature: jax.Array, widths: Widths) -> jax.Array:
    """The rest of the network: [W, P] and the momentum feature [P] -> (net_α, net_β) [2, P]."""
    hidden = encoded + phi["w0"][:, NUM_SHARED:] * feature[None, :]
    for layer in range(1, len(widths) + 1):
        hidden = phi[f"w{layer}"] @ jax.nn.relu(hidden) + phi[f"b{layer}"][:, None]
    return hidden
