"""Strict JAX settings and the small posteriors that many tests share."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import l2e
from l2e.machine import keep_programs

# Tests make the same programs again and again: each is compiled once a session.
PROGRAMS = tempfile.TemporaryDirectory(prefix="l2e-programs-")
keep_programs(Path(PROGRAMS.name))
jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


class Problem(NamedTuple):
    """A skewed posterior: Poisson regression, so that no sign or scale error can cancel."""

    params: Any
    log_likelihood: Callable
    log_prior: Callable
    data: tuple[jax.Array, jax.Array]

    @property
    def num_data(self) -> int:
        return len(self.data[1])

    @property
    def size(self) -> int:
        return sum(leaf.size for leaf in jax.tree.leaves(self.params))

    @property
    def potential(self) -> l2e.Potential:
        return l2e.minibatch(self.log_likelihood, self.log_prior, self.num_data)

    def batch(self, index: int, size: int = 8):
        rows = slice(index * size % self.num_data, index * size % self.num_data + size)
        return jax.tree.map(lambda leaf: leaf[rows], self.data)


PARAMS = {
    "scalar": jnp.float32(0.2),
    "array": jnp.array([0.2, -0.1, 0.4], jnp.float32),
    "nested": {
        "hidden": {
            "w": 0.1 * jnp.arange(-6, 6, dtype=jnp.float32).reshape(3, 4),
            "b": jnp.array([0.1, -0.2, 0.3, 0.0], jnp.float32),
        },
        "out": (jnp.array([0.5, -0.5, 0.2, 0.1], jnp.float32), jnp.float32(0.3)),
    },
}
"""Positions by the shape of their pytree."""


def _predictor(params, x):
    if isinstance(params, dict):
        hidden = jnp.tanh(x @ params["hidden"]["w"] + params["hidden"]["b"][None])
        weights, offset = params["out"]
        return hidden @ weights + offset
    return x @ params if jnp.ndim(params) else x[:, 0] * params


def _log_likelihood(params, batch):
    x, y = batch
    rate = _predictor(params, x)
    return y * rate - jnp.exp(rate)


def _log_prior(params):
    return -0.5 * sum(jnp.sum(jnp.square(leaf - 0.3)) for leaf in jax.tree.leaves(params))


@pytest.fixture(scope="session", params=sorted(PARAMS))
def problem(request) -> Problem:
    """The posterior, over each shape of pytree."""
    return _problem(request.param)


@pytest.fixture(scope="session")
def nested() -> Problem:
    return _problem("nested")


def _problem(shape: str) -> Problem:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3)).astype(np.float32)
    y = rng.poisson(1.5, size=40).astype(np.float32)
    data = (jnp.asarray(x), jnp.asarray(y))
    return Problem(PARAMS[shape], _log_likelihood, _log_prior, data)


SAMPLER_ROWS = sorted(
    {name for name in l2e.SAMPLERS if name != "l2e"} | {f"l2e/{name}" for name in l2e.KINETICS}
)
"""Every sampler, the learned one once a kinetic energy."""


@pytest.fixture(scope="session", params=SAMPLER_ROWS)
def sampler_name(request) -> str:
    return request.param


@pytest.fixture(scope="session")
def build() -> Callable[..., l2e.Sampler]:
    """(row, potential, settings) -> kernel; the learned one with untrained φ."""

    def build(row: str, potential: l2e.Potential, **settings) -> l2e.Sampler:
        name, _, kinetic_name = row.partition("/")
        if kinetic_name:
            kinetic = l2e.KINETICS[kinetic_name]()
            settings = {"kinetic": kinetic, "phi": kinetic.init(jax.random.key(5)), **settings}
        return l2e.SAMPLERS[name](potential, **settings)

    return build


@pytest.fixture(scope="session")
def folder_with() -> Callable[..., Path]:
    """Names of real data sets -> the folder that has them all.

    They are not the project's to ship: without them, a test that needs them is skipped.
    """
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("L2E_DATA") or beside)

    def find(*names: str) -> Path:
        absent = [f"{name}.npz" for name in names if not (folder / f"{name}.npz").is_file()]
        if absent:
            pytest.skip(f"{folder} has no {', '.join(absent)} (set L2E_DATA to a folder with them)")
        return folder

    return find
