"""The card of an exported sampler: a README that says whose weights these are."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from l2e.comparison import Row
from l2e.pretrained import LearnedSampler
from l2e.report.tables import as_markdown

CARD_FILE = "README.md"

_TEXT = """\
# {manifest[name]}

A learned sampler of kinetic energy `{manifest[kinetic]}`: {parameters:,} meta-parameters, feature \
version {manifest[feature_version]}.

    import l2e
    kernel = l2e.load("{manifest[name]}").build(potential)

Its defaults are the learning rate ℓ = {manifest[learning_rate]:g} of the mean loss (step size
h = ℓ/n) and the momentum decay {manifest[momentum_decay]:g} with which it was trained{learned}.

## Training

| | |
| --- | --- |
| outer steps | {training[outer_steps]} of {config[pairs]} antithetic pairs, σ = {config[sigma]:g} |
| inner chain | {inner[burn_in]} steps of burn-in, {inner[draws]} draws {inner[thin]} steps \
apart, batch {inner[batch_size]}, T = {inner[temperature]:g} |
| meta-loss | `{config[meta_loss]}` |
| seed | {training[seed]} |
| source | commit `{commit}`, {versions} |

Data sets (SHA-256 of their arrays), training and held out:

{data}

![Meta-loss during training]({figure})

## On tasks never trained on

Test data, mean ± standard error over seeds, the same gradient steps for every row; the learned
sampler untuned, tuned learning rates chosen on validation data.

{tables}
"""


def write_card(
    sampler: LearnedSampler,
    results: Mapping[str, Sequence[Row]],
    folder: Path,
    figure: Path,
) -> None:
    """Write README.md and a copy of the figure beside the sampler's files.

    Args:
        sampler: as exported into `folder`.
        results: rows of the comparison by task.
        folder: the sampler's folder.
        figure: the run's meta-loss curve.
    """
    shutil.copyfile(figure, folder / figure.name)
    (folder / CARD_FILE).write_text(_TEXT.format(**_values(sampler, results, figure.name)))


def _values(
    sampler: LearnedSampler, results: Mapping[str, Sequence[Row]], figure: str
) -> dict[str, Any]:
    training = sampler.manifest["training"]
    checksums = training["data"].get("sha256", {})
    versions = sampler.manifest["versions"]
    return {
        "manifest": sampler.manifest,
        "training": training,
        "config": training["config"],
        "inner": training["config"]["inner"],
        "parameters": sum(array.size for array in sampler.phi.values()),
        "learned": _learned_physics(sampler),
        "commit": training["commit"],
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "data": "\n".join(f"- `{name}`: `{digest}`" for name, digest in checksums.items()),
        "figure": figure,
        "tables": "\n".join(
            f"### {task}\n\n{as_markdown(rows)}\n" for task, rows in results.items()
        ),
    }


def _learned_physics(sampler: LearnedSampler) -> str:
    if "log_step_size" not in sampler.phi:
        return ""
    return (
        f", which φ shifts by {float(sampler.phi['log_step_size']):+.3f} in log h and "
        f"{float(sampler.phi['logit_momentum_decay']):+.3f} in logit a"
    )
