"""Where jobs run: one `map(jobs) -> results`, whatever the machine.

A job is small and idempotent: it names a task and a range of pairs. Its result is a few floats that
depend on it, the population and the step's keys alone, so it may run anywhere, twice, or again.
"""

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import jax
import numpy as np

from l2e.meta.config import MetaConfig
from l2e.meta.inner import InnerLoop
from l2e.meta.keys import StepKeys
from l2e.types import Params, Task, TaskFamily


@dataclass(frozen=True)
class Job:
    """Pairs `first` to `first + count` of an outer step, on one task."""

    spec: Hashable
    first: int
    count: int


class Workers(Protocol):
    """A backend."""

    def prepare(self, spec: Hashable, population: Params, keys: StepKeys) -> None:
        """A hint: the task of the next step, and a population and keys shaped like its own."""
        ...

    def map(self, jobs: Sequence[Job], population: Params, keys: StepKeys) -> list[np.ndarray]:
        """Losses [count, S] for each job, in the order of the jobs."""
        ...


class SerialWorkers:
    """All jobs in this process, one after another; the next task is made ready meanwhile."""

    def __init__(self, config: MetaConfig, tasks: TaskFamily) -> None:
        self.inner_loop = InnerLoop(config)
        self._tasks = tasks
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="prepare")
        self._ahead: dict[Hashable, Future[Task]] = {}

    def prepare(self, spec: Hashable, population: Params, keys: StepKeys) -> None:
        """Load the data and compile the program of a task, in the background."""

        def prepared() -> Task:
            task = self._tasks.build(spec)
            pair_keys = keys.pairs(0, len(jax.tree.leaves(population)[0]))
            self.inner_loop.compile(task, population, pair_keys, keys.data)
            return task

        # The last one prepared is the task of the present step; older data can go.
        self._ahead = dict(list(self._ahead.items())[-1:])
        if spec not in self._ahead:
            self._ahead[spec] = self._thread.submit(prepared)

    def map(self, jobs: Sequence[Job], population: Params, keys: StepKeys) -> list[np.ndarray]:
        """See `Workers.map`."""
        return [self._run(job, population, keys) for job in jobs]

    def _run(self, job: Job, population: Params, keys: StepKeys) -> np.ndarray:
        members = jax.tree.map(lambda leaf: leaf[job.first : job.first + job.count], population)
        pair_keys = keys.pairs(job.first, job.count)
        losses = self.inner_loop.losses(self._task(job.spec), members, pair_keys, keys.data)
        return np.asarray(losses)

    def _task(self, spec: Hashable) -> Task:
        return self._ahead[spec].result() if spec in self._ahead else self._tasks.build(spec)


BACKENDS: dict[str, Callable[[MetaConfig, TaskFamily], Workers]] = {"serial": SerialWorkers}
