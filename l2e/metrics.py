"""Predictive metrics: arrays in, scalars out.

Shapes: log-probabilities [N, Y] of a prediction, [K, N, Y] of its K members; integer labels [N].
"""

import jax
import jax.numpy as jnp

ECE_BINS = 15


def accuracy(log_probs: jax.Array, labels: jax.Array) -> jax.Array:
    """Share of examples whose most probable class is the label; of ties, the first class."""
    return jnp.mean((jnp.argmax(log_probs, axis=-1) == labels).astype(log_probs.dtype))


def negative_log_likelihood(log_probs: jax.Array, labels: jax.Array) -> jax.Array:
    """−(1/N) Σ log p(yᵢ|xᵢ), in nats an example."""
    return -jnp.mean(jnp.take_along_axis(log_probs, labels[:, None], axis=-1))


def expected_calibration_error(
    log_probs: jax.Array, labels: jax.Array, bins: int = ECE_BINS
) -> jax.Array:
    """Σ_b (N_b/N) |accuracy_b − confidence_b| over equal-width bins (b/15, (b+1)/15].

    Source: Guo et al. (2017), eq. (3). Confidence is the largest probability; zero confidence
    belongs to the first bin.
    """
    confidence = jnp.exp(jnp.max(log_probs, axis=-1))
    correct = (jnp.argmax(log_probs, axis=-1) == labels).astype(confidence.dtype)
    index = jnp.clip(jnp.ceil(confidence * bins).astype(jnp.int32) - 1, 0, bins - 1)
    gap = jnp.zeros((bins,), confidence.dtype).at[index].add(correct - confidence)
    return jnp.sum(jnp.abs(gap)) / labels.shape[0]


def pairwise_kld(member_log_probs: jax.Array) -> jax.Array:
    """Mean KL(p_j ‖ p_k) over ordered pairs j ≠ k of members and over examples, in nats.

    It measures how much the draws' predictions differ. [K, N, Y] -> scalar; 0 for one draw.
    """
    draws, examples, _ = member_log_probs.shape
    if draws == 1:
        return jnp.zeros((), member_log_probs.dtype)
    probs = jnp.exp(member_log_probs)
    excess = member_log_probs - jnp.mean(member_log_probs, axis=0, keepdims=True)
    return jnp.sum(jnp.where(probs > 0, probs * excess, 0.0)) / ((draws - 1) * examples)


METRICS = {
    "ACC": accuracy,
    "NLL": negative_log_likelihood,
    "ECE": expected_calibration_error,
}
"""Metrics of one prediction, by the names under which tables print them."""
