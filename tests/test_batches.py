"""Minibatches: uniform, pure in (key, count), and errors at the door."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

import l2e

N = 20
DATA = (jnp.arange(N, dtype=jnp.float32)[:, None] * jnp.ones((N, 3)), jnp.arange(N))


def test_rows_are_drawn_uniformly_and_together():
    source = l2e.minibatches(DATA, 5)
    x, y = jax.vmap(source, (None, 0))(jax.random.key(0), jnp.arange(2000))
    assert (x.shape, y.shape) == ((2000, 5, 3), (2000, 5))
    np.testing.assert_array_equal(x[..., 0], y)
    expected = 10_000 / N
    statistic = np.sum((np.bincount(y.ravel(), minlength=N) - expected) ** 2 / expected)
    assert chi2.ppf(1e-4, N - 1) < statistic < chi2.ppf(1 - 1e-4, N - 1)


def test_batches_depend_on_key_and_count_alone():
    source = l2e.minibatches(DATA, 8)

    def rows(seed, count):
        return source(jax.random.key(seed), jnp.int32(count))[1].tolist()

    assert rows(0, 3) == rows(0, 3)
    assert rows(0, 3) != rows(0, 4)
    assert rows(0, 3) != rows(1, 3)


def test_the_whole_set_is_itself():
    batch = l2e.minibatches(DATA, N)(jax.random.key(0), jnp.int32(7))
    jax.tree.map(np.testing.assert_array_equal, batch, DATA)


@pytest.mark.parametrize("batch_size", [0, -1, N + 1])
def test_impossible_batch_sizes_are_refused(batch_size):
    with pytest.raises(ValueError, match=f"batch_size is {batch_size}; expected between 1 and the"):
        l2e.minibatches(DATA, batch_size)


@pytest.mark.parametrize(
    ("data", "lengths"),
    [
        ((jnp.ones((4, 2)), jnp.ones(5)), r"\[4, 5\]"),
        ((jnp.ones(4), jnp.float32(1.0)), r"\[0, 4\]"),
        ((), r"\[\]"),
    ],
)
def test_data_without_one_length_are_refused(data, lengths):
    with pytest.raises(ValueError, match=f"arrays have lengths {lengths}; expected one common"):
        l2e.minibatches(data, 1)
