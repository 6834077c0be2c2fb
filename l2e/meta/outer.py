"""The outer loop: one step of evolution strategies on φ."""

import time
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from l2e.meta.config import MetaConfig
from l2e.meta.keys import Role, StepKeys, run_key, step_keys
from l2e.meta.strategies import STRATEGIES, Strategy, outer_adam
from l2e.meta.workers import Job, Workers
from l2e.types import Key, Params, TaskFamily


class MetaState(NamedTuple):
    """Everything that changes during meta-training; a checkpoint holds all of it.

    Attributes:
        step: outer steps done, int32.
        key: the root key of the run.
        strategy: state of the estimator: φ, its optimiser, its counters.
    """

    step: jax.Array
    key: Key
    strategy: Any


@dataclass(frozen=True)
class StepReport:
    """What is known of an outer step when it is done."""

    step: int
    task: str
    meta_loss: float
    grad_norm: float
    dropped_pairs: int
    inner_steps: int
    seconds: float


@dataclass(frozen=True)
class Training:
    """What stays the same from one outer step to the next."""

    config: MetaConfig
    strategy: Strategy
    tasks: TaskFamily
    workers: Workers


class TooManyDroppedError(RuntimeError):
    """More pairs than allowed had losses that are not finite."""


def make_strategy(config: MetaConfig, phi: Params) -> Strategy:
    """The configured estimator with its one optimiser."""
    optimizer = outer_adam(config.learning_rate, config.beta1, config.beta2, config.clip_norm)
    return STRATEGIES[config.strategy](
        phi, pairs=config.pairs, sigma=config.sigma, optimizer=optimizer
    )


def initial_phi(config: MetaConfig) -> Params:
    """φ before meta-training."""
    return config.kinetic.build().init(run_key(config.seed, Role.INIT))


def initial_state(config: MetaConfig, strategy: Strategy) -> MetaState:
    """The state before the first outer step."""
    key = jax.random.key(config.seed)
    state = strategy.init(run_key(key, Role.STRATEGY), initial_phi(config))
    return MetaState(jnp.zeros((), jnp.int32), key, state)


def meta_step(training: Training, state: MetaState) -> tuple[MetaState, StepReport]:
    """Draw a task, evaluate N antithetic pairs on it, and move φ.

    Raises:
        TooManyDroppedError: naming the task and the step's key.
    """
    started = time.perf_counter()
    config, strategy = training.config, training.strategy
    step = int(state.step)
    keys = step_keys(state.key, step)
    spec = training.tasks.sample(keys.task)
    population = strategy.ask(keys.perturbation, state.strategy)
    jobs = [Job(spec, 0, config.pairs)]
    if step + 1 < config.outer_steps:
        following = training.tasks.sample(step_keys(state.key, step + 1).task)
        training.workers.prepare(following, population, keys)
    losses = np.concatenate(training.workers.map(jobs, population, keys))
    kept = np.asarray(np.isfinite(losses).all(axis=1))
    _check_dropped(kept, config, spec, step, keys.key)
    new = strategy.tell(
        keys.update, state.strategy, population, jnp.asarray(drop_pairs(losses, kept))
    )
    report = StepReport(
        step=step + 1,
        task=str(spec),
        meta_loss=float(losses[kept].mean()),
        grad_norm=float(strategy.gradient_norm(new)),
        dropped_pairs=int((~kept).sum()),
        inner_steps=2 * config.pairs * config.inner.steps,
        seconds=time.perf_counter() - started,
    )
    return MetaState(state.step + 1, state.key, new), report


def drop_pairs(losses: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Losses [N, 2] in which dropped pairs count for nothing and the mean is over those kept.

    A pair contributes (L⁺ − L⁻) η / (2Nσ²); zeroing both and scaling the others by N/N_kept gives
    eq. (10) over the kept pairs alone.
    """
    scale = np.float32(len(kept) / kept.sum())
    return np.where(kept[:, None], losses * scale, np.float32(0.0))


def heldout_losses(training: Training, state: MetaState, spec: Hashable) -> np.ndarray:
    """Meta-losses [heldout_chains] of the present φ on a task that is never trained on.

    The same chains every time, on one data order: only φ differs from one evaluation to the next.
    """
    keys = StepKeys(run_key(state.key, Role.HELDOUT))
    count = training.config.heldout_chains
    phi = training.strategy.mean(state.strategy)
    population = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, 1, *leaf.shape)), phi)
    jobs = [Job(spec, 0, count)]
    return np.concatenate(training.workers.map(jobs, population, keys))[:, 0]


def _check_dropped(
    kept: np.ndarray, config: MetaConfig, spec: Hashable, step: int, key: Key
) -> None:
    dropped = int((~kept).sum())
    if dropped > config.max_dropped * config.pairs:
        raise TooManyDroppedError(
            f"outer step {step + 1}: {dropped} of {config.pairs} pairs are not finite, more than "
            f"the {config.max_dropped:.0%} allowed, on task {spec} with key "
            f"{jax.random.key_data(key).tolist()}; lower inner.learning_rate or sigma"
        )
