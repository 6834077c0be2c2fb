"""The nine features: decays, scales and order, each against numbers worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from l2e import features

SIZES = (2, 3, 1)


def rms(block, sizes=SIZES):
    """Of each row within each tensor: [F, tensors]."""
    cuts = np.cumsum(sizes)[:-1]
    parts = np.split(np.float64(block), cuts, axis=-1)
    return np.stack([np.sqrt(np.mean(part**2, axis=-1)) for part in parts], axis=-1)


def test_averages_decay_at_their_own_rates():
    """From zero, gradients 1 and then 2 give (1 − d) d + 2 (1 − d)."""
    averages = features.initial_averages(3)
    for gradient in (1.0, 2.0):
        averages = features.update_averages(averages, jnp.full(3, gradient))
    decays = np.array([0.1, 0.5, 0.9, 0.99, 0.999, 0.9999])
    wanted = (1 - decays) * decays + 2 * (1 - decays)
    np.testing.assert_allclose(averages, np.tile(wanted[:, None], 3), rtol=2e-3)
    np.testing.assert_allclose(averages[:4], np.tile(wanted[:4, None], 3), rtol=1e-5)


def test_every_feature_has_unit_rms_in_every_tensor():
    keys = jax.random.split(jax.random.key(0), 4)
    gradient, theta, r = (100.0 * jax.random.normal(key, (6,)) for key in keys[:3])
    averages = features.update_averages(1e-3 * jax.random.normal(keys[3], (6, 6)), gradient)
    shared = features.shared_features(gradient, theta, averages, SIZES)
    np.testing.assert_allclose(rms(shared), np.ones((8, 3)), rtol=1e-5)
    np.testing.assert_allclose(rms(features.momentum_feature(r, SIZES)), np.ones(3), rtol=1e-5)


def test_order_and_signs():
    """∇Ũ, θ, then the averages from the fastest to the slowest; by tensors of constant size."""
    averages = jnp.array([[k, -k if k % 2 else k] for k in range(1, 7)], jnp.float32)
    shared = features.shared_features(
        jnp.array([3.0, -4.0]), jnp.array([-5.0, 12.0]), averages, (2,)
    )
    np.testing.assert_allclose(shared[0], np.array([3.0, -4.0]) / 12.5**0.5, rtol=1e-6)
    np.testing.assert_allclose(shared[1], np.array([-5.0, 12.0]) / 84.5**0.5, rtol=1e-6)
    np.testing.assert_allclose(shared[2:], np.sign(averages), rtol=1e-6)
    feature = features.momentum_feature(jnp.array([0.0, 2.0]), (2,))
    np.testing.assert_allclose(feature, [0.0, 2.0**0.5], rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12])
def test_scale_is_removed_however_small_or_large(scale):
    block = jax.random.normal(jax.random.key(0), (4, 6))
    wanted = features.normalise(block, SIZES)
    np.testing.assert_allclose(features.normalise(scale * block, SIZES), wanted, rtol=1e-5)


def test_zeros_stay_zero_beside_other_tensors():
    block = jnp.array([[0.0, 0.0, 1.0, 2.0, 2.0, 0.0]])
    out = features.normalise(block, SIZES)
    np.testing.assert_allclose(out[0, 2:5], np.array([1.0, 2.0, 2.0]) / 3.0**0.5, rtol=1e-6)
    np.testing.assert_array_equal(out[0, [0, 1, 5]], 0.0)


def test_tensor_sizes_are_in_raveled_order(nested):
    flat, _ = jax.flatten_util.ravel_pytree(nested.params)
    sizes = features.tensor_sizes(nested.params)
    assert sizes == tuple(leaf.size for leaf in jax.tree.leaves(nested.params))
    assert sum(sizes) == flat.size
    assert features.tensor_sizes(jnp.float32(1.0)) == (1,)
