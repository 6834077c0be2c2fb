"""Samplers side by side: same gradient steps, same batches, same start, several seeds.

A contender with several learning rates has its choice made on validation data; test data are only
reported. All chains of a contender run as one program.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from l2e import chain, metrics
from l2e.batches import minibatches
from l2e.potential import minibatch
from l2e.predict import average, member_log_probs
from l2e.types import Batch, Key, Potential, Sampler, Task


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
        name: its row in the table.
        build: (potential, step size h) -> kernel.
        learning_rates: ℓ = h·n to choose from; a single one is used untuned.
    """

    name: str
    build: Callable[[Potential, jax.Array], Sampler]
    learning_rates: tuple[float, ...]


@dataclass(frozen=True)
class Row:
    """A contender's result.

    Attributes:
        name: the contender.
        learning_rate: the one used.
        candidates: how many it was chosen from.
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
        One `Row` a contender, in order.

    Raises:
        ValueError: for fewer than 2 seeds.
    """
    if seeds < 2:
        raise ValueError(f"seeds is {seeds}; expected at least 2, for a standard error")
    keys = jax.random.split(key, seeds)
    return [_row(task, contender, budget, keys) for contender in contenders]


def _row(task: Task, contender: Contender, budget: Budget, keys: Key) -> Row:
    scores = _scores(task, contender, budget, keys)
    valid = scores.pop("valid NLL")
    finite = np.isfinite(valid)
    # A learning rate at which any chain diverges is not one that a careful user would choose.
    typical = np.where(finite.all(axis=1), np.where(finite, valid, 0.0).mean(axis=1), np.inf)
    best = int(typical.argmin())
    kept = finite[best]
    return Row(
        name=contender.name,
        learning_rate=contender.learning_rates[best],
        candidates=len(contender.learning_rates),
        seeds=int(kept.sum()),
        diverged=int((~kept).sum()),
        metrics={name: mean_and_error(values[best][kept]) for name, values in scores.items()},
    )


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """Mean and its standard error; NaN where there are too few values."""
    if len(values) < 2:
        return (float(values.mean()) if len(values) else float("nan")), float("nan")
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def _scores(task: Task, contender: Contender, budget: Budget, keys: Key) -> dict[str, np.ndarray]:
    """Every metric, and the validation NLL, as [learning rates, seeds]."""

    def one(rate: jax.Array, key: Key, train: Batch, valid: Batch, test: Batch) -> Any:
        return _chain_scores(task, contender, budget, rate, key, (train, valid, test))

    grid = jax.vmap(jax.vmap(one, (None, 0, *[None] * 3)), (0, None, *[None] * 3))
    rates = jnp.asarray(contender.learning_rates, jnp.float32)
    scores = jax.jit(grid)(rates, keys, task.train, task.valid, task.test)
    return {name: np.asarray(values) for name, values in scores.items()}


def _chain_scores(
    task: Task,
    contender: Contender,
    budget: Budget,
    rate: jax.Array,
    key: Key,
    parts: tuple[Batch, Batch, Batch],
) -> dict[str, jax.Array]:
    train, (x_valid, y_valid), (x_test, y_test) = parts
    potential = minibatch(task.log_likelihood, task.log_prior, task.num_data)
    draws = chain.run(
        contender.build(potential, rate / task.num_data),
        chain.split_roles(jax.random.fold_in(key, 0)),
        task.init(jax.random.fold_in(key, 1)),
        minibatches(train, min(budget.batch_size, task.num_data)),
        burn_in=budget.burn_in,
        draws=budget.draws,
        thin=budget.thin,
    )
    valid = average(member_log_probs(task.apply, draws, x_valid, batch_size=500))
    members = member_log_probs(task.apply, draws, x_test, batch_size=500)
    test = average(members)
    return {
        "valid NLL": metrics.negative_log_likelihood(valid, y_valid),
        **{name: metric(test, y_test) for name, metric in metrics.METRICS.items()},
        "KLD": metrics.pairwise_kld(members),
    }


def rows_to_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Plain dictionaries."""
    return [asdict(row) for row in rows]
