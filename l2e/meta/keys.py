"""Every random key of a run, by role: `fold_in` from the root, never from a clock or a worker.

root ─ INIT ─ STRATEGY ─ HELDOUT ─ COMPARISON
     └ STEPS ─ outer step ─ task, perturbation, data, update
                          └ pair ─ initial θ, momentum, noise
"""

from enum import IntEnum
from typing import NamedTuple

import jax
import jax.numpy as jnp

from l2e.types import Key


class Role(IntEnum):
    """What a key of the run is for."""

    INIT = 0
    STRATEGY = 1
    STEPS = 2
    HELDOUT = 3
    COMPARISON = 4


_TASK, _PERTURBATION, _DATA, _UPDATE, _PAIR = range(5)


def run_key(seed_or_root: int | Key, role: Role) -> Key:
    """The key of a role, from the run's seed or its root key."""
    root = jax.random.key(seed_or_root) if isinstance(seed_or_root, int) else seed_or_root
    return jax.random.fold_in(root, int(role))


class StepKeys(NamedTuple):
    """The random keys of one outer step."""

    key: Key

    @property
    def task(self) -> Key:
        """Which task is drawn."""
        return jax.random.fold_in(self.key, _TASK)

    @property
    def perturbation(self) -> Key:
        """The perturbations of φ."""
        return jax.random.fold_in(self.key, _PERTURBATION)

    @property
    def data(self) -> Key:
        """The data order, common to all pairs."""
        return jax.random.fold_in(self.key, _DATA)

    @property
    def update(self) -> Key:
        """The strategy's own randomness when it is told the losses."""
        return jax.random.fold_in(self.key, _UPDATE)

    def pairs(self, first: int, count: int) -> Key:
        """Initial θ, momentum and noise: one key a pair [count]."""
        base = jax.random.fold_in(self.key, _PAIR)
        return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(
            base, jnp.arange(first, first + count, dtype=jnp.uint32)
        )


def step_keys(root: Key, step: int) -> StepKeys:
    """The keys of an outer step, counted from 0."""
    return StepKeys(jax.random.fold_in(run_key(root, Role.STEPS), step))
