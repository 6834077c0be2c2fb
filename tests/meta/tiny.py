"""A meta-training run that takes seconds: softmax regression on blobs, in two shapes.

Run as a program (folder, outer steps, steps between checkpoints), it is there to be killed.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import l2e
from l2e.meta import train
from l2e.meta.config import InnerConfig, KineticConfig, MetaConfig

CLASSES = 3


@dataclass(frozen=True)
class Blobs:
    """Gaussian blobs in `dim` dimensions; `seed` changes the data and not the shape."""

    dim: int
    seed: int


def init(dim, key):
    weights = 0.1 * jax.random.normal(key, (dim, CLASSES))
    return {"w": weights, "b": jnp.zeros((CLASSES,))}


def apply(params, x):
    return x @ params["w"] + params["b"][None, :]


def log_likelihood(params, batch):
    x, y = batch
    rows = jax.nn.log_softmax(apply(params, x))
    return jnp.take_along_axis(rows, y[:, None], axis=-1)[:, 0]


class TinyTasks:
    """Four training tasks of two signatures, and one held out."""

    specs = (Blobs(3, 0), Blobs(3, 1), Blobs(5, 0), Blobs(5, 1))
    heldout = (Blobs(4, 9),)

    def __init__(self, apply_to_data=lambda x: x, *, one_shape=False):
        self.apply_to_data = apply_to_data
        if one_shape:
            self.specs, self.heldout = self.specs[:2], ()

    def sample(self, key):
        return self.specs[int(jax.random.randint(key, (), 0, len(self.specs)))]

    def build(self, spec):
        rng = np.random.default_rng([spec.dim, spec.seed])
        centres = 1.5 * rng.normal(size=(CLASSES, spec.dim))

        def part(count):
            y = rng.integers(0, CLASSES, count)
            x = centres[y] + rng.normal(size=(count, spec.dim))
            return jnp.asarray(self.apply_to_data(x), jnp.float32), jnp.asarray(y, jnp.int32)

        return l2e.Task(
            name=str(spec),
            signature=spec.dim,
            init=lambda key: init(spec.dim, key),
            apply=apply,
            log_likelihood=log_likelihood,
            log_prior=l2e.priors.gaussian(1.0),
            num_data=60,
            train=part(60),
            valid=part(30),
            test=part(30),
        )


def tiny_config(**changes):
    values = {
        "tasks": "tiny",
        "kinetic": KineticConfig(widths=(8,)),
        "inner": InnerConfig(burn_in=5, draws=3, thin=2, batch_size=20, predict_batch=30),
        "pairs": 4,
        "chunk": 2,
        "heldout_chains": 2,
        "outer_steps": 3,
        "checkpoint_every": 1,
        "heldout_every": 2,
    }
    return MetaConfig(**(values | changes))


if __name__ == "__main__":
    out, steps = Path(sys.argv[1]), int(sys.argv[2])
    try:
        config = tiny_config(outer_steps=steps, checkpoint_every=int(sys.argv[3]))
        options = train.RunOptions(out, resume="--resume" in sys.argv)
        train.run(config, TinyTasks(one_shape=True), options)
    except train.InterruptedRunError as interruption:
        print(interruption)
        sys.exit(130)
