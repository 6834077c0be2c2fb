"""The one place that scales by n: exact gradients, unbiased batches, numbers worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import l2e

CLOSE = {"rtol": 2e-5, "atol": 2e-5}


def assert_close(a, b):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, **CLOSE), a, b)


def test_full_batch_is_the_posterior_itself(problem):
    def energy(params):
        likelihood = jnp.sum(problem.log_likelihood(params, problem.data))
        return -likelihood - problem.log_prior(params)

    ours = problem.potential.value_and_grad(problem.params, problem.data)
    assert_close(ours, jax.value_and_grad(energy)(problem.params))


def test_batches_of_a_partition_average_to_the_whole(problem):
    batches = [problem.batch(index, size=8) for index in range(5)]
    parts = [problem.potential.value_and_grad(problem.params, batch) for batch in batches]
    mean = jax.tree.map(lambda *leaves: jnp.mean(jnp.stack(leaves), axis=0), *parts)
    assert_close(mean, problem.potential.value_and_grad(problem.params, problem.data))


def test_n_scales_the_likelihood_and_the_prior_enters_once():
    """Log-likelihoods −1, −4; n = 10, B = 2: 5 · (1 + 4) + 7 = 32, and the slope 5 · 10 + 3."""
    potential = l2e.minibatch(lambda m, y: -((m * y) ** 2), lambda m: -3.0 * m - 4.0, 10)
    energy, gradient = potential.value_and_grad(jnp.float32(1.0), jnp.array([1.0, 2.0]))
    assert float(energy) == 32.0
    assert float(gradient) == 53.0


@pytest.mark.parametrize("size", [1, 4, 7, 8, 39, 40, 100])
def test_micro_batches_sum_to_the_batch(problem, size):
    """With and without a remainder."""
    pieces = l2e.minibatch(
        problem.log_likelihood, problem.log_prior, problem.num_data, micro_batch=size
    )
    whole = problem.potential.value_and_grad(problem.params, problem.data)
    assert_close(pieces.value_and_grad(problem.params, problem.data), whole)


def test_an_empty_micro_batch_is_refused():
    with pytest.raises(ValueError, match="micro_batch is 0; expected at least 1, or None"):
        l2e.minibatch(lambda m, y: -y, lambda m: -m, 4, micro_batch=0)


@pytest.mark.parametrize(
    ("reduce", "shape"),
    [
        (jnp.sum, "()"),
        (jnp.mean, "()"),
        (lambda a: a[:, None], "(8, 1)"),
        (lambda a: a[:3], "(3,)"),
    ],
)
def test_a_likelihood_not_per_example_is_refused(nested, reduce, shape):
    potential = l2e.minibatch(
        lambda params, batch: reduce(nested.log_likelihood(params, batch)), nested.log_prior, 40
    )
    with pytest.raises(ValueError, match="neither their sum nor their mean") as caught:
        potential.value_and_grad(nested.params, nested.batch(0))
    assert f"returned shape {shape} for a batch of 8" in str(caught.value)


@pytest.mark.parametrize("num_data", [0, -3, float("nan")])
def test_impossible_n_is_refused(num_data):
    with pytest.raises(ValueError, match=f"num_data is {num_data}; expected"):
        l2e.minibatch(lambda m, y: -y, lambda m: -m, num_data)


def test_gaussian_prior_is_the_normal_density():
    """Differences of log p against the density written out: σ = 2, two tensors."""
    log_prior = l2e.priors.gaussian(std=2.0)
    a = {"w": jnp.array([[1.0, -2.0]]), "b": jnp.float32(3.0)}
    zero = jax.tree.map(jnp.zeros_like, a)
    assert float(log_prior(a) - log_prior(zero)) == pytest.approx(-(1 + 4 + 9) / 8)
    assert log_prior(a).dtype == jnp.float32


@pytest.mark.parametrize("std", [0.0, -1.0, float("nan")])
def test_impossible_prior_is_refused(std):
    with pytest.raises(ValueError, match=f"std is {std}; expected"):
        l2e.priors.gaussian(std)
