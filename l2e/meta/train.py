"""A meta-training run from start, or from its newest checkpoint, to an exported sampler."""

import json
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console

import l2e
from l2e.comparison import mean_and_error
from l2e.features import FEATURE_VERSION
from l2e.machine import peak_memory
from l2e.meta.checkpoint import Checkpoints
from l2e.meta.config import MetaConfig
from l2e.meta.files import CHECKPOINTS_FOLDER, CONFIG_FILE, FIGURE_FILE, SAMPLER_FOLDER
from l2e.meta.journal import Journal, read_metrics
from l2e.meta.outer import (
    MetaState,
    StepReport,
    Training,
    heldout_losses,
    initial_phi,
    initial_state,
    make_strategy,
    meta_step,
)
from l2e.meta.workers import BACKENDS
from l2e.report.figures import meta_curve
from l2e.tables import lookup
from l2e.types import TaskFamily

_VERSIONS_OF = ("l2e", "jax", "jaxlib", "numpy", "evosax", "optax", "flax")


class RunFolderError(ValueError):
    """The output folder cannot be used for this run."""


class InterruptedRunError(Exception):
    """The run was interrupted, and every finished outer step is saved."""


@dataclass(frozen=True)
class RunOptions:
    """How and where to run; nothing here changes a number.

    Attributes:
        out: folder of the run.
        resume: go on from the newest valid checkpoint there, if there is one.
        backend: row of `l2e.meta.workers.BACKENDS`.
        name: of the exported sampler; the folder's by default.
        commit: of the source, for the manifest.
    """

    out: Path
    resume: bool = False
    backend: str = "serial"
    name: str | None = None
    commit: str = "unknown"


def run(
    config: MetaConfig,
    tasks: TaskFamily,
    options: RunOptions,
    *,
    data: Mapping[str, Any] | None = None,
    console: Console | None = None,
) -> l2e.LearnedSampler:
    """Meta-train, and export the sampler.

    Args:
        config: what is trained, and how.
        tasks: the distribution over tasks.
        options: folder, backend, whether to go on from a checkpoint.
        data: what identifies the tasks and their data, such as names and checksums; a checkpoint
            made with other data is refused. It goes into the manifest.
        console: for progress; standard output by default.

    Returns:
        The sampler, as written to `<out>/sampler`.

    Raises:
        RunFolderError: when the folder cannot be written, or holds a run and `resume` is not set.
        CheckpointError: when the checkpoints belong to another configuration or other data.
        InterruptedRunError: after Ctrl-C. However a run ends, its last finished step is saved.
    """
    console = console or Console()
    workers = lookup(BACKENDS, options.backend, "backend")(config, tasks)
    strategy = make_strategy(config, initial_phi(config))
    training = Training(config, strategy, tasks, workers)
    prepare_folder(options)
    identity = {**config.to_json(), "feature_version": FEATURE_VERSION, "data": dict(data or {})}
    checkpoints = Checkpoints(options.out / CHECKPOINTS_FOLDER, identity)
    try:
        fresh = initial_state(config, strategy)
        state = (checkpoints.restore(fresh) if options.resume else None) or fresh
        (options.out / CONFIG_FILE).write_text(json.dumps(config.to_json(), indent=2) + "\n")
        console.print(_opening(config, state), highlight=False)
        state = _loop(training, state, options.out, checkpoints, console)
    finally:
        checkpoints.close()
    meta_curve(read_metrics(options.out), options.out / FIGURE_FILE)
    manifest = _manifest(config, state, options, data or {})
    phi = strategy.mean(state.strategy)
    return l2e.export(options.out / SAMPLER_FOLDER, phi, manifest)


def prepare_folder(options: RunOptions) -> None:
    """Make the output folder and see that it can be written and holds no other run.

    Raises:
        RunFolderError: saying why not.
    """
    out = options.out
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".write-test"
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        raise RunFolderError(
            f"cannot write to --out {out}: {error.strerror}; choose a folder you may write to"
        ) from error
    if not options.resume and any(
        (out / used).exists() for used in (CONFIG_FILE, CHECKPOINTS_FOLDER)
    ):
        raise RunFolderError(
            f"--out {out} already holds a run; add --resume to continue it, or choose another "
            "folder"
        )


def _opening(config: MetaConfig, state: MetaState) -> str:
    done = int(state.step)
    return (
        f"meta-training {config.kinetic.name} on {config.tasks}: {config.pairs} pairs of chains of "
        f"{config.inner.steps} steps an outer step, {jax.local_device_count()} devices, "
        + (f"resuming after step {done}" if done else "from the start")
    )


def _loop(
    training: Training, state: MetaState, out: Path, checkpoints: Checkpoints, console: Console
) -> MetaState:
    config = training.config
    done = int(state.step)
    with (
        Journal(out, total=config.outer_steps, done=done, console=console) as journal,
        _deferred_interrupts(console) as interrupted,
    ):
        if done == 0:
            nothing = dict.fromkeys(StepReport.__dataclass_fields__)
            journal.record(nothing | {"step": 0, "seconds": 0.0} | _heldout(training, state))
        try:
            while int(state.step) < config.outer_steps and not interrupted():
                state, report = meta_step(training, state)
                record = asdict(report)
                record["inner_steps_per_second"] = report.inner_steps / report.seconds
                record["peak_memory_mb"] = peak_memory() / 1e6
                last = report.step == config.outer_steps
                if last or report.step % config.heldout_every == 0:
                    record |= _heldout(training, state)
                journal.record(record)
                if report.step % config.checkpoint_every == 0:
                    checkpoints.save(state)
        finally:
            checkpoints.save(state)
        if interrupted():
            raise InterruptedRunError(f"interrupted after outer step {int(state.step)}")
    return state


def _heldout(training: Training, state: MetaState) -> dict[str, Any]:
    """Mean and standard error of the finite held-out meta-losses by task, and how many are not."""
    result = {}
    for spec in training.tasks.heldout:
        losses = heldout_losses(training, state, spec)
        mean, error = mean_and_error(losses[np.isfinite(losses)])
        result[f"heldout_loss/{spec}"] = mean
        result[f"heldout_se/{spec}"] = error
        result[f"heldout_dropped/{spec}"] = int((~np.isfinite(losses)).sum())
    return result


@contextmanager
def _deferred_interrupts(console: Console) -> Iterator[Callable[[], bool]]:
    """Let the present outer step finish after Ctrl-C; a second Ctrl-C stops at once."""
    seen = False

    def handler(number: int, frame: Any) -> None:
        nonlocal seen
        if seen:
            raise KeyboardInterrupt
        seen = True
        console.print("interrupted: saving after this outer step (again to stop at once)")

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    previous = signal.signal(signal.SIGINT, handler)
    try:
        yield lambda: seen
    finally:
        signal.signal(signal.SIGINT, previous)


def _manifest(
    config: MetaConfig, state: MetaState, options: RunOptions, data: Mapping[str, Any]
) -> dict[str, Any]:
    heldout = [_only_heldout(record) for record in read_metrics(options.out)]
    heldout = [record for record in heldout if len(record) > 1]
    return {
        "name": options.name or options.out.resolve().name,
        "kinetic": config.kinetic.name,
        "kinetic_options": dict(config.kinetic.build().options),
        "physics": config.inner.physics,
        "learning_rate": config.inner.learning_rate,
        "momentum_decay": config.inner.momentum_decay,
        "training": {
            "config": config.to_json(),
            "seed": config.seed,
            "outer_steps": int(state.step),
            "heldout": {"first": heldout[0], "last": heldout[-1]} if heldout else {},
            "data": dict(data),
            "commit": options.commit,
        },
        "versions": _versions(),
    }


def _only_heldout(record: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in record.items() if k == "step" or k.startswith("heldout")}


def _versions() -> dict[str, str]:
    """Of installed packages; a checkout that is not installed has none for itself."""
    installed = {dist.name.lower(): dist.version for dist in metadata.distributions()}
    return {name: installed.get(name, "not installed") for name in _VERSIONS_OF}
