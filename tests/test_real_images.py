"""Preset `small` on real images, cut short: it runs, checkpoints, resumes and exports."""

import io
from dataclasses import replace

import numpy as np
from rich.console import Console

import l2e
from l2e.meta import train
from l2e.meta.config import PRESETS
from l2e.meta.journal import read_metrics
from tasks.distribution import named


def test_small_runs_resumes_and_exports(tmp_path, folder_with):
    config = replace(
        PRESETS["small"],
        inner=replace(PRESETS["small"].inner, burn_in=4, draws=2, thin=2, batch_size=32),
        pairs=2, chunk=1, heldout_chains=2, outer_steps=1, checkpoint_every=1,
    )  # fmt: skip
    folder = folder_with("mnist", "fashion_mnist", "emnist", "bloodmnist", "kmnist")
    tasks = named("small", l2e.priors.gaussian(1.0), folder)
    data = tasks.identity()
    for steps in (1, 2):
        options = train.RunOptions(tmp_path / "run", resume=steps > 1)
        console = Console(file=io.StringIO())
        train.run(replace(config, outer_steps=steps), tasks, options, data=data, console=console)
    records = read_metrics(tmp_path / "run")
    assert [record["step"] for record in records] == [0, 1, 2]
    assert all(np.isfinite(record["meta_loss"]) for record in records[1:])
    sampler = l2e.load(tmp_path / "run" / "sampler")
    assert sampler.manifest["training"]["outer_steps"] == 2
    assert len(sampler.manifest["training"]["data"]["sha256"]) == 5
