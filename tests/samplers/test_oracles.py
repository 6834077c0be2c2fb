"""The same steps as blackjax takes, on the same noise and minibatches."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.sgmcmc import diffusions
from blackjax.sgmcmc.gradients import grad_estimator

STEPS = 30
KEYS = jax.random.split(jax.random.key(3), STEPS)


@pytest.fixture
def logdensity_gradient(problem):
    """blackjax's own minibatch estimate of ∇ log p, from single-example likelihoods."""

    def log_likelihood(params, example):
        return problem.log_likelihood(params, jax.tree.map(lambda leaf: leaf[None], example))[0]

    return grad_estimator(problem.log_prior, log_likelihood, problem.num_data)


def assert_close(ours, theirs):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6), ours, theirs)


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_sgld_equals_blackjax(problem, build, logdensity_gradient, temperature):
    h = 1e-3
    kernel = build("sgld", problem.potential, step_size=h, temperature=temperature)
    ours, theirs = kernel.init(KEYS[0], problem.params), problem.params
    step, oracle = jax.jit(kernel.step), jax.jit(blackjax.sgld(logdensity_gradient).step)
    for count, key in enumerate(KEYS):
        batch = problem.batch(count)
        ours, _ = step(key, ours, batch)
        theirs = oracle(key, theirs, batch, h, temperature)
        assert_close(ours.position, theirs)


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_sghmc_equals_blackjax(problem, build, logdensity_gradient, temperature):
    """blackjax moves before it kicks, so its pair (θ, r) is ours half a step apart."""
    h, decay = 1e-3, 0.15
    epsilon = h**0.5
    kernel = build(
        "sghmc", problem.potential, step_size=h, momentum_decay=decay, temperature=temperature
    )
    solver = diffusions.sghmc(alpha=decay / epsilon, beta=0)

    @jax.jit
    def oracle(key, position, momentum, batch):
        moved = jax.tree.map(lambda x, p: x + epsilon * p, position, momentum)
        gradient = logdensity_gradient(moved, batch)
        return solver(key, position, momentum, gradient, epsilon, temperature)

    ours = kernel.init(jax.random.key(8), problem.params)
    momentum = ours.momentum
    position = jax.tree.map(lambda x, p: x - epsilon * p, problem.params, momentum)
    step = jax.jit(kernel.step)
    for count, key in enumerate(KEYS):
        batch = problem.batch(count)
        before, (ours, _) = ours.position, step(key, ours, batch)
        position, momentum = oracle(key, position, momentum, batch)
        assert_close((before, ours.momentum), (position, momentum))


def test_initial_momentum_is_thermal(build, nested):
    """N(0, T I), over many keys."""
    kernel = build("sghmc", nested.potential, temperature=0.25)
    keys = jax.random.split(jax.random.key(0), 4000)
    momentum = jax.vmap(lambda key: kernel.init(key, nested.params).momentum)(keys)
    flat = jnp.concatenate([leaf.reshape(4000, -1) for leaf in jax.tree.leaves(momentum)], axis=1)
    cov = np.cov(np.asarray(flat).T)
    # Standard errors: T/√n off the diagonal, √2 T/√n on it.
    np.testing.assert_allclose(cov, 0.25 * np.eye(len(cov)), atol=5 * 2**0.5 * 0.25 / 4000**0.5)
