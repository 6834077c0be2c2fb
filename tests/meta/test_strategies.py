"""The estimator is eq. (10), its expectation the gradient, and Adam lives for the whole run."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from l2e.meta.outer import drop_pairs
from l2e.meta.strategies import STRATEGIES, outer_adam

SIGMA = 0.05
PHI = {"b": jnp.array([0.5, -1.0]), "w": jnp.array([[1.0, 2.0, -0.5]])}


def flat(tree, axis=0):
    return np.concatenate(
        [np.asarray(x).reshape(*x.shape[:axis], -1) for x in jax.tree.leaves(tree)], axis=axis
    )


def strategy_with(optimizer, pairs=8, name="open_es"):
    return STRATEGIES[name](PHI, pairs=pairs, sigma=SIGMA, optimizer=optimizer)


def plain(learning_rate=1.0):
    """Gradient descent in the shape of `outer_adam`: its update is the estimate itself."""
    chain = outer_adam(1.0, 0.9, 0.99, 1.0)
    record = optax.GradientTransformation(
        lambda p: chain.init(p)[:1], lambda u, s, p=None: (u, (type(s[0])(optax.tree.norm(u)),))
    )
    return optax.chain(record, optax.sgd(learning_rate))


def estimate(strategy, losses_of, key):
    """The estimate that one `tell` makes, read off a step of plain gradient descent."""
    state = strategy.init(jax.random.key(0), PHI)
    population = strategy.ask(key, state)
    losses = losses_of(population)
    new = strategy.tell(key, state, population, jnp.asarray(losses, jnp.float32))
    return flat(strategy.mean(state)) - flat(strategy.mean(new)), population


def test_population_is_antithetic_around_phi():
    strategy = strategy_with(plain())
    population = strategy.ask(jax.random.key(3), strategy.init(jax.random.key(0), PHI))
    members = flat(population, axis=2)
    assert members.shape == (8, 2, 5)
    eta = members - flat(PHI)
    np.testing.assert_allclose(eta[:, 0], -eta[:, 1], atol=2e-7)
    assert 0.5 * SIGMA < eta.std() < 1.5 * SIGMA
    assert len(np.unique(eta[:, 0, 0])) == 8


@pytest.mark.parametrize("name", STRATEGIES)
def test_estimate_is_equation_10(name):
    rng = np.random.default_rng(0)
    losses = rng.normal(size=(8, 2))
    found, population = estimate(
        strategy_with(plain(), name=name), lambda _: losses, jax.random.key(1)
    )
    eta = flat(population, axis=2)[:, 0] - flat(PHI)
    by_hand = ((losses[:, 0] - losses[:, 1])[:, None] * eta).sum(0) / (2 * 8 * SIGMA**2)
    np.testing.assert_allclose(found, by_hand, rtol=2e-4, atol=1e-4)


@pytest.mark.parametrize("name", STRATEGIES)
def test_expectation_on_a_quadratic_is_its_gradient(name):
    """E[(L⁺−L⁻)η]/2σ² = ∇L exactly for a quadratic; averaged over 4,000 pairs."""
    rng = np.random.default_rng(1)
    root = rng.normal(size=(5, 5))
    curvature, slope, pairs = root @ root.T, rng.normal(size=5), 4000

    def losses_of(population):
        members = flat(population, axis=2).astype(np.float64)
        return 0.5 * np.einsum("nsi,ij,nsj->ns", members, curvature, members) + members @ slope

    strategy = strategy_with(plain(), pairs=pairs, name=name)
    found, _ = estimate(strategy, losses_of, jax.random.key(2))
    gradient = curvature @ flat(PHI) + slope
    # Var[z zᵀg] = |g|² I + g gᵀ for standard normal z.
    error = np.sqrt((gradient @ gradient + gradient**2) / pairs)
    assert np.all(np.abs(found - gradient) < 4 * error)
    assert np.linalg.norm(found - gradient) < 0.2 * np.linalg.norm(gradient)


def test_adam_is_optax_adam_on_the_clipped_estimate_and_counts_every_step():
    strategy = strategy_with(outer_adam(0.01, 0.9, 0.99, 1.0))
    state = strategy.init(jax.random.key(0), PHI)
    adam = optax.adam(0.01, 0.9, 0.99)
    mean, moments = jnp.asarray(flat(PHI)), adam.init(jnp.asarray(flat(PHI)))
    rng = np.random.default_rng(2)
    for step in range(5):
        population = strategy.ask(jax.random.key(step), state)
        losses = rng.normal(size=(8, 2)).astype(np.float32)
        eta = flat(population, axis=2)[:, 0] - np.asarray(mean)
        gradient = ((losses[:, 0] - losses[:, 1])[:, None] * eta).sum(0) / (16 * SIGMA**2)
        norm = np.linalg.norm(gradient)
        with jax.numpy_dtype_promotion("standard"):
            updates, moments = adam.update(jnp.asarray(gradient / max(norm, 1.0)), moments)
        mean = optax.apply_updates(mean, updates)
        state = strategy.tell(jax.random.key(step), state, population, jnp.asarray(losses))
        np.testing.assert_allclose(strategy.gradient_norm(state), norm, rtol=1e-3)
        np.testing.assert_allclose(flat(strategy.mean(state)), mean, rtol=1e-4, atol=1e-5)
    counts = [
        int(leaf.count)
        for leaf in jax.tree.leaves(state.opt_state, is_leaf=lambda x: hasattr(x, "mu"))
        if hasattr(leaf, "mu")
    ]
    assert counts == [5]


def test_dropped_pairs_leave_the_estimate_over_the_others():
    losses = np.random.default_rng(3).normal(size=(8, 2)).astype(np.float32)
    losses[[1, 4], [0, 1]] = np.nan, np.inf
    kept = np.isfinite(losses).all(axis=1)
    found, population = estimate(
        strategy_with(plain()), lambda _: drop_pairs(losses, kept), jax.random.key(1)
    )
    eta = (flat(population, axis=2)[:, 0] - flat(PHI))[kept]
    differences = losses[kept, 0] - losses[kept, 1]
    by_hand = (differences[:, None] * eta).sum(0) / (2 * 6 * SIGMA**2)
    np.testing.assert_allclose(found, by_hand, rtol=2e-4, atol=1e-4)
