"""Blocks of tiles: nothing is lost, nothing is mixed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from l2e import tiles
from l2e.tiles import LANES, WIDTH, Tiling

SIZES = [(1,), (LANES,), (LANES + 1, 3), (5, 0, 7), (3 * WIDTH - 5, 1, LANES), (16, 4, 2 * WIDTH)]


@pytest.fixture(params=SIZES, ids=str)
def sizes(request):
    return request.param


def model(sizes):
    keys = jax.random.split(jax.random.key(0), len(sizes))
    return [1.0 + jax.random.uniform(key, (size,)) for key, size in zip(keys, sizes, strict=True)]


def test_tiles_are_even_and_hold_whole_groups(sizes):
    tiling = Tiling(sizes)
    assert tiling.width <= WIDTH
    assert tiling.width % LANES == 0
    used = sum(tiling.groups) * LANES
    assert tiling.count * tiling.width - used < tiling.count * LANES
    assert tiling.valid.sum() == sum(sizes)


def test_unpack_undoes_pack(sizes):
    tiling, params = Tiling(sizes), model(sizes)
    block = tiling.pack(params)
    assert block.shape == (tiling.count, tiling.width)
    jax.tree.map(np.testing.assert_array_equal, tiling.unpack(block, params), params)
    np.testing.assert_array_equal(tiling.pack_raveled(jnp.concatenate(params)), block)


def test_tensors_of_any_shape(nested):
    tiling = Tiling.of(nested.params)
    assert sum(tiling.sizes) == nested.size
    after = tiling.unpack(tiling.pack(nested.params), nested.params)
    jax.tree.map(np.testing.assert_array_equal, after, nested.params)


def test_masking_leaves_the_parameters_alone(sizes):
    tiling, params = Tiling(sizes), model(sizes)
    block = tiling.pack(params)
    noisy = jnp.where(block == 0.0, 9.0, block)
    masked = jax.vmap(tiles.masked)(noisy, jnp.asarray(tiling.valid))
    np.testing.assert_array_equal(masked, block)


def test_sums_stay_within_their_tensor(sizes):
    tiling, params = Tiling(sizes), model(sizes)
    rows = jnp.stack([tiling.pack(params), -tiling.pack(params)], axis=1)
    sums = jax.vmap(tiles.group_sums)(rows)
    means = tiling.per_tensor(lambda total, size: total / max(size, 1), sums)
    spread = jax.vmap(tiles.by_group)(jnp.ones_like(rows), means)
    for row, sign in zip(spread.swapaxes(0, 1), (1.0, -1.0), strict=True):
        for tensor, ours in zip(params, tiling.unpack(row, params), strict=True):
            if tensor.size:
                np.testing.assert_allclose(ours, sign * tensor.mean(), rtol=1e-6)
