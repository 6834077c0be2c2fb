"""The table after a meta-training run: the learned sampler against SGHMC and SGLD, tuned or not."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import jax
from rich.console import Console

from l2e.comparison import Budget, Contender, Row, compare, rows_to_json
from l2e.dynamics import DEFAULT_LEARNING_RATE
from l2e.jsonable import jsonable
from l2e.meta.config import MetaConfig
from l2e.meta.files import COMPARISON_FILE, COMPARISON_TABLE, FIGURE_FILE, SAMPLER_FOLDER
from l2e.meta.keys import Role, run_key
from l2e.pretrained import LearnedSampler
from l2e.report.card import write_card
from l2e.report.tables import as_markdown, as_table
from l2e.samplers import SAMPLERS
from l2e.types import Potential, Sampler, Task, TaskFamily

LEARNING_RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)


def contenders(sampler: LearnedSampler) -> list[Contender]:
    """The learned sampler at its default; SGHMC and SGLD at theirs, and at the best of six."""
    return [
        Contender(
            "L2E, untuned",
            lambda potential, h: sampler.build(potential, step_size=h),
            sampler.manifest["learning_rate"],
        ),
        Contender("SGHMC", _with_step_size("sghmc"), DEFAULT_LEARNING_RATE, LEARNING_RATES),
        Contender("SGLD", _with_step_size("sgld"), DEFAULT_LEARNING_RATE, LEARNING_RATES),
    ]


def report_comparison(
    sampler: LearnedSampler,
    config: MetaConfig,
    tasks: TaskFamily,
    out: Path,
    seeds: int,
    console: Console,
) -> dict[str, list[Row]]:
    """Compare on every held-out task; print a table, write it, and write the sampler's card.

    Args:
        sampler: as exported.
        config: its inner loop is the budget.
        tasks: whose held-out tasks are used.
        out: the run's folder, for comparison.json, comparison.md and the card.
        seeds: chains a contender.
        console: where the table appears.

    Returns:
        Rows by task name.
    """
    inner = config.inner
    budget = Budget(inner.burn_in, inner.draws, inner.thin, inner.batch_size)
    key = run_key(config.seed, Role.COMPARISON)
    results = {}
    for spec in tasks.heldout:
        task = tasks.build(spec)
        console.print(f"comparing on {task.name}, which was never trained on …", highlight=False)
        rows = compare(task, contenders(sampler), budget, key, seeds=seeds)
        results[task.name] = rows
        console.print(as_table(rows, caption(task, budget)))
    by_task = {name: rows_to_json(rows) for name, rows in results.items()}
    document = jsonable({"budget": asdict(budget), "seeds": seeds, "tasks": by_task})
    (out / COMPARISON_FILE).write_text(json.dumps(document, indent=2, allow_nan=False) + "\n")
    markdown = [f"### {name}\n\n{as_markdown(rows)}\n" for name, rows in results.items()]
    (out / COMPARISON_TABLE).write_text("\n".join(markdown))
    write_card(sampler, results, out / SAMPLER_FOLDER, out / FIGURE_FILE)
    return results


def caption(task: Task, budget: Budget) -> str:
    """What the numbers of a table are."""
    return (
        f"{task.name}: test data, mean ± standard error over seeds; {budget.gradient_steps} "
        f"gradient steps of batch {min(budget.batch_size, task.num_data)}, {budget.draws} draws, "
        f"n = {task.num_data}; tuned rates chosen by validation NLL"
    )


def _with_step_size(name: str) -> Callable[[Potential, jax.Array], Sampler]:
    return lambda potential, h: SAMPLERS[name](potential, step_size=h)
