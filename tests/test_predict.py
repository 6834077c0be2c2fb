"""The Bayesian model average against the mean of probabilities, in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import l2e

WEIGHTS = jax.random.normal(jax.random.key(0), (4, 3, 5))
X = jax.random.normal(jax.random.key(1), (7, 3))


def apply(weights, x):
    return x @ weights


def softmax(logits):
    exp = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exp / exp.sum(axis=-1, keepdims=True)


def as_draws(position):
    info = l2e.Info(*(jnp.zeros(4),) * 3)
    return l2e.Draws(position, info, jnp.arange(4))


@pytest.mark.parametrize("draws", [WEIGHTS, as_draws(WEIGHTS)], ids=["pytree", "Draws"])
@pytest.mark.parametrize("batch_size", [None, 1, 3, 7, 100])
def test_average_is_of_probabilities_and_not_of_logits(draws, batch_size):
    members = softmax(np.einsum("nd,kdy->kny", np.float64(X), np.float64(WEIGHTS)))
    found = l2e.predict(apply, draws, X, batch_size=batch_size)
    np.testing.assert_allclose(np.exp(found), members.mean(axis=0), rtol=1e-5)
    each = l2e.member_log_probs(apply, draws, X, batch_size=batch_size)
    np.testing.assert_allclose(np.exp(each), members, rtol=1e-5)


def test_by_hand():
    """Members .9 and .1 average to a half; log-probabilities would average to log .3."""
    logits = jnp.log(jnp.array([[0.9, 0.1], [0.1, 0.9]]))
    found = l2e.predict(lambda row, x: jnp.tile(row, (len(x), 1)), logits, jnp.zeros((3, 1)))
    np.testing.assert_allclose(found, np.full((3, 2), np.log(0.5)), rtol=1e-6)


def test_vanishing_probabilities_stay_finite_in_logs():
    logits = jnp.array([[0.0, -200.0], [0.0, -300.0]])
    found = l2e.predict(lambda row, x: row[None], logits, jnp.zeros((1, 1)))
    np.testing.assert_allclose(found[0, 1], -200.0 - np.log(2.0), rtol=1e-6)
