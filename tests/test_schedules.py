"""Schedules, at the steps where the formula is easy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from l2e import schedules


def test_constant_is_float32_at_every_step():
    schedule = schedules.constant(0.3)
    values = jax.vmap(schedule)(jnp.arange(4))
    assert values.dtype == jnp.float32
    np.testing.assert_array_equal(values, np.float32(0.3))


def test_cosine_cycles_restart():
    """½ (cos(πt/4) + 1): 1, .854, .5, .146, and again from the top."""
    values = jax.vmap(schedules.cosine_cycles(2.0, 4))(jnp.arange(9))
    cycle = 2.0 * np.array([1.0, 0.853553, 0.5, 0.146447])
    np.testing.assert_allclose(values, [*cycle, *cycle, 2.0], rtol=1e-5)


@pytest.mark.parametrize("period", [0, -2])
def test_impossible_period_is_refused(period):
    with pytest.raises(ValueError, match=f"period is {period}; expected at least 1 step"):
        schedules.cosine_cycles(1.0, period)


def test_numbers_arrays_and_schedules_are_accepted():
    count = jnp.int32(3)
    assert schedules.as_schedule(0.5)(count) == 0.5
    assert schedules.as_schedule(2)(count) == 2.0
    assert schedules.as_schedule(jnp.float32(0.5))(count) == 0.5
    own = lambda count: 0.1 * count
    assert schedules.as_schedule(own) is own


@pytest.mark.parametrize("value", [0, -1.0, np.float32(-1), jnp.float32(0), np.nan, np.inf])
def test_impossible_numbers_are_refused_by_name(value):
    with pytest.raises(
        ValueError, match=f"rate is {float(value)}; expected a positive, finite number"
    ):
        schedules.as_schedule(value, "rate")
