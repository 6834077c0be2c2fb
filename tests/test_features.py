"""The nine features: decays, scales and order, each against numbers worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from l2e import features
from l2e.tiles import Tiling, by_group

SIZES = (2, 3, 1)
TILING = Tiling(SIZES)


def block(rows):
    """Rows [F, P] of one small model as tiles [1, F, T]."""
    rows = jnp.asarray(rows, jnp.float32)
    return jnp.stack([TILING.pack_raveled(row) for row in rows], axis=1)


def unblock(tiles):
    """The inverse: [1, F, T] -> [F, P]."""
    like = [jax.ShapeDtypeStruct((size,), jnp.float32) for size in SIZES]
    rows = [TILING.unpack(row, like) for row in tiles.swapaxes(0, 1)]
    return np.stack([np.concatenate(row) for row in rows])


def scaled(rows):
    """Rows [F, P] at unit root-mean-square within each tensor."""
    tiles = block(rows)
    factors = features.scales(TILING, jax.vmap(features.squares)(tiles))
    return unblock(jax.vmap(by_group)(tiles, factors))


def rms(rows):
    """Of each row within each tensor: [F, tensors]."""
    parts = np.split(np.float64(rows), np.cumsum(SIZES)[:-1], axis=-1)
    return np.stack([np.sqrt(np.mean(part**2, axis=-1)) for part in parts], axis=-1)


def test_averages_decay_at_their_own_rates():
    """From zero, gradients 1 and then 2 give (1 − d) d + 2 (1 − d)."""
    tile, zero = features.initial(TILING)[0], jnp.zeros(TILING.width)
    for gradient in (1.0, 2.0):
        tile, _ = features.update(tile, jnp.full(TILING.width, gradient), zero, zero)
    decays = np.array([0.1, 0.5, 0.9, 0.99, 0.999, 0.9999])
    wanted = np.tile(((1 - decays) * decays + 2 * (1 - decays))[:, None], TILING.width)
    np.testing.assert_allclose(tile[features.AVERAGES :], wanted, rtol=2e-3)
    np.testing.assert_allclose(tile[features.AVERAGES :][:4], wanted[:4], rtol=1e-5)


def test_order_of_the_features_and_their_squares():
    """∇Ũ, θ, then the averages from the fastest to the slowest; the momentum's apart."""
    width = TILING.width
    old = jnp.tile(jnp.arange(8.0)[:, None], width)
    gradient, position, momentum = (jnp.full(width, value) for value in (0.0, 10.0, 3.0))
    tile, (sums, momentum_sums) = features.update(old, gradient, position, momentum)
    wanted = np.array([0.0, 10.0, *(np.array(features.DECAYS) * np.arange(2, 8))])
    np.testing.assert_allclose(tile, np.tile(wanted[:, None], width), rtol=1e-6)
    lanes = width // sums.shape[-1]
    np.testing.assert_allclose(sums[:, 0], lanes * wanted**2, rtol=1e-5)
    np.testing.assert_allclose(momentum_sums, 9.0 * lanes, rtol=1e-6)


def test_every_row_has_unit_rms_in_every_tensor():
    rows = 100.0 * jax.random.normal(jax.random.key(0), (9, 6))
    np.testing.assert_allclose(rms(scaled(rows)), np.ones((9, 3)), rtol=1e-5)


def test_scaling_by_hand():
    rows = [[3.0, -4.0, 0.0, 2.0, 2.0, -7.0]]
    roots = np.sqrt([12.5, 12.5, 8 / 3, 8 / 3, 8 / 3, 49.0])
    np.testing.assert_allclose(scaled(rows), np.array(rows) / roots, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12])
def test_scale_is_removed_however_small_or_large(scale):
    rows = jax.random.normal(jax.random.key(0), (4, 6))
    np.testing.assert_allclose(scaled(scale * rows), scaled(rows), rtol=1e-5)


def test_zeros_stay_zero_beside_other_tensors():
    out = scaled([[0.0, 0.0, 1.0, 2.0, 2.0, 0.0]])
    np.testing.assert_allclose(out[0, 2:5], np.array([1.0, 2.0, 2.0]) / 3.0**0.5, rtol=1e-6)
    np.testing.assert_array_equal(out[0, [0, 1, 5]], 0.0)
