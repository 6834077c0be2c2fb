"""A checkpoint holds everything, is found if valid, and is refused if foreign."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from tiny import TinyTasks, tiny_config

from l2e.meta import outer
from l2e.meta.checkpoint import CheckpointError, Checkpoints
from l2e.meta.workers import BACKENDS


@pytest.fixture(scope="module")
def setup():
    config, tasks = tiny_config(), TinyTasks()
    strategy = outer.make_strategy(config, outer.initial_phi(config))
    return outer.Training(config, strategy, tasks, BACKENDS["serial"](config, tasks))


@pytest.fixture(scope="module")
def states(setup):
    state = outer.initial_state(setup.config, setup.strategy)
    states = [state]
    for _ in range(2):
        states.append(outer.meta_step(setup, states[-1])[0])
    return states


def leaves(state):
    return [
        np.asarray(
            jax.random.key_data(x) if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key) else x
        )
        for x in jax.tree.leaves(state)
    ]


def open_checkpoints(folder, config):
    return Checkpoints(folder / "checkpoints", config.to_json())


def test_restored_state_is_the_saved_state_bit_for_bit(tmp_path, setup, states):
    open_checkpoints(tmp_path, setup.config).save(states[2])
    restored = open_checkpoints(tmp_path, setup.config).restore(states[0])
    for found, saved in zip(leaves(restored), leaves(states[2]), strict=True):
        assert found.dtype == saved.dtype
        np.testing.assert_array_equal(found, saved)
    after = [outer.meta_step(setup, state)[0] for state in (restored, states[2])]
    for found, saved in zip(leaves(after[0]), leaves(after[1]), strict=True):
        np.testing.assert_array_equal(found, saved)


def test_without_checkpoints_there_is_nothing_to_restore(tmp_path, setup, states):
    assert open_checkpoints(tmp_path, setup.config).restore(states[0]) is None


def damage(folder, step):
    """Cut every array file of a checkpoint to half its length."""
    cut = 0
    for path in (folder / "checkpoints" / str(step) / "state").rglob("*"):
        if path.is_file() and path.stat().st_size > 0:
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
            cut += 1
    assert cut


def test_a_damaged_checkpoint_is_passed_over_for_an_older_one(tmp_path, setup, states, caplog):
    writer = open_checkpoints(tmp_path, setup.config)
    writer.save(states[1])
    writer.save(states[2])
    damage(tmp_path, 2)
    restored = open_checkpoints(tmp_path, setup.config).restore(states[0])
    assert int(restored.step) == 1
    assert "step 2 cannot be read" in caplog.text


def test_steps_after_a_damaged_checkpoint_are_saved_again(tmp_path, setup, states):
    """Orbax declines steps before its newest, and the newest one is the damaged one."""
    writer = open_checkpoints(tmp_path, setup.config)
    writer.save(states[0])
    writer.save(states[2])
    damage(tmp_path, 2)
    resumed = open_checkpoints(tmp_path, setup.config)
    assert int(resumed.restore(states[0]).step) == 0
    resumed.save(states[1])
    assert int(open_checkpoints(tmp_path, setup.config).restore(states[0]).step) == 1
    resumed.save(states[2])
    assert int(open_checkpoints(tmp_path, setup.config).restore(states[0]).step) == 2


def test_a_save_that_orbax_declines_is_an_error(tmp_path, setup, states):
    writer = open_checkpoints(tmp_path, setup.config)
    writer.save(states[2])
    with pytest.raises(CheckpointError, match="step 1 was not saved"):
        writer.save(states[1])


def test_when_all_are_damaged_the_error_says_so(tmp_path, setup, states):
    open_checkpoints(tmp_path, setup.config).save(states[1])
    damage(tmp_path, 1)
    with pytest.raises(CheckpointError, match=r"no checkpoint in .* can be read"):
        open_checkpoints(tmp_path, setup.config).restore(states[0])


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"sigma": 0.02}, "sigma: now 0.02, in the checkpoint 0.01"),
        ({"seed": 7}, "seed: now 7, in the checkpoint 0"),
    ],
)
def test_another_configuration_is_refused_by_field(tmp_path, setup, states, change, field):
    open_checkpoints(tmp_path, setup.config).save(states[1])
    other = replace(setup.config, **change)
    with pytest.raises(CheckpointError, match=field):
        open_checkpoints(tmp_path, other).restore(states[0])


def test_arrays_of_another_shape_are_refused(tmp_path, setup, states):
    """Even when the configuration says nothing: Orbax alone would restore them in part."""
    open_checkpoints(tmp_path, setup.config).save(states[1])
    wider = tiny_config(kinetic=replace(setup.config.kinetic, widths=(9,)))
    template = outer.initial_state(wider, outer.make_strategy(wider, outer.initial_phi(wider)))
    with pytest.raises(CheckpointError, match="can be read"):
        open_checkpoints(tmp_path, setup.config).restore(template)
