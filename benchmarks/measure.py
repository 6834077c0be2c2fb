"""What the benchmarks share: fair timing, the machine's own rate, arithmetic, results kept."""

import importlib.metadata
import json
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from l2e.jsonable import jsonable
from l2e.parallel import over_devices


def interleaved(runs: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each run, taken in turn so that a machine whose speed drifts favours nobody.

    Each is run once before, uncounted: it compiles then.
    """
    for run in runs.values():
        jax.block_until_ready(run())
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            started = time.perf_counter()
            jax.block_until_ready(run())
            seconds[name].append(time.perf_counter() - started)
    return seconds


def ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """Median of the ratios of times taken one after the other."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def on_every_device(step: Callable[[jax.Array, Any], Any], state: Any, steps: int) -> Any:
    """A run of `steps` steps of one chain a device, side by side, as one compiled program."""
    devices = jax.local_device_count()
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf] * devices), state)

    def chain(states: Any) -> Any:
        state = jax.tree.map(lambda leaf: leaf[0], states)
        state = jax.lax.fori_loop(0, steps, step, state)
        return jax.tree.map(lambda leaf: leaf[None], state)

    program = jax.jit(lambda stacked: over_devices(chain, stacked)).lower(stacked).compile()
    return lambda: program(stacked)


SIZE, PRODUCTS = 1024, 8


def products() -> Callable[[], Any]:
    """Plain products of square matrices on every device: the roof of the roofline columns."""
    matrix = jnp.full((SIZE, SIZE), 1.0 / SIZE, jnp.float32)
    return on_every_device(lambda _, x: x @ matrix, matrix, PRODUCTS)


def product_rate(seconds: Sequence[float]) -> list[float]:
    """Operations a second of `products`, all devices together, from its times."""
    work = 2 * SIZE**3 * PRODUCTS * jax.local_device_count()
    return [work / value for value in seconds]


def arithmetic(function: Callable[..., Any], *arguments: Any) -> float:
    """Operations in the matrix products and convolutions of a function, from its trace."""
    return _count(jax.make_jaxpr(function)(*arguments).jaxpr)


def _count(jaxpr: Any) -> float:
    total = 0.0
    for equation in jaxpr.eqns:
        total += _COUNTED.get(equation.primitive.name, lambda equation: 0.0)(equation)
        times = equation.params.get("length", 1)
        for inner in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda leaf: hasattr(leaf, "eqns")
        ):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                total += times * _count(inner)
    return total


def _of_product(equation: Any) -> float:
    (contracted, _), _ = equation.params["dimension_numbers"]
    lhs, output = equation.invars[0].aval.shape, equation.outvars[0].aval.shape
    return 2.0 * math.prod(output) * math.prod(lhs[axis] for axis in contracted)


def _of_convolution(equation: Any) -> float:
    """Zeros between the pixels of a dilated image are not counted."""
    kernel, output = equation.invars[1].aval.shape, equation.outvars[0].aval.shape
    features = kernel[equation.params["dimension_numbers"].rhs_spec[0]]
    dilation = math.prod(equation.params["lhs_dilation"])
    return 2.0 * math.prod(output) * math.prod(kernel) / features / dilation


_COUNTED: dict[str, Callable[[Any], float]] = {
    "dot_general": _of_product,
    "conv_general_dilated": _of_convolution,
}


def geometric_mean(values: Sequence[float]) -> float:
    """exp of the mean logarithm."""
    return float(np.exp(np.mean(np.log(values))))


def write(path: Path | None, results: Mapping[str, Any]) -> None:
    """Write results with machine and versions as JSON, where a path is given."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(jsonable({**results, "machine": machine()}), indent=1) + "\n")


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    return {
        "devices": [f"{device.platform}: {device.device_kind}" for device in jax.local_devices()],
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "flax")},
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
