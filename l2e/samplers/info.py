"""What every sampler reports of a step, computed alike. Unread, the compiler removes it."""

import jax
import jax.numpy as jnp

from l2e.types import Info, Params


def observe(energy: jax.Array, gradient: Params, before: Params, after: Params) -> Info:
    """Energy Ũ(θ_t) in nats, ‖∇Ũ(θ_t)‖ and ‖θ_{t+1} − θ_t‖."""
    update = jax.tree.map(jnp.subtract, after, before)
    return Info(energy, _norm(gradient), _norm(update))


def _norm(tree: Params) -> jax.Array:
    squares = sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(tree))
    return jnp.sqrt(jnp.asarray(squares))
