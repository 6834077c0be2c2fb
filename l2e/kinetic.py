"""Kinetic energies g(θ, r), given by their gradients α ≈ ∇_θ g and β ≈ ∇_r g.

The learned ones run one small network on every parameter: nine features in (`l2e.features`), two
numbers out (`l2e.network`). Their meta-parameters φ are a flat dictionary of arrays. How the
network is evaluated changes no result beyond rounding, and is not among their `options`. Adding a
kinetic energy is one builder and one row of `KINETICS`.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from l2e.network import NETWORKS, Widths, init_network
from l2e.tables import lookup
from l2e.types import Key, Kinetic, Params

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
    *,
    widths: Widths = (32, 32),
    alpha_scale: float = 1.0,
    beta_scale: float = 1.0,
    network: str = "xla",
) -> Kinetic:
    """Free gradients, the paper's choice: α = s_α net_α, β = s_β net_β.

    Nothing ties β to the momentum before training: where that starts is the luck of the key.

    Args:
        widths: hidden widths of the network; (32, 32) has the paper's 1,442 numbers.
        alpha_scale: s_α, in units of ∇U.
        beta_scale: s_β, in units of the momentum.
        network: a row of `l2e.network.NETWORKS`; "pallas" is for GPUs, and not yet measured on one.

    Raises:
        ValueError: for an unknown network, impossible widths or scales that are not finite.
    """
    chosen = lookup(NETWORKS, network, "network")

    def gradients(
        phi: Params, encoded: Any, feature: jax.Array, r: jax.Array, epsilon: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        net_alpha, net_beta = chosen.decode(phi, encoded, feature, widths)
        return alpha_scale * net_alpha, beta_scale * net_beta

    return Kinetic(
        init=lambda key: init_network(key, widths),
        physics=_given_physics,
        encode=chosen.encode,
        gradients=gradients,
        options=_checked_options(widths, alpha_scale, beta_scale),
    )


def anchored(
    *,
    widths: Widths = (32, 32),
    alpha_scale: float = 0.1,
    beta_scale: float = 1.0,
    network: str = "xla",
) -> Kinetic:
    """SGHMC plus what is learned: α = (s_α/ε) net_α, β = r + s_β net_β.

    The last layer starts at zero, and so do the two further meta-parameters, which multiply the
    step size by exp(φ_h) and add φ_a to the logit of the momentum decay. φ = 0 *is* SGHMC.

    Args:
        widths: hidden widths of the network.
        alpha_scale: s_α; the learned kick to a momentum of order 1 is of order s_α.
        beta_scale: s_β, in units of the momentum.
        network: a row of `l2e.network.NETWORKS`; "pallas" is for GPUs, and not yet measured on one.

    Raises:
        ValueError: for an unknown network, impossible widths or scales that are not finite.
    """
    chosen = lookup(NETWORKS, network, "network")

    def init(key: Key) -> Params:
        zero = jnp.zeros((), jnp.float32)
        weights = init_network(key, widths)
        last = f"w{len(widths)}"
        weights[last] = jnp.zeros_like(weights[last])
        return weights | {"log_step_size": zero, "logit_momentum_decay": zero}

    def physics(
        phi: Params, step_size: jax.Array, momentum_decay: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        # sigmoid(logit(a) + φ_a), written so that φ_a = 0 returns a itself and nothing overflows.
        odds_against = (1.0 - momentum_decay) * jnp.exp(-phi["logit_momentum_decay"])
        decay = momentum_decay / (momentum_decay + odds_against)
        return step_size * jnp.exp(phi["log_step_size"]), decay

    def gradients(
        phi: Params, encoded: Any, feature: jax.Array, r: jax.Array, epsilon: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        net_alpha, net_beta = chosen.decode(phi, encoded, feature, widths)
        kick = alpha_scale / jnp.maximum(epsilon, _SMALLEST)
        return kick * net_alpha, r + beta_scale * net_beta

    return Kinetic(
        init=init,
        physics=physics,
        encode=chosen.encode,
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
