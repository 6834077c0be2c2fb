"""Whole runs: files, resumption, interruption, `kill -9`, and folders that cannot be used."""

import errno
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from rich.console import Console
from tiny import Blobs, TinyTasks, tiny_config

import l2e
from l2e.meta import train
from l2e.meta.checkpoint import CheckpointError
from l2e.meta.journal import read_metrics

TINY = Path(__file__).with_name("tiny.py")
FIELDS = {
    "step", "task", "meta_loss", "grad_norm", "dropped_pairs", "inner_steps", "seconds",
    "inner_steps_per_second",
}  # fmt: skip


def run(folder, *, resume=False, tasks=None, **changes):
    console = Console(file=io.StringIO())
    options = train.RunOptions(folder, resume=resume)
    return train.run(tiny_config(**changes), tasks or TinyTasks(), options, console=console)


def program(folder, steps, checkpoint_every):
    command = [sys.executable, str(TINY), str(folder), str(steps), str(checkpoint_every)]
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": "2"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )


def same_phi(left, right):
    assert left.keys() == right.keys()
    return all(np.asarray(left[k]).tobytes() == np.asarray(right[k]).tobytes() for k in left)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "whole"
    return folder, run(folder)


def test_a_run_leaves_what_the_readme_says(finished):
    folder, sampler = finished
    records = read_metrics(folder)
    assert [record["step"] for record in records] == [0, 1, 2, 3]
    assert all(record.keys() >= FIELDS for record in records[1:])
    evaluated = [r["step"] for r in records if "heldout_loss/Blobs(dim=4, seed=9)" in r]
    assert evaluated == [0, 2, 3]
    assert json.loads((folder / "config.json").read_text())["pairs"] == 4
    assert list(folder.glob("events.out.tfevents.*"))
    assert (folder / "meta_loss.png").read_bytes().startswith(b"\x89PNG")
    assert same_phi(l2e.load(folder / "sampler").phi, sampler.phi)


def test_the_manifest_says_what_was_trained(finished):
    _, sampler = finished
    training = sampler.manifest["training"]
    assert training["outer_steps"] == 3
    assert training["config"]["kinetic"]["widths"] == [8]
    assert training["heldout"]["first"]["step"] == 0
    assert training["heldout"]["last"]["step"] == 3
    assert sampler.manifest["kinetic_options"] == {
        "widths": [8], "alpha_scale": 0.1, "beta_scale": 1.0,
    }  # fmt: skip


def test_the_exported_sampler_samples(finished):
    import jax

    _, sampler = finished
    task = TinyTasks().build(TinyTasks.heldout[0])
    kernel = sampler.build(l2e.minibatch(task.log_likelihood, task.log_prior, task.num_data))
    draws = l2e.sample(
        kernel, jax.random.key(0), task.init(jax.random.key(1)), l2e.minibatches(task.train, 20),
        burn_in=20, draws=5, thin=4,
    )  # fmt: skip
    log_probs = l2e.predict(task.apply, draws, task.test[0])
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=-1), 1.0, rtol=1e-5)


def test_a_run_in_two_parts_is_the_run_in_one(tmp_path, finished):
    folder, sampler = finished
    run(tmp_path / "parts", outer_steps=1)
    resumed = run(tmp_path / "parts", resume=True)
    assert same_phi(resumed.phi, sampler.phi)
    keys = ("step", "task", "meta_loss", "grad_norm")
    whole, parts = (
        [tuple(record.get(key) for key in keys) for record in read_metrics(path)]
        for path in (folder, tmp_path / "parts")
    )
    assert parts == whole


def test_kill_9_at_a_random_step_then_resume_is_bit_identical(tmp_path):
    stop_after = random.Random(0).randint(2, 6)
    killed = program(tmp_path / "killed", 8, 3)
    while len(read_metrics(tmp_path / "killed")) <= stop_after:
        assert killed.poll() is None, killed.communicate()[0]
        time.sleep(0.005)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "killed" / "sampler").exists()

    resumed = run(tmp_path / "killed", resume=True, tasks=TinyTasks(one_shape=True), outer_steps=8)
    whole = run(tmp_path / "whole", tasks=TinyTasks(one_shape=True), outer_steps=8)
    assert same_phi(resumed.phi, whole.phi)
    assert [r["step"] for r in read_metrics(tmp_path / "killed")] == list(range(9))


def test_ctrl_c_saves_the_step_it_is_in(tmp_path):
    process = program(tmp_path / "run", 100_000, 100_000)
    while len(read_metrics(tmp_path / "run")) < 3:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    last = read_metrics(tmp_path / "run")[-1]["step"]
    assert f"interrupted after outer step {last}" in output
    assert (tmp_path / "run" / "checkpoints" / str(last)).is_dir()


def test_a_failing_step_loses_none_before_it(tmp_path):
    class FailsAtTheThird(TinyTasks):
        heldout = ()

        def __init__(self):
            super().__init__()
            self.drawn = []

        def sample(self, key):
            drawn = jax.random.key_data(key).tolist()
            self.drawn += [] if drawn in self.drawn else [drawn]
            return Blobs(3, self.drawn.index(drawn))

        def build(self, spec):
            if spec.seed == 2:
                raise RuntimeError("the third task fails")
            return super().build(spec)

    with pytest.raises(RuntimeError, match="the third task fails"):
        run(tmp_path / "run", tasks=FailsAtTheThird(), checkpoint_every=100)
    assert (tmp_path / "run" / "checkpoints" / "2").is_dir()


def test_resuming_with_other_data_names_what_differs(tmp_path):
    options = {"console": Console(file=io.StringIO())}
    before, after = ({"sha256": {"blobs": digest}} for digest in ("aa", "bb"))
    first = train.RunOptions(tmp_path / "run")
    train.run(tiny_config(outer_steps=1), TinyTasks(), first, data=before, **options)
    again = train.RunOptions(tmp_path / "run", resume=True)
    with pytest.raises(
        CheckpointError, match=r"data.sha256.blobs: now 'bb', in the checkpoint 'aa'"
    ):
        train.run(tiny_config(), TinyTasks(), again, data=after, **options)


def test_a_second_run_in_one_folder_needs_resume(finished):
    folder, _ = finished
    with pytest.raises(train.RunFolderError, match="already holds a run; add --resume"):
        run(folder)


def test_resuming_with_another_configuration_names_the_field(finished):
    folder, _ = finished
    with pytest.raises(CheckpointError, match=r"sigma: now 0.5, in the checkpoint 0.01"):
        run(folder, resume=True, sigma=0.5)
    assert json.loads((folder / "config.json").read_text())["sigma"] == 0.01


def test_a_folder_that_cannot_be_written_is_refused_before_any_compute(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(train.RunFolderError, match="cannot write to --out"):
        run(tmp_path / "file" / "run")
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_a_read_only_folder_is_refused(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(train.RunFolderError, match=r"cannot write to --out .*: Read-only file sys"):
        run(tmp_path / "run")


def test_an_unknown_backend_lists_the_known(tmp_path):
    options = train.RunOptions(tmp_path / "run", backend="carrier-pigeon")
    with pytest.raises(ValueError, match="unknown backend 'carrier-pigeon'; known: serial"):
        train.run(tiny_config(), TinyTasks(), options)
    assert not (tmp_path / "run").exists()
