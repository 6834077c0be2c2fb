"""The comparison: equal budgets, honest choice of step sizes, honest standard errors."""

import json

import jax
import numpy as np
import pytest
from tiny import TinyTasks

from l2e.comparison import Budget, Contender, compare, mean_and_error, rows_to_json
from l2e.report.tables import as_markdown, as_table
from l2e.samplers import SAMPLERS

BUDGET = Budget(burn_in=20, draws=4, thin=3, batch_size=20)


def sghmc(potential, h):
    return SAMPLERS["sghmc"](potential, step_size=h)


@pytest.fixture(scope="module")
def task():
    return TinyTasks().build(TinyTasks.specs[0])


def test_the_best_of_the_grid_is_chosen_and_the_default_kept(task):
    contender = Contender("SGHMC", sghmc, default=1e-6, grid=(1e-6, 0.3))
    rows = compare(task, [contender], BUDGET, jax.random.key(0), seeds=3)
    assert [(row.name, row.learning_rate, row.candidates) for row in rows] == [
        ("SGHMC, default", 1e-6, 1),
        ("SGHMC, best of 2", 0.3, 2),
    ]
    assert rows[1].metrics["NLL"][0] < rows[0].metrics["NLL"][0]


def test_a_default_outside_the_grid_is_not_chosen_from(task):
    contender = Contender("SGHMC", sghmc, default=0.3, grid=(1e-6, 1e-5))
    default, best = compare(task, [contender], BUDGET, jax.random.key(0), seeds=2)
    assert (default.learning_rate, best.candidates) == (0.3, 2)
    assert best.learning_rate in (1e-6, 1e-5)


def test_rows_do_not_depend_on_the_other_rows(task):
    """Every contender has the same seeds, so a twin gets the twin's numbers."""
    one = Contender("a", sghmc, default=0.1)
    rows = compare(task, [one, one], BUDGET, jax.random.key(1), seeds=3)
    assert rows[0] == rows[1]
    other = compare(task, [one], BUDGET, jax.random.key(2), seeds=3)
    assert other[0].metrics != rows[0].metrics


def test_diverged_chains_are_counted_and_never_chosen(task):
    contender = Contender("SGHMC", sghmc, default=1e30, grid=(0.01, 1e30))
    default, best = compare(task, [contender], BUDGET, jax.random.key(0), seeds=3)
    assert (default.diverged, default.seeds) == (3, 0)
    assert np.isnan(default.metrics["NLL"][0])
    assert (best.learning_rate, best.diverged) == (0.01, 0)
    assert "3 diverged" in as_markdown([default, best])


def test_gradient_steps_are_counted():
    assert BUDGET.gradient_steps == 32


def test_mean_and_standard_error_by_hand():
    """(1, 2, 6): mean 3, variance (4 + 1 + 9)/2 = 7, error √(7/3)."""
    assert mean_and_error(np.array([1.0, 2.0, 6.0])) == pytest.approx((3.0, (7 / 3) ** 0.5))
    mean, error = mean_and_error(np.array([2.0]))
    assert mean == 2.0
    assert np.isnan(error)
    assert np.isnan(mean_and_error(np.array([]))).all()


def test_one_seed_is_refused(task):
    with pytest.raises(ValueError, match="seeds is 1; expected at least 2"):
        compare(task, [], BUDGET, jax.random.key(0), seeds=1)


def test_tables_carry_every_number(task):
    contender = Contender("SGHMC", sghmc, default=0.1)
    rows = compare(task, [contender], BUDGET, jax.random.key(0), seeds=2)
    json.dumps(rows_to_json(rows))
    header, rule, line = as_markdown(rows).splitlines()
    assert header == "| sampler | rate ℓ | ACC | NLL | ECE | KLD | seeds |"
    assert rule.count("--") == 7
    mean, error = rows[0].metrics["NLL"]
    assert f"{mean:.4f} ± {error:.4f}" in line
    assert len(as_table(rows, "title").rows) == 1
