"""The law that a sampler leaves invariant, exactly and without sampling.

On a Gaussian target with full gradients one step is x' = A x + b + G ξ. A, b and G are read off the
step itself; the stationary law is then N((I − A)⁻¹ b, Σ) with Σ = A Σ Aᵀ + G Gᵀ, and it has to tend
to exp(−(U + ½‖r‖²)/T).
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.linalg import solve_discrete_lyapunov

import l2e
from l2e import dynamics
from l2e.samplers import sgld
from l2e.tiles import Tiling

PRECISION = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 0.5]])
MEAN = np.array([1.0, -2.0, 0.5])
DIM = len(MEAN)
FRICTION = 1.5
# Langevin's larger ones keep 1 − hλ from being rounded in float32.
STEP_SIZES = {
    "sgld": (4e-2, 1e-2, 2.5e-3),
    "sghmc": (1e-2, 2.5e-3, 6.25e-4),
    "l2e/gaussian": (1e-2, 2.5e-3, 6.25e-4),
}


def target(theta, batch):
    offset = theta - jnp.asarray(MEAN, jnp.float32)
    return 0.5 * offset @ jnp.asarray(PRECISION, jnp.float32) @ offset


POTENTIAL = l2e.Potential(jax.value_and_grad(target), num_data=1)


def one_step(build, row):
    """(h, T, key, flat θ or (θ, r)) -> the same after a step; and the length of the flat vector."""
    fields = ("position",) if row == "sgld" else ("position", "momentum")

    tiling = Tiling((DIM,))

    def step(h, temperature, key, x):
        decay = {} if row == "sgld" else {"momentum_decay": FRICTION * jnp.sqrt(h)}
        kernel = build(row, POTENTIAL, step_size=h, temperature=temperature, **decay)
        state = kernel.init(key, jnp.zeros(DIM))
        values = dict(zip(fields, jnp.split(x, len(fields)), strict=True))
        if row.startswith("l2e"):
            values["momentum"] = tiling.pack(values["momentum"])
        after, _ = kernel.step(key, state._replace(**values), None)
        if row.startswith("l2e"):
            after = after._replace(momentum=tiling.unpack(after.momentum, jnp.zeros(DIM)))
        return ravel_pytree([getattr(after, name) for name in fields])[0]

    return step, DIM * len(fields)


def affine_maps(build, row):
    """(h, T) -> A, b and G of a row, as float64."""
    step, size = one_step(build, row)
    keys = jax.random.split(jax.random.key(1), 4 * DIM)
    xi = np.float64(jax.vmap(lambda key: jax.random.normal(key, (DIM,)))(keys))
    # The noise is read off around the fixed point, where it is not rounded against b.
    fixed = jnp.concatenate([jnp.asarray(MEAN, jnp.float32), jnp.zeros(size - DIM)])

    @jax.jit
    def parts(h, temperature):
        cold = jnp.float32(0.0)
        A = jax.jacobian(step, argnums=3)(h, cold, keys[0], jnp.zeros(size))
        b = step(h, cold, keys[0], jnp.zeros(size))
        noisy = jax.vmap(step, (None, None, 0, None))(h, temperature, keys, fixed)
        return A, b, noisy - step(h, cold, keys[0], fixed)[None]

    def affine_map(h, temperature):
        A, b, offsets = map(np.float64, parts(jnp.float32(h), jnp.float32(temperature)))
        G, residual, rank, _ = np.linalg.lstsq(xi, offsets, rcond=None)
        assert rank == DIM
        assert residual.max(initial=0.0) < 1e-10, "the noise is not linear in ξ ~ N(0, I)"
        return A, b, G.T

    return affine_map


def stationary_law(A, b, G):
    """Mean and covariance of x' = A x + b + G ξ."""
    assert np.abs(np.linalg.eigvals(A)).max() < 1.0, "the step does not contract"
    return np.linalg.solve(np.eye(len(A)) - A, b), solve_discrete_lyapunov(A, G @ G.T)


def relative_errors(affine_map, h, temperature):
    """Of the position's and the momentum's covariance against the target's."""
    mean, cov = stationary_law(*affine_map(h, temperature))
    np.testing.assert_allclose(mean[:DIM], MEAN, atol=1e-3)
    np.testing.assert_allclose(mean[DIM:], 0.0, atol=1e-4)
    position = temperature * np.linalg.inv(PRECISION)
    errors = [np.linalg.norm(cov[:DIM, :DIM] - position) / np.linalg.norm(position)]
    if len(cov) > DIM:
        errors.append(np.linalg.norm(cov[DIM:, DIM:] / temperature - np.eye(DIM)) / DIM**0.5)
    return errors


def check_stationary(build, row, temperature):
    """Raise AssertionError unless the law tends to the target, at the rate of the scheme.

    The position's error is of first order in h. The momentum's is of first order in ε: friction
    and noise alone give it the variance T / (1 − a/2).
    """
    affine_map = affine_maps(build, row)
    errors = np.array([relative_errors(affine_map, h, temperature) for h in STEP_SIZES[row]])
    limits = np.array([1e-3, 2e-2])[: errors.shape[1]]
    assert (errors[-1] < limits).all(), f"relative errors {errors[-1]} at the smallest h"
    rates = np.array([4.0, 2.0])[: errors.shape[1]]
    np.testing.assert_allclose(errors[:-1] / errors[1:], [rates, rates], rtol=0.1)


@pytest.mark.parametrize("temperature", [1.0, 0.25])
@pytest.mark.parametrize("row", STEP_SIZES)
def test_the_stationary_law_tends_to_the_target(build, row, temperature):
    check_stationary(build, row, temperature)


def without_epsilon(a, temperature):
    """2C in place of 2Cε."""
    return jnp.sqrt(2.0 * FRICTION * temperature) * jnp.ones_like(a)


MUTANTS = {
    "variance 2C, without ε": without_epsilon,
    "factor 2 missing": lambda a, temperature: jnp.sqrt(a * temperature),
    "T² in place of T": lambda a, temperature: temperature * jnp.sqrt(2.0 * a),
    "1% too little": lambda a, temperature: jnp.sqrt(2.0 * 0.99 * a * temperature),
}


@pytest.mark.parametrize("mutant", MUTANTS)
@pytest.mark.parametrize("row", ["sghmc", "l2e/gaussian"])
def test_wrong_noise_fails_the_check(monkeypatch, build, row, mutant):
    scale = MUTANTS[mutant]
    monkeypatch.setattr(dynamics, "noise_scale", scale)
    exact = dynamics.PHYSICS["exact"]
    monkeypatch.setitem(dynamics.PHYSICS, "exact", exact._replace(noise_scale=scale))
    with pytest.raises(AssertionError, match=r"relative errors|rtol=0\.1"):
        check_stationary(build, row, 0.25)


def test_wrong_langevin_noise_fails_the_check(monkeypatch, build):
    monkeypatch.setattr(
        sgld,
        "normal_like",
        lambda key, tree: jax.tree.map(lambda xi: xi / 2**0.5, dynamics.normal_like(key, tree)),
    )
    with pytest.raises(AssertionError, match="relative errors"):
        check_stationary(build, "sgld", 1.0)


def test_a_lost_friction_fails_the_check(monkeypatch, build):
    correct = dynamics.momentum_step

    def frictionless(momentum, gradient, alpha, beta, *rest):
        return correct(momentum, gradient, alpha, jax.tree.map(jnp.zeros_like, beta), *rest)

    monkeypatch.setattr(dynamics, "momentum_step", frictionless)
    with pytest.raises(AssertionError, match="does not contract"):
        check_stationary(build, "sghmc", 1.0)


def test_the_reference_physics_misses_the_target(build):
    """The public code's noise has no ε: `physics="reference"` is there to show this."""

    def reference(row, potential, **settings):
        return build(row, potential, physics="reference", **settings)

    with pytest.raises(AssertionError, match="relative errors"):
        check_stationary(reference, "l2e/gaussian", 1.0)
