"""Inner steps a second over the paper's networks, beside two plainer ways to run the same chains.

    python benchmarks/meta_throughput.py --out docs/figures/meta_throughput.json

Networks of 4, 8 and 16 channels, depth 1, 3 and 5, with and without skips, on random 28×28 images,
batch 128. Three engines run the same learned sampler:

- ours: `l2e.meta.inner.InnerLoop`, as meta-training runs it;
- naive: two pairs under one `vmap` in one loop, XLA's convolution and its gradient, the learned
  update tensor by tensor in two whole passes;
- stepwise: one chain, gradient and update each compiled alone and called from Python, so that XLA's
  convolution runs outside any loop, where it is fastest.

Every time is for one step of one chain with the whole machine at work. GFLOP/s counts the matrix
products and convolutions of gradient and update; the last column divides it by the rate of plain
matrix products on the same devices in the same run.
"""

import statistics
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import measure
import plain
import tyro
from rich.console import Console
from rich.table import Table
from step_overhead import random_parts

import l2e
from l2e.machine import peak_memory, prepare
from l2e.meta.config import InnerConfig, MetaConfig
from l2e.meta.inner import InnerLoop
from l2e.potential import of_task
from tasks.build import bind
from tasks.spec import ModelSpec, TaskSpec

SHAPE = (28, 28, 1)


@dataclass(frozen=True)
class Arguments:
    """Measure inner steps a second."""

    out: Path | None = None
    """JSON file for the results."""
    channels: tuple[int, ...] = (4, 8, 16)
    """Widths of the networks."""
    depths: tuple[int, ...] = (1, 3, 5)
    """Depths of the networks."""
    rounds: int = 3
    """How often each engine is timed."""
    seconds: float = 2.0
    """About how long one timed run takes."""


def main(arguments: Arguments) -> None:
    """Measure, print, write."""
    prepare()
    console = Console(width=110)
    rows = []
    for residual, channels, depth in product((False, True), arguments.channels, arguments.depths):
        spec = TaskSpec("any", ModelSpec(channels, depth, residual))
        rows.append(row(spec, arguments))
        last = rows[-1]
        console.print(f"{last['network']}: {last['steps_per_second']:,.0f} inner steps/s")
    summary = {
        "geomean_speedup": measure.geometric_mean([row["over_naive"] for row in rows]),
        "geomean_over_stepwise": measure.geometric_mean([row["over_stepwise"] for row in rows]),
        "geomean_steps_per_second": measure.geometric_mean(
            [row["steps_per_second"] for row in rows]
        ),
        "peak_memory_mb": peak_memory() / 1e6,
    }
    console.print(table(rows, summary))
    measure.write(arguments.out, {**summary, "rows": rows})


def row(spec: TaskSpec, arguments: Arguments) -> dict[str, Any]:
    """One network, by all engines."""
    parts = random_parts(SHAPE)
    prior = l2e.priors.gaussian(1.0)
    task = bind(spec, parts, prior)
    plainly = bind(spec, parts, prior, "lax")._replace(micro_batch=None)
    work = step_arithmetic(plainly)
    # Sized by a guess of the speed: a rough one changes how long this takes, not what it finds.
    steps = max(4, int(arguments.seconds * 60e9 / work / 16))
    ours, chain_steps = our_run(task, steps)
    naive, naive_steps = plain.vmapped(plainly, pairs=2, steps=1)
    stepwise, single_steps = plain.stepwise(plainly, steps=4)
    runs = {"ours": ours, "naive": naive, "stepwise": stepwise, "products": measure.products()}
    seconds = measure.interleaved(runs, arguments.rounds)
    each = {
        "ours": [value / chain_steps for value in seconds["ours"]],
        "naive": [value / naive_steps for value in seconds["naive"]],
        "stepwise": [value / single_steps for value in seconds["stepwise"]],
    }
    own = statistics.median(each["ours"])
    rate = statistics.median(measure.product_rate(seconds["products"]))
    return {
        "network": spec.model.name,
        "steps_per_second": 1.0 / own,
        **{f"{name}_ms": 1e3 * statistics.median(values) for name, values in each.items()},
        "over_naive": measure.ratio(each["naive"], each["ours"]),
        "over_stepwise": measure.ratio(each["stepwise"], each["ours"]),
        "gflops": work / own / 1e9,
        "share_of_product_rate": work / own / rate,
    }


def our_run(task: l2e.Task, steps: int) -> tuple[Any, int]:
    """An outer step of 8 pairs as meta-training runs it, and its inner steps."""
    inner = InnerConfig(burn_in=steps - 1, draws=1, thin=1)
    config = MetaConfig(tasks="any", pairs=8, chunk=4, inner=inner)
    phi = config.kinetic.build().init(jax.random.key(0))
    population = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (8, 2, *leaf.shape)), phi)
    keys = jax.random.split(jax.random.key(1), 8)
    run = partial(InnerLoop(config).losses, task, population, keys, jax.random.key(2))
    return run, 16 * steps


def step_arithmetic(task: l2e.Task) -> float:
    """Operations of one step: the gradient's products, and two passes of the kinetic network."""
    potential = of_task(task)
    theta = jax.eval_shape(task.init, jax.random.key(0))
    batch = jax.tree.map(lambda leaf: leaf[: plain.BATCH], task.train)
    size = sum(leaf.size for leaf in jax.tree.leaves(theta))
    of_update = 4.0 * (9 * 32 + 32 * 32 + 2 * 32) * size
    return measure.arithmetic(potential.value_and_grad, theta, batch) + of_update


def table(rows: list[dict[str, Any]], summary: dict[str, float]) -> Table:
    """Engines side by side."""
    made = Table(title="One inner step of one chain, the whole machine at work", show_footer=True)
    made.add_column("network", footer="geometric mean")
    columns = (
        ("steps/s", "steps_per_second", "{:,.0f}", summary["geomean_steps_per_second"]),
        ("ours, ms", "ours_ms", "{:.2f}", None),
        ("naive, ms", "naive_ms", "{:.1f}", None),
        ("stepwise, ms", "stepwise_ms", "{:.1f}", None),
        ("naive ÷ ours", "over_naive", "{:.1f}", summary["geomean_speedup"]),
        ("stepwise ÷ ours", "over_stepwise", "{:.1f}", summary["geomean_over_stepwise"]),
        ("GFLOP/s", "gflops", "{:.0f}", None),
        ("share of products", "share_of_product_rate", "{:.0%}", None),
    )
    for heading, _, form, mean in columns:
        made.add_column(heading, footer="" if mean is None else form.format(mean), justify="right")
    for row in rows:
        made.add_row(row["network"], *(form.format(row[key]) for _, key, form, _ in columns))
    return made


if __name__ == "__main__":
    main(tyro.cli(Arguments))
