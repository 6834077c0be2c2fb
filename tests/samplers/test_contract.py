"""What every row of `SAMPLERS` keeps, whatever the pytree: structure, purity, one trace."""

from operator import itemgetter

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import l2e

STEP = 1e-3


@pytest.fixture(scope="module")
def kernel(sampler_name, problem, build):
    """With its step compiled, once for the tests that share it."""
    kernel = build(sampler_name, problem.potential, step_size=STEP)
    return kernel._replace(step=jax.jit(kernel.step))


@pytest.fixture(scope="module")
def state(kernel, problem):
    return kernel.init(jax.random.key(0), problem.params)


def described(tree):
    return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype, leaf.weak_type), tree)


def assert_equal(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


def assert_close(a, b):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5), a, b)


def differ(a, b):
    return bool(jnp.any(a != b))


def test_init_starts_at_the_position(state, problem):
    assert_equal(state.position, problem.params)


def test_step_keeps_the_state_s_structure_shapes_and_dtypes(kernel, state, problem):
    after, _ = kernel.step(jax.random.key(1), state, problem.data)
    assert described(after) == described(state)
    assert described(after.position) == described(problem.params)


def test_info_is_what_happened(kernel, state, problem):
    """Energy and gradient at θ_t, and the distance to θ_{t+1}; finite float32 scalars."""
    after, info = kernel.step(jax.random.key(1), state, problem.data)
    for value in info:
        assert (value.shape, value.dtype) == ((), jnp.float32)
    energy, gradient = problem.potential.value_and_grad(problem.params, problem.data)
    moved = jax.tree.map(jnp.subtract, after.position, problem.params)
    wanted = (energy, optax.tree.norm(gradient), optax.tree.norm(moved))
    np.testing.assert_allclose(info, wanted, rtol=1e-5)
    assert info.update_norm > 0


def test_same_key_same_step_and_another_key_another(kernel, state, problem):
    once, again, other = (kernel.step(jax.random.key(k), state, problem.data)[0] for k in (1, 1, 2))
    assert_equal(once, again)
    assert any(map(differ, *map(jax.tree.leaves, (once, other))))


def test_without_temperature_nothing_is_random(sampler_name, nested, build):
    kernel = build(sampler_name, nested.potential, step_size=STEP, temperature=0.0)
    step, ends = jax.jit(kernel.step), []
    for seed in (1, 2):
        state = kernel.init(jax.random.key(seed), nested.params)
        for count in range(3):
            state, info = step(jax.random.key(seed + count), state, nested.batch(count))
        ends.append((state, info))
    assert_equal(*ends)


def test_second_call_is_not_traced(sampler_name, nested, build):
    traces = []

    def log_likelihood(params, batch):
        traces.append(1)
        return nested.log_likelihood(params, batch)

    potential = l2e.minibatch(log_likelihood, nested.log_prior, nested.num_data)
    kernel = build(sampler_name, potential)
    step = jax.jit(kernel.step)
    state = kernel.init(jax.random.key(0), nested.params)
    for count in range(3):
        state, _ = step(jax.random.key(count), state, nested.batch(count))
    assert len(traces) == 1


def test_vmapped_scanned_chains_equal_single_loops(kernel, problem):
    def chain(key):
        keys = jax.random.split(key, 4)
        advance = lambda state, key: kernel.step(key, state, problem.data)
        return jax.lax.scan(advance, kernel.init(key, problem.params), keys)

    chains = jax.random.split(jax.random.key(4), 3)
    ends, infos = jax.jit(jax.vmap(chain))(chains)
    assert jax.tree.map(jnp.shape, infos) == l2e.Info((3, 4), (3, 4), (3, 4))
    for index, key in enumerate(chains):
        state = kernel.init(key, problem.params)
        for step_key in jax.random.split(key, 4):
            state, info = kernel.step(step_key, state, problem.data)
        assert_close(jax.tree.map(itemgetter(index), ends), state)
        assert_close(jax.tree.map(itemgetter((index, -1)), infos), info)


def test_default_step_size_is_a_learning_rate_of_the_mean_loss(sampler_name, nested, build):
    """h = 0.01/n: built without a step size and with that one, the step is the same."""
    ends = []
    for settings in ({}, {"step_size": 0.01 / nested.num_data}):
        kernel = build(sampler_name, nested.potential, **settings)
        state = kernel.init(jax.random.key(0), nested.params)
        ends.append(jax.jit(kernel.step)(jax.random.key(1), state, nested.data))
    assert_equal(*ends)


BAD = {
    "step_size": (0.0, -0.1, float("nan"), float("inf")),
    "temperature": (-1.0, float("nan"), float("inf")),
    "momentum_decay": (0.0, -0.1, 1.5, float("nan")),
}


def test_impossible_settings_are_refused_by_name(sampler_name, nested, build):
    without_momentum = ("momentum_decay",) if sampler_name == "sgld" else ()
    for setting in BAD.keys() - without_momentum:
        for value in BAD[setting]:
            with pytest.raises(ValueError, match=rf"{setting} is {value}; expected"):
                build(sampler_name, nested.potential, **{setting: value})


def test_a_schedule_sees_the_step_count(sampler_name, nested, build):
    """Where the schedule is as small as rounding, the chain stands still."""
    schedule = lambda count: jnp.where(count == 1, 1e-3, 1e-20).astype(jnp.float32)
    kernel = build(sampler_name, nested.potential, step_size=schedule)
    state = kernel.init(jax.random.key(0), nested.params)
    step, moved = jax.jit(kernel.step), []
    for count in range(3):
        state, info = step(jax.random.key(count), state, nested.data)
        moved.append(bool(info.update_norm > 1e-5))
    assert moved == [False, True, False]


def test_optax_schedules_are_accepted(sampler_name, nested, build):
    schedule = optax.exponential_decay(1e-3, transition_steps=2, decay_rate=0.25, staircase=True)
    kernel = build(sampler_name, nested.potential, step_size=schedule, temperature=0.0)
    plain = build(sampler_name, nested.potential, step_size=0.25e-3, temperature=0.0)
    state = kernel.init(jax.random.key(0), nested.params)
    # optax itself multiplies counts by floats, which strict promotion forbids.
    with jax.numpy_dtype_promotion("standard"):
        step = jax.jit(kernel.step)
        for _ in range(2):
            state, _ = step(jax.random.key(1), state, nested.data)
        after, _ = step(jax.random.key(1), state, nested.data)
    wanted, _ = jax.jit(plain.step)(jax.random.key(1), state, nested.data)
    assert_close(after.position, wanted.position)
