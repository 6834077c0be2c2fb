"""What a step of the learned sampler costs over a step of SGHMC, and over the gradient alone.

    python benchmarks/step_overhead.py --out docs/figures/step_overhead.json

Two tables. Steps: one chain a device on the two networks of the paper's transfer experiments, batch
128, in one compiled loop with random images. Updates: the learned update alone (its gradient is
free) against the number of parameters. Everything is timed in turn in one run; the last column is
the share of the rate that plain matrix products reach on the same devices, measured in between.
"""

import statistics
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import measure
import tyro
from rich.console import Console
from rich.table import Table

import l2e
from l2e.batches import minibatches
from l2e.machine import prepare
from l2e.potential import of_task
from tasks.build import Parts, bind
from tasks.spec import TaskSpec

NETWORKS = {
    "Fashion-MNIST, cnn32": ("any/cnn32", (28, 28, 1)),
    "CIFAR, ResNet20-FRN": ("any/resnet20", (32, 32, 3)),
}
BATCH = 128


@dataclass(frozen=True)
class Arguments:
    """Measure the cost of a learned step."""

    out: Path | None = None
    """JSON file for the results."""
    rounds: int = 5
    """How often each is timed."""
    widths: tuple[int, ...] = (32, 16, 8)
    """Hidden widths of the kinetic network."""
    parameters: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)
    """Sizes of the model for the update alone."""


def main(arguments: Arguments) -> None:
    """Measure, print, write."""
    prepare()
    console = Console()
    steps = [row for name in NETWORKS for row in step_rows(name, arguments)]
    console.print(step_table(steps))
    updates = [update_row(size, arguments) for size in arguments.parameters]
    console.print(update_table(updates))
    measure.write(arguments.out, {"steps": steps, "updates": updates})


def kernels(potential: l2e.Potential, widths: tuple[int, ...]) -> dict[str, l2e.Sampler]:
    """SGHMC, and the learned sampler at every width."""
    built = {"SGHMC": l2e.SAMPLERS["sghmc"](potential)}
    for width in widths:
        kinetic = l2e.KINETICS["anchored"](widths=(width, width))
        phi = kinetic.init(jax.random.key(0))
        built[f"L2E, width {width}"] = l2e.SAMPLERS["l2e"](potential, kinetic=kinetic, phi=phi)
    return built


def step_rows(name: str, arguments: Arguments) -> list[dict[str, Any]]:
    """Time of gradient, SGHMC and L2E on one network."""
    spec, shape = NETWORKS[name]
    task = bind(TaskSpec.parse(spec), random_parts(shape), l2e.priors.gaussian(1.0))
    potential = of_task(task)
    source, key = minibatches(task.train, BATCH), jax.random.key(1)
    theta = task.init(jax.random.key(2))
    work = measure.arithmetic(potential.value_and_grad, theta, source(key, jnp.int32(0)))
    count = max(1, int(4e9 / work))

    def descend(step: jax.Array, theta: Any) -> Any:
        _, gradient = potential.value_and_grad(theta, source(key, step))
        return jax.tree.map(lambda p, g: p - 1e-9 * g, theta, gradient)

    def advance(kernel: l2e.Sampler, step: jax.Array, state: Any) -> Any:
        return kernel.step(jax.random.fold_in(key, step), state, source(key, step))[0]

    runs = {"gradient": measure.on_every_device(descend, theta, count)}
    for label, kernel in kernels(potential, arguments.widths).items():
        start = kernel.init(key, theta)
        runs[label] = measure.on_every_device(partial(advance, kernel), start, count)
    seconds = measure.interleaved(runs | {"products": measure.products()}, arguments.rounds)
    rate = statistics.median(measure.product_rate(seconds.pop("products")))
    chains = jax.local_device_count()
    return [
        {
            "network": name,
            "parameters": sum(leaf.size for leaf in jax.tree.leaves(theta)),
            "step": label,
            "ms": 1e3 * statistics.median(times) / count,
            "over_sghmc": measure.ratio(times, seconds["SGHMC"]),
            "product_share": chains * count * work / statistics.median(times) / rate,
        }
        for label, times in seconds.items()
    ]


def random_parts(shape: tuple[int, ...]) -> Parts:
    """Images of noise: speed does not depend on what is seen.

    Few are for validation, so that short runs do not pay more for predictions than long ones do.
    """

    def part(count: int) -> tuple[jax.Array, jax.Array]:
        x = jax.random.normal(jax.random.key(count), (count, *shape))
        return x, jnp.arange(count, dtype=jnp.int32) % 10

    return Parts(part(4000), part(16), part(16), 10)


def update_row(size: int, arguments: Arguments) -> dict[str, Any]:
    """Time of the update alone: the potential's gradient is the position itself."""
    # Tensors of a convolutional network's proportions: most of it in one, the rest small.
    small = (144, 16, 200, 10)
    theta = [jnp.full((part,), 0.1) for part in (*small, size - sum(small))]
    free = l2e.Potential(lambda theta, batch: (jnp.float32(0.0), theta), num_data=1)
    width = arguments.widths[0]
    count = max(3, 500_000 // size)

    def advance(kernel: l2e.Sampler, step: jax.Array, state: Any) -> Any:
        return kernel.step(jax.random.fold_in(jax.random.key(1), step), state, None)[0]

    runs = {
        label.split(",")[0]: measure.on_every_device(
            partial(advance, kernel), kernel.init(jax.random.key(0), theta), count
        )
        for label, kernel in kernels(free, (width,)).items()
    }
    seconds = measure.interleaved(runs | {"products": measure.products()}, 2 * arguments.rounds)
    # Two whole passes of 9 -> width -> width -> 2 a parameter, as they are run.
    work = 4.0 * (9 * width + width * width + 2 * width) * size
    rates = measure.product_rate(seconds["products"])
    chains = jax.local_device_count()
    achieved = [chains * count * work / value for value in seconds["L2E"]]
    return {
        "parameters": size,
        "width": width,
        "sghmc_ns": 1e9 * statistics.median(seconds["SGHMC"]) / count / size / chains,
        "l2e_ns": 1e9 * statistics.median(seconds["L2E"]) / count / size / chains,
        "gflops": statistics.median(achieved) / 1e9,
        "share_of_product_rate": statistics.median(
            ours / roof for ours, roof in zip(achieved, rates, strict=True)
        ),
    }


def step_table(rows: list[dict[str, Any]]) -> Table:
    """Steps by network."""
    table = Table(
        title=f"One step, batch {BATCH}, one chain on each of {jax.local_device_count()} devices"
    )
    for heading in ("network", "step", "ms", "÷ SGHMC", "share of product rate"):
        table.add_column(heading, justify="left" if heading in ("network", "step") else "right")
    for row in rows:
        table.add_row(
            f"{row['network']} ({row['parameters']:,})",
            row["step"],
            f"{row['ms']:.2f}",
            f"{row['over_sghmc']:.3f}",
            f"{row['product_share']:.0%}",
        )
    return table


def update_table(rows: list[dict[str, Any]]) -> Table:
    """Updates by size."""
    table = Table(title="The update alone, all devices busy, time per parameter and chain")
    for heading in ("parameters", "SGHMC, ns", "L2E, ns", "GFLOP/s", "share of product rate"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            f"{row['parameters']:,}",
            f"{row['sghmc_ns']:.1f}",
            f"{row['l2e_ns']:.1f}",
            f"{row['gflops']:.0f}",
            f"{row['share_of_product_rate']:.0%}",
        )
    return table


if __name__ == "__main__":
    main(tyro.cli(Arguments))
