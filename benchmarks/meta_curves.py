"""Held-out meta-loss against the outer step, over several meta-training seeds.

    python benchmarks/meta_curves.py --out runs/curves --figure docs/figures/meta_curves.png

Runs meta_train.py's preset for every kinetic energy and seed (finished runs are reused), draws all
curves in one figure, writes their numbers beside it, and prints the change from the first to the
last evaluation with its standard error over seeds.
"""

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tyro
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from rich.console import Console
from rich.table import Table

import l2e
from l2e.jsonable import jsonable
from l2e.machine import prepare
from l2e.meta import train
from l2e.meta.config import PRESETS, KineticConfig
from l2e.meta.journal import read_metrics
from l2e.report.figures import COLOURS
from tasks.distribution import named


@dataclass(frozen=True)
class Arguments:
    """Meta-train with several seeds and kinetic energies; draw the held-out curves."""

    out: Path
    """Folder of the runs."""
    figure: Path
    """The PNG to write."""
    preset: str = "quick"
    """Preset of meta_train.py."""
    kinetics: tuple[str, ...] = ("anchored", "gradient")
    """Kinetic energies."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Meta-training seeds."""
    data_dir: Path | None = None
    """Data folder, as for meta_train.py."""


def main(arguments: Arguments) -> None:
    """Run, draw, print."""
    console = Console()
    prepare()
    curves = {
        kinetic: [curve(arguments, kinetic, seed, console) for seed in arguments.seeds]
        for kinetic in arguments.kinetics
    }
    draw(curves, arguments.figure)
    numbers = {kinetic: [run.tolist() for run in runs] for kinetic, runs in curves.items()}
    arguments.figure.with_suffix(".json").write_text(json.dumps(jsonable(numbers)) + "\n")
    console.print(summary(curves))


def curve(arguments: Arguments, kinetic: str, seed: int, console: Console) -> np.ndarray:
    """One run's held-out curve: rows of (outer step, mean held-out meta-loss)."""
    config = replace(PRESETS[arguments.preset], seed=seed, kinetic=KineticConfig(name=kinetic))
    prior = l2e.priors.gaussian(config.inner.prior_std)
    tasks = named(config.tasks, prior, arguments.data_dir)
    folder = arguments.out / f"{arguments.preset}-{kinetic}-{seed}"
    console.print(f"{folder.name}:", highlight=False)
    train.run(config, tasks, train.RunOptions(folder, resume=True), console=console)
    name = f"heldout_loss/{tasks.heldout[0]}"
    return np.array([(r["step"], r[name]) for r in read_metrics(folder) if name in r], float)


def draw(curves: dict[str, list[np.ndarray]], path: Path) -> None:
    """Thin lines are seeds, thick lines their mean, bands its standard error."""
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for colour, (kinetic, runs) in zip(COLOURS, curves.items(), strict=False):
        steps, losses = runs[0][:, 0], np.stack([run[:, 1] for run in runs])
        mean, error = losses.mean(axis=0), losses.std(axis=0, ddof=1) / math.sqrt(len(runs))
        axes.plot(steps, losses.T, color=colour, lw=0.7, alpha=0.5)
        axes.plot(steps, mean, color=colour, lw=2, marker="o", markersize=4, label=kinetic)
        axes.fill_between(steps, mean - error, mean + error, color=colour, alpha=0.2, lw=0)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")
    axes.set_xlabel("outer step")
    axes.set_ylabel("held-out meta-loss (nats, log scale)")
    seeds = len(next(iter(curves.values())))
    axes.set_title(f"{seeds} meta-training seeds (thin), mean ± s.e. (thick, band)")
    axes.grid(alpha=0.25, which="both")
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def summary(curves: dict[str, list[np.ndarray]]) -> Table:
    """First and last held-out loss, and the change with its standard error over seeds."""
    table = Table("kinetic energy", "first", "last", "change ± s.e.", "seeds")
    for kinetic, runs in curves.items():
        ends = np.stack([run[[0, -1], 1] for run in runs])
        change = ends[:, 1] - ends[:, 0]
        error = change.std(ddof=1) / math.sqrt(len(change))
        first, last = ends.mean(axis=0)
        row = (f"{first:.4f}", f"{last:.4f}", f"{change.mean():+.4f} ± {error:.4f}")
        table.add_row(kinetic, *row, str(len(runs)))
    return table


if __name__ == "__main__":
    main(tyro.cli(Arguments))
