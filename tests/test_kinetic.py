"""Kinetic energies: what every row keeps, and each row's own formula."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from l2e.features import NUM_SHARED
from l2e.kinetic import KINETICS

P = 7
EPSILON = jnp.float32(0.05)


def random(*shape, seed=0):
    return jax.random.normal(jax.random.key(seed), shape)


def random_phi(kinetic, seed=3):
    phi = kinetic.init(jax.random.key(seed))
    return {name: random(*leaf.shape, seed=i) for i, (name, leaf) in enumerate(sorted(phi.items()))}


def evaluate(kinetic, phi, shared, feature, r, epsilon=EPSILON):
    return kinetic.gradients(phi, kinetic.encode(phi, shared), feature, r, epsilon)


def network(phi, features):
    """The network as anybody would write it: [9, P] -> (net_α, net_β)."""
    layers = len(phi) // 2
    for layer in range(layers):
        features = phi[f"w{layer}"] @ features + phi[f"b{layer}"][:, None]
        if layer < layers - 1:
            features = np.maximum(features, 0.0)
    return features


@pytest.fixture(params=sorted(KINETICS))
def kinetic(request):
    return KINETICS[request.param]()


def test_phi_is_a_flat_dictionary_of_float32_made_from_the_key(kinetic):
    phi, again = kinetic.init(jax.random.key(0)), kinetic.init(jax.random.key(0))
    assert all(leaf.dtype == jnp.float32 for leaf in phi.values())
    jax.tree.map(np.testing.assert_array_equal, phi, again)
    other = kinetic.init(jax.random.key(1))
    assert not phi or any(bool(jnp.any(phi[name] != other[name])) for name in phi)


def test_gradients_and_physics_keep_shapes_under_jit_and_vmap(kinetic):
    shared, feature, r = random(NUM_SHARED, P), random(P, seed=1), random(P, seed=2)
    phi = random_phi(kinetic)
    population = jax.tree.map(lambda leaf: jnp.stack([leaf, 0.5 * leaf]), phi)

    def both(phi):
        h, a = kinetic.physics(phi, jnp.float32(1e-4), jnp.float32(0.1))
        return *evaluate(kinetic, phi, shared, feature, r), h, a

    alpha, beta, h, a = jax.jit(both)(phi)
    described = [(leaf.shape, leaf.dtype) for leaf in (alpha, beta, h, a)]
    assert described == [((P,), jnp.float32)] * 2 + [((), jnp.float32)] * 2
    assert h > 0
    assert 0 < a <= 1
    if phi:
        stacked = jax.jit(jax.vmap(both))(population)
        for many, one in zip(stacked, (alpha, beta, h, a), strict=True):
            np.testing.assert_allclose(many[0], one, rtol=1e-5)


def test_parameters_do_not_mix(kinetic):
    """α and β of a parameter depend on its own features alone."""
    shared, feature, r = random(NUM_SHARED, P), random(P, seed=1), random(P, seed=2)
    phi = random_phi(kinetic)
    whole = evaluate(kinetic, phi, shared, feature, r)
    part = evaluate(kinetic, phi, shared[:, 2:5], feature[2:5], r[2:5])
    for a, b in zip(whole, part, strict=True):
        np.testing.assert_allclose(a[2:5], b, rtol=1e-5, atol=1e-6)


def test_gaussian_is_the_gradient_of_half_the_square():
    r = random(P)
    g = lambda theta, r: 0.5 * jnp.sum(r**2) + 0.0 * jnp.sum(theta)
    alpha, beta = evaluate(KINETICS["gaussian"](), {}, random(NUM_SHARED, P), r, r)
    wanted = jax.grad(g, argnums=(0, 1))(jnp.ones(P), r)
    np.testing.assert_array_equal(alpha, wanted[0])
    np.testing.assert_array_equal(beta, wanted[1])


@pytest.mark.parametrize("widths", [(), (4,), (32, 32), (5, 6, 7)])
def test_gradient_is_the_scaled_network(widths):
    kinetic = KINETICS["gradient"](widths=widths, alpha_scale=2.0, beta_scale=0.5)
    phi = random_phi(kinetic)
    shared, feature = random(NUM_SHARED, P), random(P, seed=1)
    alpha, beta = evaluate(kinetic, phi, shared, feature, random(P, seed=2))
    features = np.concatenate([shared, feature[None]])
    wanted = network(phi, features)
    np.testing.assert_allclose(alpha, 2.0 * wanted[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(beta, 0.5 * wanted[1], rtol=1e-4, atol=1e-4)


def test_the_papers_network_has_1442_numbers():
    phi = KINETICS["gradient"](widths=(32, 32)).init(jax.random.key(0))
    assert sum(leaf.size for leaf in phi.values()) == 1442


def test_initial_weights_have_the_variance_of_he():
    phi = KINETICS["gradient"](widths=(400, 400)).init(jax.random.key(0))
    for name, fan_in in (("w0", 9), ("w1", 400)):
        assert phi[name].std() == pytest.approx((2.0 / fan_in) ** 0.5, rel=0.05)
    assert all(not phi[name].any() for name in ("b0", "b1", "b2"))


def test_anchored_adds_kicks_of_its_scale_to_sghmc():
    """ε α is s_α net_α whatever ε; β is r + s_β net_β."""
    kinetic = KINETICS["anchored"](alpha_scale=0.2, beta_scale=3.0)
    phi = random_phi(kinetic)
    weights = {name: leaf for name, leaf in phi.items() if name[0] in "wb"}
    shared, feature, r = random(NUM_SHARED, P), random(P, seed=1), random(P, seed=2)
    wanted = network(weights, np.concatenate([shared, feature[None]]))
    for epsilon in (0.5, 0.001):
        alpha, beta = evaluate(kinetic, phi, shared, feature, r, jnp.float32(epsilon))
        np.testing.assert_allclose(epsilon * alpha, 0.2 * wanted[0], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(beta, r + 3.0 * wanted[1], rtol=1e-4, atol=1e-4)


def test_anchored_starts_as_sghmc_exactly():
    kinetic = KINETICS["anchored"]()
    phi = kinetic.init(jax.random.key(0))
    shared, feature, r = random(NUM_SHARED, P), random(P, seed=1), random(P, seed=2)
    alpha, beta = evaluate(kinetic, phi, shared, feature, r)
    np.testing.assert_array_equal(alpha, 0.0)
    np.testing.assert_array_equal(beta, r)
    for decay in np.float32([0.001, 0.1, 1 / 3, 0.999, 1.0]):
        h, a = kinetic.physics(phi, jnp.float32(3e-5), jnp.asarray(decay))
        assert (h, a) == (np.float32(3e-5), decay)


@pytest.mark.parametrize("shift", [-5.0, -0.5, 2.0, 9.0])
def test_anchored_moves_the_log_step_size_and_the_logit_of_the_decay(shift):
    kinetic = KINETICS["anchored"]()
    phi = {"log_step_size": jnp.float32(shift), "logit_momentum_decay": jnp.float32(shift)}
    h, a = kinetic.physics(phi, jnp.float32(1e-4), jnp.float32(0.1))
    assert h == pytest.approx(1e-4 * np.exp(shift), rel=1e-5)
    logit = np.log(0.1 / 0.9) + shift
    assert a == pytest.approx(1.0 / (1.0 + np.exp(-logit)), rel=1e-5)
