"""Metrics against numbers worked out by hand, a plain loop, and scikit-learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import accuracy_score, log_loss

from l2e import metrics


def random_predictions(seed=0, examples=500, classes=6, scale=3.0):
    rng = np.random.default_rng(seed)
    logits = jnp.asarray(rng.normal(size=(examples, classes)) * scale, jnp.float32)
    return jax.nn.log_softmax(logits), jnp.asarray(rng.integers(0, classes, examples))


def ece_loop(log_probs, labels, bins=15):
    """Guo et al. (2017), eq. (3), as it is printed."""
    confidence = np.exp(np.max(log_probs, axis=1))
    correct = np.argmax(log_probs, axis=1) == labels
    total = 0.0
    for b in range(bins):
        inside = (confidence > np.float32(b / bins)) & (confidence <= np.float32((b + 1) / bins))
        if b == bins - 1:
            inside |= confidence > 1.0  # exp may round above one
        if inside.any():
            gap = abs(correct[inside].mean() - np.float64(confidence[inside]).mean())
            total += inside.mean() * gap
    return total


def test_likelihood_and_accuracy_equal_scikit_learn():
    log_probs, labels = random_predictions()
    probs = np.exp(np.float64(log_probs))
    wanted = log_loss(labels, probs / probs.sum(axis=1, keepdims=True), labels=range(6))
    assert metrics.negative_log_likelihood(log_probs, labels) == pytest.approx(wanted, rel=1e-5)
    wanted = accuracy_score(labels, np.argmax(log_probs, axis=1))
    assert metrics.accuracy(log_probs, labels) == pytest.approx(wanted)


def test_of_ties_the_first_class_counts():
    log_probs = jnp.log(jnp.array([[0.4, 0.4, 0.2], [0.4, 0.4, 0.2], [0.2, 0.4, 0.4]]))
    assert metrics.accuracy(log_probs, jnp.array([0, 1, 1])) == pytest.approx(2 / 3)


ECE_BY_HAND = {
    # Bins of fifteenths: (.6, .667] holds .65 twice, one right: |1 − 1.3|; (.8, .867] holds .85,
    # wrong: .85; both over three examples.
    "two bins": ([0.65, 0.65, 0.85], [True, False, False], (0.3 + 0.85) / 3),
    # Gaps cancel within a bin, and only there.
    "one bin": ([0.91, 0.93], [True, False], 0.84 / 2),
    "apart": ([0.91, 0.95], [True, False], (0.09 + 0.95) / 2),
    "certain and right": ([1.0, 1.0], [True, True], 0.0),
    "certain and wrong": ([1.0, 1.0], [False, False], 1.0),
    "one example": ([0.7], [True], 0.3),
}


@pytest.mark.parametrize("case", ECE_BY_HAND)
def test_calibration_error_by_hand(case):
    confidence, correct, wanted = ECE_BY_HAND[case]
    p = jnp.array(confidence)
    labels = jnp.where(jnp.array(correct), 0, 1)
    found = metrics.expected_calibration_error(jnp.log(jnp.stack([p, 1 - p], axis=1)), labels)
    assert float(found) == pytest.approx(wanted, abs=1e-6)


def test_a_confidence_on_an_edge_belongs_to_the_lower_bin():
    """With halves for bins: .5 lies in (0, .5], .75 in (.5, 1]; one bin would cancel them."""
    log_probs = jnp.log(jnp.array([[0.5, 0.25, 0.25], [0.75, 0.125, 0.125]]))
    found = metrics.expected_calibration_error(log_probs, jnp.array([0, 1]), bins=2)
    assert float(found) == pytest.approx((0.5 + 0.75) / 2)


ADVERSARIAL = {
    "random": random_predictions(),
    "sharp": random_predictions(1, scale=40.0),
    "flat": random_predictions(2, scale=0.01),
    "one class": (jnp.zeros((20, 1)), jnp.zeros(20, jnp.int32)),
    "constant": (jnp.log(jnp.full((30, 4), 0.25)), jnp.arange(30) % 4),
    "one example": random_predictions(3, examples=1),
    "impossible classes": (jnp.log(jnp.array([[1.0, 0.0], [0.0, 1.0]])), jnp.array([0, 0])),
}


@pytest.mark.parametrize("case", ADVERSARIAL)
def test_calibration_error_equals_a_loop_over_bins(case):
    log_probs, labels = ADVERSARIAL[case]
    found = jax.jit(metrics.expected_calibration_error)(log_probs, labels)
    assert float(found) == pytest.approx(ece_loop(*map(np.asarray, (log_probs, labels))), abs=2e-6)


def kl(p, q):
    return float(np.sum(np.array(p) * np.log(np.array(p) / np.array(q))))


@pytest.mark.parametrize(
    "members", [[[0.5, 0.5], [0.9, 0.1]], [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]]
)
def test_divergence_is_the_mean_over_ordered_pairs(members):
    pairs = [kl(p, q) for i, p in enumerate(members) for j, q in enumerate(members) if i != j]
    # Two examples: the second on which all members agree.
    log_probs = jnp.log(jnp.array([[p, [0.3, 0.7]] for p in members]))
    found = metrics.pairwise_kld(log_probs)
    assert float(found) == pytest.approx(np.mean(pairs) / 2, rel=1e-5)


def test_divergence_at_its_extremes():
    same = jnp.tile(jnp.log(jnp.array([[[1.0, 0.0]]])), (3, 1, 1))
    assert metrics.pairwise_kld(same) == 0.0
    assert metrics.pairwise_kld(same[:1]) == 0.0
    opposite = jnp.log(jnp.array([[[1.0, 0.0]], [[0.0, 1.0]]]))
    assert metrics.pairwise_kld(opposite) == jnp.inf


@pytest.mark.parametrize("name", metrics.METRICS)
def test_the_table_s_metrics_are_float32_scalars(name):
    value = jax.jit(metrics.METRICS[name])(*random_predictions())
    assert (value.shape, value.dtype) == ((), jnp.float32)
