"""Many independent short chains against moments known in closed form.

The chains share nothing, so n of them are an effective sample of n: the mean's standard error is
√(σ²/n) and the variance's is √((m₄ − σ⁴)/n), both estimated from the ends themselves.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.special import digamma, polygamma

import l2e

pytestmark = pytest.mark.slow

CHAINS = 4000
SIGMAS = 4.5
PRECISION = np.array([[1.5, 0.6], [0.6, 1.0]], np.float32)
MEAN = np.array([1.0, -0.5], np.float32)
ROWS = {
    "sgld": {"step_size": 4e-3},
    "sghmc": {"step_size": 4e-4, "momentum_decay": 0.04},
    "l2e/gaussian": {"step_size": 4e-4, "momentum_decay": 0.04},
}


def gaussian(theta, batch):
    offset = theta - MEAN
    return 0.5 * offset @ jnp.asarray(PRECISION) @ offset


def log_gamma(theta, batch):
    """U = e^θ − 2θ: e^θ is Gamma(2, 1) distributed, and θ is skewed to the left."""
    return jnp.sum(jnp.exp(theta) - 2.0 * theta)


TARGETS = {
    "gaussian": (gaussian, MEAN, np.linalg.inv(PRECISION)),
    "log-gamma": (log_gamma, np.full(2, digamma(2.0)), np.eye(2) * polygamma(1, 2.0)),
}


def ends(kernel, steps):
    """Positions [CHAINS, 2] after so many steps, from overdispersed starts."""

    def chain(key):
        start = 2.0 * jax.random.normal(jax.random.fold_in(key, 0), (2,))
        state = kernel.init(jax.random.fold_in(key, 1), start)
        keys = jax.random.split(jax.random.fold_in(key, 2), steps)
        state, _ = jax.lax.scan(lambda s, k: (kernel.step(k, s, None)[0], None), state, keys)
        return ravel_pytree(state.position)[0]

    keys = jax.random.split(jax.random.key(0), CHAINS)
    return np.float64(jax.jit(jax.vmap(chain))(keys))


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("target", TARGETS)
def test_ends_have_the_target_s_mean_and_covariance(build, row, target):
    energy, mean, cov = TARGETS[target]
    potential = l2e.Potential(jax.value_and_grad(energy), num_data=1)
    found = ends(build(row, potential, **ROWS[row]), steps=3000)
    spread = found - found.mean(axis=0)
    products = spread[:, :, None] * spread[:, None, :]
    for estimate, wanted, what in ((found, mean, "mean"), (products, cov, "covariance")):
        error = estimate.std(axis=0) / CHAINS**0.5
        deviation = np.abs(estimate.mean(axis=0) - wanted) / error
        assert deviation.max() < SIGMAS, f"the {what} is biased by {deviation} standard errors"
