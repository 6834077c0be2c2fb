"""One outer step: its parts, its determinism, its compilation, its faults."""

import gc
import itertools
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import TinyTasks, tiny_config

from l2e import chain
from l2e.batches import minibatches
from l2e.kinetic import KINETICS
from l2e.meta import inner, outer
from l2e.meta.config import KineticConfig
from l2e.meta.keys import Role, StepKeys, run_key, step_keys
from l2e.meta.losses import bma
from l2e.meta.workers import BACKENDS
from l2e.potential import minibatch
from l2e.predict import member_log_probs
from l2e.samplers import SAMPLERS


def training(config=None, tasks=None):
    config, tasks = config or tiny_config(), tasks or TinyTasks()
    strategy = outer.make_strategy(config, outer.initial_phi(config))
    workers = BACKENDS["serial"](config, tasks)
    return outer.Training(config, strategy, tasks, workers)


def run(setup, steps):
    state, reports = outer.initial_state(setup.config, setup.strategy), []
    for _ in range(steps):
        state, report = outer.meta_step(setup, state)
        reports.append(report)
    return state, reports


def phi_bytes(setup, state):
    return [np.asarray(x).tobytes() for x in jax.tree.leaves(setup.strategy.mean(state.strategy))]


def test_same_seed_same_bits_other_seed_other_bits():
    first, again, other = training(), training(), training(tiny_config(seed=1))
    ends = [phi_bytes(setup, run(setup, 3)[0]) for setup in (first, again, other)]
    assert ends[0] == ends[1]
    assert ends[0] != ends[2]


def test_one_trace_a_signature_over_ten_steps_and_adam_counts_them_all():
    setup = training()
    state, reports = run(setup, 10)
    assert len({report.task for report in reports}) >= 3
    assert dict(setup.workers.inner_loop.traces) == {3: 1, 5: 1}
    assert int(state.step) == 10
    counts = [
        int(x.count)
        for x in jax.tree.leaves(state.strategy.opt_state, is_leaf=lambda x: hasattr(x, "mu"))
        if hasattr(x, "mu")
    ]
    assert counts == [10]


def test_the_number_of_devices_changes_no_bit(monkeypatch):
    assert jax.local_device_count() >= 2
    two = training()
    ends = phi_bytes(two, run(two, 2)[0])
    monkeypatch.setattr(inner.jax, "local_device_count", lambda: 1)
    one = training()
    assert phi_bytes(one, run(one, 2)[0]) == ends


def test_a_pair_shares_everything_but_the_sign():
    """With σ → 0 both signs are the same chain, to the last bit."""
    setup = training()
    config, task = setup.config, setup.tasks.build(TinyTasks.specs[0])
    phi = outer.initial_phi(config)
    population = jax.tree.map(lambda x: jnp.broadcast_to(x, (4, 2, *x.shape)), phi)
    keys = StepKeys(jax.random.key(5))
    losses = np.asarray(
        setup.workers.inner_loop.losses(task, population, keys.pairs(0, 4), keys.data)
    )
    np.testing.assert_array_equal(losses[:, 0], losses[:, 1])
    assert len(np.unique(losses[:, 0])) == 4


def test_the_inner_loop_is_a_chain_of_the_sampler_judged_by_its_model_average():
    """Against SGHMC run by itself, which φ = 0 is."""
    config = tiny_config()
    task = TinyTasks().build(TinyTasks.specs[0])
    keys = inner.pair_roles(jax.random.key(1), jax.random.key(2))
    phi = jax.tree.map(jnp.zeros_like, outer.initial_phi(config))
    found = inner.chain_loss(config, task, phi, keys, task.train, task.valid)

    potential = minibatch(task.log_likelihood, task.log_prior, 60)
    kernel = SAMPLERS["sghmc"](potential, step_size=0.01 / 60, momentum_decay=0.1)
    draws = chain.run(
        kernel, keys.chain, task.init(keys.params), minibatches(task.train, 20),
        burn_in=5, draws=3, thin=2,
    )  # fmt: skip
    expected = bma(member_log_probs(task.apply, draws, task.valid[0]), task.valid[1])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_keys_of_steps_pairs_and_roles_differ():
    root = jax.random.key(0)
    found = [root, *(run_key(root, role) for role in Role)]
    for step in range(8):
        keys = step_keys(root, step)
        found += [keys.key, keys.task, keys.perturbation, keys.data, keys.update]
        found += list(keys.pairs(0, 4))
    assert len({tuple(jax.random.key_data(key).tolist()) for key in found}) == len(found)
    np.testing.assert_array_equal(
        jax.random.key_data(StepKeys(root).pairs(0, 4)[2:]),
        jax.random.key_data(StepKeys(root).pairs(2, 2)),
    )


class BrokenWorkers:
    """Returns losses in which the first `broken` pairs are not finite."""

    def __init__(self, broken):
        self.broken = broken

    def prepare(self, spec, population, keys):
        pass

    def map(self, jobs, population, keys):
        losses = np.random.default_rng(0).normal(1.0, 0.1, (4, 2)).astype(np.float32)
        losses[: self.broken, 0] = np.nan
        return [losses]


def test_dropped_pairs_are_counted_and_phi_stays_finite():
    setup = training()
    setup = outer.Training(setup.config, setup.strategy, setup.tasks, BrokenWorkers(2))
    state, (report,) = run(setup, 1)
    assert report.dropped_pairs == 2
    assert np.isfinite(report.meta_loss)
    leaves = jax.tree.leaves(setup.strategy.mean(state.strategy))
    assert all(np.isfinite(leaf).all() for leaf in leaves)


def test_too_many_dropped_stop_the_run_with_task_and_key():
    setup = training()
    setup = outer.Training(setup.config, setup.strategy, setup.tasks, BrokenWorkers(3))
    with pytest.raises(outer.TooManyDroppedError, match=r"3 of 4 pairs .* Blobs\(dim=\d.* key \["):
        run(setup, 1)


def test_the_next_task_is_ready_before_its_step(monkeypatch):
    """Data and program of step t + 1 are asked for during step t, in another thread, once."""
    setup = training(tiny_config(outer_steps=6, seed=1))
    asked = []
    build = setup.tasks.build

    def recorded(spec):
        asked.append((spec, threading.current_thread() is threading.main_thread()))
        return build(spec)

    monkeypatch.setattr(setup.tasks, "build", recorded)
    _, reports = run(setup, 6)
    drawn = [report.task for report in reports]
    changes = [after for before, after in itertools.pairwise(drawn) if before != after]
    assert len(changes) >= 2
    assert drawn[0] != drawn[1]
    assert [str(spec) for spec, in_main in asked if in_main] == drawn[:1]
    assert [str(spec) for spec, in_main in asked if not in_main] == changes


def test_diverging_chains_are_dropped_not_hidden():
    setup = training(tasks=TinyTasks(apply_to_data=lambda x: x * np.inf))
    with pytest.raises(outer.TooManyDroppedError, match="4 of 4"):
        run(setup, 1)


def test_programs_do_not_keep_their_data():
    """A program outlives its task: `paper` has ninety signatures."""
    setup = training(tiny_config(outer_steps=1))
    run(setup, 1)
    gc.collect()
    alive = {x.shape for x in jax.live_arrays() if x.ndim == 2}
    assert setup.workers.inner_loop.traces
    assert not alive & {(60, 3), (60, 5), (30, 3), (30, 5)}


@pytest.mark.parametrize("name", [name for name, build in KINETICS.items() if build().options])
def test_every_kinetic_energy_that_learns_can_be_trained(name):
    setup = training(tiny_config(kinetic=KineticConfig(name=name, widths=(8,))))
    before = phi_bytes(setup, outer.initial_state(setup.config, setup.strategy))
    state, _ = run(setup, 1)
    assert phi_bytes(setup, state) != before
