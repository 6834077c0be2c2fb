"""Where jobs run: one `map(jobs) -> results`, whatever the machine.

A job is small and idempotent: it names a task and a range of pairs. Its result is a few floats that
depend on it, the population and the step's keys alone, so it may run anywhere, twice, or again.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

import jax
import numpy as np

from l2e.meta.config import MetaConfig
from l2e.meta.inner import InnerLoop
from l2e.meta.keys import StepKeys
from l2e.types import Params, TaskFamily


@dataclass(frozen=True)
class Job:
    """Pairs `first` to `first + count` of an outer step, on one task."""

    spec: Hashable
    first: int
    count: int


class Workers(Protocol):
    """A backend."""

    def map(self, jobs: Sequence[Job], population: Params, keys: StepKeys) -> list[np.ndarray]:
        """Losses [count, S] for each job, in the order of the jobs."""
        ...


class SerialWorkers:
    """All jobs in this process, one after another."""

    def __init__(self, config: MetaConfig, tasks: TaskFamily) -> None:
        self.inner_loop = InnerLoop(config)
        self._tasks = tasks

    def map(self, jobs: Sequence[Job], population: Params, keys: StepKeys) -> list[np.ndarray]:
        """See `Workers.map`."""
        return [self._run(job, population, keys) for job in jobs]

    def _run(self, job: Job, population: Params, keys: StepKeys) -> np.ndarray:
        members = jax.tree.map(lambda leaf: leaf[job.first : job.first + job.count], population)
        losses = self.inner_loop.losses(
            self._tasks.build(job.spec), members, keys.pairs(job.first, job.count), keys.data
        )
        return np.asarray(losses)


BACKENDS: dict[str, Callable[[MetaConfig, TaskFamily], Workers]] = {"serial": SerialWorkers}
