"""Figures, drawn without a display and written as PNG."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe & Ito (2008): distinguishable with any form of colour blindness.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_HELDOUT = "heldout_loss/"
_SMOOTHING = 10


def meta_curve(records: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw a run's training and held-out meta-loss against the outer step.

    Args:
        records: lines of metrics.jsonl.
        path: where the PNG goes.
    """
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    axes = figure.add_subplot()
    training = [(r["step"], r["meta_loss"]) for r in records if r.get("meta_loss") is not None]
    if training:
        steps, losses = zip(*training, strict=True)
        axes.plot(steps, losses, ".", color="0.7", markersize=4, label="one training task a step")
        axes.plot(
            steps,
            moving_average(losses, _SMOOTHING),
            color="0.35",
            lw=1.2,
            label=f"mean of the last {_SMOOTHING} steps",
        )
    names = sorted({key for record in records for key in record if key.startswith(_HELDOUT)})
    for colour, name in zip(COLOURS, names, strict=False):
        _heldout_line(axes, records, name.removeprefix(_HELDOUT), colour)
    axes.set_xlabel("outer step")
    axes.set_ylabel("meta-loss: NLL of the model average (nats)")
    axes.set_title("Meta-training")
    axes.grid(alpha=0.25)
    if axes.has_data():
        figure.legend(frameon=False, loc="outside lower center", ncols=2, fontsize="small")
    figure.savefig(path, dpi=150)


def moving_average(values: Sequence[float], width: int) -> list[float]:
    """Mean of each value and up to `width` − 1 before it."""
    windows = (values[max(0, end - width) : end] for end in range(1, len(values) + 1))
    return [sum(window) / len(window) for window in windows]


def _heldout_line(axes: Axes, records: Sequence[Mapping[str, Any]], task: str, colour: str) -> None:
    points = [
        (r["step"], r[_HELDOUT + task], r[f"heldout_se/{task}"])
        for r in records
        if r.get(_HELDOUT + task) is not None
    ]
    if points:
        steps, means, errors = zip(*points, strict=True)
        axes.errorbar(
            steps,
            means,
            yerr=errors,
            color=colour,
            marker="o",
            markersize=4,
            capsize=3,
            label=f"held out: {task} (mean ± s.e. of chains)",
        )
