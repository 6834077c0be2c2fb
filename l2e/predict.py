"""The Bayesian model average: log (1/K) Σ_k p(y|x, θ_k).

The meta-loss, the evaluation and users call the same functions.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from l2e.batches import in_pieces
from l2e.chain import Draws
from l2e.types import Params

Apply = Callable[[Params, jax.Array], jax.Array]


def predict(
    apply: Apply, draws: Draws | Params, x: jax.Array, *, batch_size: int | None = None
) -> jax.Array:
    """Log-probabilities of the model average: log (1/K) Σ_k softmax(apply(θ_k, x)).

    Args:
        apply: (θ, x [B, ...]) -> logits (or log-probabilities) [B, Y].
        draws: from `l2e.sample`, or any pytree of parameters with a leading axis K.
        x: inputs [N, ...].
        batch_size: inputs evaluated at once, to bound memory; all of them by default.

    Returns:
        Log-probabilities [N, Y].
    """
    return average(member_log_probs(apply, draws, x, batch_size=batch_size))


def member_log_probs(
    apply: Apply, draws: Draws | Params, x: jax.Array, *, batch_size: int | None = None
) -> jax.Array:
    """Log-probabilities of each draw by itself: [K, N, Y].

    Draws are evaluated one after another, and inputs `batch_size` at a time.
    """
    positions = draws.position if isinstance(draws, Draws) else draws

    def log_probs(params: Params) -> jax.Array:
        if batch_size is None or batch_size >= len(x):
            return jax.nn.log_softmax(apply(params, x))
        pieces, rest = in_pieces(x, batch_size)
        rows = jax.lax.map(lambda piece: jax.nn.log_softmax(apply(params, piece)), pieces)
        rows = rows.reshape(-1, rows.shape[-1])
        if rest is None:
            return rows
        return jnp.concatenate([rows, jax.nn.log_softmax(apply(params, rest))])

    return jax.lax.map(log_probs, positions)


def average(log_probs: jax.Array) -> jax.Array:
    """log (1/K) Σ_k exp(log p_k): [K, N, Y] -> [N, Y]."""
    return jax.nn.logsumexp(log_probs, axis=0) - jnp.log(jnp.float32(log_probs.shape[0]))
