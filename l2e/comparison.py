"""Samplers side by side: same gradient steps, same batches, same start, several seeds.

A contender with several learning rates has its choice made on validation data; test data are only
reported. A contender is one program: its seeds side by side, its learning rates one by one, so that
memory does not grow with the grid.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from l2e import chain, metrics
from l2e.batches import minibatches
from l2e.parallel import each, over_devices
from l2e.potential import of_task
from l2e.predict import average, member_log_probs
from l2e.types import Batch, Key, Potential, Sampler, Task

SCORES = ("valid NLL", *metrics.METRICS, "KLD")
"""What is computed of every chain; all but the first on test data."""


@dataclass(frozen=True)
class Budget:
    """What every contender may spend; see `l2e.chain.run`."""

    burn_in: int
    draws: int
    thin: int
    batch_size: int

    @property
    def gradient_steps(self) -> int:
        """Gradient evaluations of one chain."""
        return self.burn_in + self.draws * self.thin


@dataclass(frozen=True)
class Contender:
    """A sampler in the comparison.

    Attributes:
        name: its rows in the table.
        build: (potential, step size h) -> kernel.
        default: the learning rate ℓ = h·n used untuned.
        grid: learning rates to choose from on validation data; empty for no tuned row.
    """

    name: str
    build: Callable[[Potential, jax.Array], Sampler]
    default: float
    grid: tuple[float, ...] = ()


@dataclass(frozen=True)
class Row:
    """A contender's result.

    Attributes:
        name: the contender.
        learning_rate: the one used.
        candidates: how many it was chosen from; 1 for the default.
        seeds: chains that stayed finite, of which the mean is taken.
        diverged: chains that did not.
        metrics: name -> (mean, standard error over seeds) on test data.
    """

    name: str
    learning_rate: float
    candidates: int
    seeds: int
    diverged: int
    metrics: dict[str, tuple[float, float]]


def compare(
    task: Task, contenders: Sequence[Contender], budget: Budget, key: Key, *, seeds: int
) -> list[Row]:
    """Run every contender on a task.

    Args:
        task: its validation part chooses learning rates, its test part is reported.
        contenders: the rows.
        budget: the same for all.
        key: all randomness; seed s of every contender starts at the same θ₀ and sees the same
            batches.
        seeds: chains per learning rate; at least 2, for a standard error.

    Returns:
        One `Row` a contender at its default, and one more where it has a grid; in order.

    Raises:
        ValueError: for fewer than 2 seeds.
    """
    if seeds < 2:
        raise ValueError(f"seeds is {seeds}; expected at least 2, for a standard error")
    keys = jax.random.split(key, seeds)
    return [row for contender in contenders for row in _rows(task, contender, budget, keys)]


def _rows(task: Task, contender: Contender, budget: Budget, keys: Key) -> list[Row]:
    """The row at the default learning rate and, where there is a grid, at the best of it."""
    rates = tuple(dict.fromkeys((contender.default, *contender.grid)))
    scores = _scores(task, contender, rates, budget, keys)
    finite = np.all([np.isfinite(values) for values in scores.values()], axis=0)
    valid = scores.pop("valid NLL")

    def row(name: str, index: int, candidates: int) -> Row:
        kept = finite[index]
        return Row(
            name=name,
            learning_rate=rates[index],
            candidates=candidates,
            seeds=int(kept.sum()),
            diverged=int((~kept).sum()),
            metrics={name: mean_and_error(values[index][kept]) for name, values in scores.items()},
        )

    if not contender.grid:
        return [row(contender.name, 0, 1)]
    # One diverged chain rules a learning rate out.
    typical = np.where(finite.all(axis=1), valid.mean(axis=1), np.inf)
    in_grid = [index for index, rate in enumerate(rates) if rate in contender.grid]
    best = min(in_grid, key=lambda index: typical[index])
    return [
        row(f"{contender.name}, default", 0, 1),
        row(f"{contender.name}, best of {len(in_grid)}", best, len(in_grid)),
    ]


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """Mean and its standard error; NaN where there are too few values."""
    if len(values) < 2:
        return (float(values.mean()) if len(values) else float("nan")), float("nan")
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def _scores(
    task: Task, contender: Contender, rates: tuple[float, ...], budget: Budget, keys: Key
) -> dict[str, np.ndarray]:
    """Every metric, and the validation NLL, as [learning rates, seeds]."""

    def chains(choices: tuple[jax.Array, Key], *parts: Batch) -> dict[str, jax.Array]:
        return each(
            lambda rate, key: _chain_scores(task, contender, budget, rate, key, parts), *choices
        )

    @jax.jit
    def grid(choices: tuple[jax.Array, Key], parts: tuple[Batch, Batch, Batch]) -> Any:
        return over_devices(chains, choices, *parts)

    parts = (task.train, task.valid, task.test)
    every_rate = jnp.repeat(jnp.asarray(rates, jnp.float32), len(keys))
    scores = grid((every_rate, jnp.tile(keys, len(rates))), parts)
    return {name: np.asarray(scores[name]).reshape(len(rates), -1) for name in SCORES}


def _chain_scores(
    task: Task,
    contender: Contender,
    budget: Budget,
    rate: jax.Array,
    key: Key,
    parts: Sequence[Batch],
) -> dict[str, jax.Array]:
    train, (x_valid, y_valid), (x_test, y_test) = parts
    potential = of_task(task)
    draws = chain.run(
        contender.build(potential, rate / task.num_data),
        chain.split_roles(jax.random.fold_in(key, 0)),
        task.init(jax.random.fold_in(key, 1)),
        minibatches(train, min(budget.batch_size, task.num_data)),
        burn_in=budget.burn_in,
        draws=budget.draws,
        thin=budget.thin,
    )
    batch_size = task.micro_batch or 500
    valid = average(member_log_probs(task.apply, draws, x_valid, batch_size=batch_size))
    members = member_log_probs(task.apply, draws, x_test, batch_size=batch_size)
    test = average(members)
    return {
        "valid NLL": metrics.negative_log_likelihood(valid, y_valid),
        **{name: metric(test, y_test) for name, metric in metrics.METRICS.items()},
        "KLD": metrics.pairwise_kld(members),
    }


def rows_to_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Plain dictionaries."""
    return [asdict(row) for row in rows]
