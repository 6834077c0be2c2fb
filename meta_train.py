"""Meta-train a sampler, export it, and compare it with SGHMC and SGLD on unseen data.

    python meta_train.py --preset quick --out runs/quick            embedded data, under 3 minutes
    python meta_train.py --preset small --out runs/small --data-dir DATA
    python meta_train.py --preset paper --out runs/paper --data-dir DATA
    … --resume                                                      go on after an interruption

Results in --out: config.json, metrics.jsonl, TensorBoard events, meta_loss.png, checkpoints/,
sampler/ (load it with l2e.load) and comparison.json, comparison.md.
"""

import shlex
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

import l2e
from l2e.machine import prepare
from l2e.meta import train
from l2e.meta.checkpoint import CheckpointError
from l2e.meta.config import PRESETS, KineticConfig, MetaConfig
from l2e.meta.files import SAMPLER_FOLDER
from l2e.meta.outer import TooManyDroppedError
from l2e.meta.workers import BACKENDS
from l2e.report.comparison import report_comparison
from l2e.tables import lookup
from tasks.distribution import named

BAD_INPUT = 2
INTERRUPTED = 130


@dataclass(frozen=True)
class Arguments:
    """Meta-train a learned sampler and compare it on tasks that it was never trained on."""

    out: Path
    """Folder of the run; made if need be."""
    preset: str = "quick"
    """quick (embedded data), small (real images), paper, or reference (the public code's)."""
    steps: int | None = None
    """Outer steps; the preset's own number by default."""
    seed: int = 0
    """All randomness of the run."""
    data_dir: Path | None = None
    """Folder with NAME.npz files or prepared TFDS data; $L2E_DATA by default."""
    kinetic: str | None = None
    """Kinetic energy: anchored (starts as SGHMC) or gradient (the paper's)."""
    strategy: str | None = None
    """Estimator of the meta-gradient."""
    backend: str = "serial"
    """Where the inner loops run."""
    name: str | None = None
    """Name of the exported sampler; the folder's by default."""
    resume: bool = False
    """Go on from the newest valid checkpoint in --out, if there is one."""
    seeds: Annotated[int, tyro.conf.arg(name="eval-seeds")] = 5
    """Chains a sampler in the comparison at the end."""


def main(arguments: Arguments) -> int:
    """Run; return the exit status."""
    console = Console(width=None if sys.stdout.isatty() else 110)
    try:
        config = configure(arguments)
        prepare()
        prior = l2e.priors.gaussian(config.inner.prior_std)
        tasks = named(config.tasks, prior, arguments.data_dir)
        data = tasks.identity()
    except (ValueError, OSError) as error:
        return refuse(error)
    try:
        out, name = arguments.out, arguments.name
        options = train.RunOptions(out, arguments.resume, arguments.backend, name, source_commit())
        sampler = train.run(config, tasks, options, data=data, console=console)
        console.print(f"sampler exported to {out / SAMPLER_FOLDER}")
        report_comparison(sampler, config, tasks, out, arguments.seeds, console)
    except (train.InterruptedRunError, KeyboardInterrupt) as interruption:
        reason = str(interruption) or "interrupted"
        console.print(f"{reason}; go on with:\n  {resume_command()}", highlight=False)
        return INTERRUPTED
    except (train.RunFolderError, CheckpointError, TooManyDroppedError) as error:
        return refuse(error)
    return 0


def refuse(error: Exception) -> int:
    """Say what is wrong; return the exit status of bad input."""
    print(f"error: {error}", file=sys.stderr)
    return BAD_INPUT


def configure(arguments: Arguments) -> MetaConfig:
    """The preset with the command line's changes.

    Raises:
        ValueError: naming the first option that cannot be.
    """
    lookup(BACKENDS, arguments.backend, "backend")
    if arguments.seeds < 2:
        raise ValueError(
            f"eval-seeds is {arguments.seeds}; expected at least 2, for a standard error"
        )
    config = lookup(PRESETS, arguments.preset, "preset")
    config = replace(config, seed=arguments.seed)
    if arguments.steps is not None:
        config = replace(config, outer_steps=arguments.steps)
    if arguments.strategy is not None:
        config = replace(config, strategy=arguments.strategy)
    if arguments.kinetic is not None:
        kinetic = KineticConfig(name=arguments.kinetic, widths=config.kinetic.widths)
        config = replace(config, kinetic=kinetic)
    return config


def source_commit() -> str:
    """The checkout's commit, or 'unknown' outside one."""
    folder = Path(__file__).parent
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def resume_command() -> str:
    """The command that continues this run."""
    python = Path(sys.executable)
    if python.is_relative_to(Path.cwd()):
        python = python.relative_to(Path.cwd())
    words = [str(python), *sys.argv]
    return shlex.join(words if "--resume" in words else [*words, "--resume"])


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Arguments)))
