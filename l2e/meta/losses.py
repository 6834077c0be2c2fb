"""Meta-losses: how a short chain is judged by its draws' predictions on held-out data.

Each takes the draws' log-probabilities [K, N, Y] and labels [N] and returns a scalar in nats.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from l2e.metrics import negative_log_likelihood
from l2e.predict import average

MetaLoss = Callable[[jax.Array, jax.Array], jax.Array]


def bma(log_probs: jax.Array, labels: jax.Array) -> jax.Array:
    """NLL of the model average: −(1/N) Σᵢ log (1/K) Σ_k p(yᵢ|xᵢ, θ_k)."""
    return negative_log_likelihood(average(log_probs), labels)


def cross_entropy(log_probs: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean NLL of the draws by themselves (the paper's ablation): it rewards no diversity."""
    return jnp.mean(jax.vmap(negative_log_likelihood, in_axes=(0, None))(log_probs, labels))


LOSSES: dict[str, MetaLoss] = {"bma": bma, "cross_entropy": cross_entropy}
