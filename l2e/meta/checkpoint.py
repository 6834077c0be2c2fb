"""Orbax checkpoints of everything that a run needs to go on: φ, optimiser, step, key, config."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp

from l2e.jsonable import jsonable
from l2e.meta.config import first_difference
from l2e.meta.outer import MetaState

KEEP = 3
logger = logging.getLogger(__name__)


class CheckpointError(RuntimeError):
    """No checkpoint can be used, and the reason."""


class Checkpoints:
    """The checkpoints of one run, in one folder; a save is seen whole or not at all.

    Args:
        folder: made if need be.
        identity: what a state must belong to: nested plain values, compared field by field.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        self._identity = jsonable(identity)
        self._manager = ocp.CheckpointManager(
            folder.absolute(),
            options=ocp.CheckpointManagerOptions(
                max_to_keep=KEEP, create=True, enable_async_checkpointing=False
            ),
        )

    def save(self, state: MetaState) -> None:
        """Write the state after its last finished outer step; again is a no-op.

        Raises:
            CheckpointError: when Orbax declines, as it does for a step before its newest.
        """
        step = int(state.step)
        if step in self._manager.all_steps():
            return
        saved = self._manager.save(
            step,
            args=ocp.args.Composite(
                state=ocp.args.StandardSave(_to_arrays(state)),
                identity=ocp.args.JsonSave(self._identity),
            ),
        )
        if not saved:
            raise CheckpointError(
                f"step {step} was not saved in {self._manager.directory}, which holds steps "
                f"{self._manager.all_steps()}; use another --out"
            )

    def restore(self, template: MetaState) -> MetaState | None:
        """The newest checkpoint that can be read, or None when there are none at all.

        Newer ones that cannot be read are removed: the run writes those steps again.

        Args:
            template: a state of this run's structure, such as the initial one.

        Raises:
            CheckpointError: when a checkpoint belongs to another configuration, naming the first
                field that differs, or when there are checkpoints and none can be read.
        """
        reasons: dict[int, str] = {}
        for step in sorted(self._manager.all_steps(), reverse=True):
            try:
                state = self._read(step, template)
            except CheckpointError:
                raise
            except Exception as error:  # Orbax has no common base class for damage
                reasons[step] = f"step {step}: {type(error).__name__}: {error}"
                logger.warning("checkpoint of step %d cannot be read; trying an older one", step)
                continue
            for damaged in reasons:
                self._manager.delete(damaged)
            return state
        if reasons:
            raise CheckpointError(
                f"no checkpoint in {self._manager.directory} can be read:\n"
                + "\n".join(reasons.values())
            )
        return None

    def close(self) -> None:
        """Release Orbax's threads."""
        self._manager.close()

    def _read(self, step: int, template: MetaState) -> MetaState:
        saved = self._manager.restore(
            step, args=ocp.args.Composite(identity=ocp.args.JsonRestore())
        )
        difference = first_difference(self._identity, saved["identity"])
        if difference:
            raise CheckpointError(
                f"the checkpoint of step {step} belongs to another configuration: {difference}; "
                "use the same settings, or another --out"
            )
        arrays = _to_arrays(template)
        restored = self._manager.restore(
            step, args=ocp.args.Composite(state=ocp.args.StandardRestore(arrays))
        )["state"]
        _check_alike(restored, arrays)
        return _from_arrays(restored, template)


def _to_arrays(state: MetaState) -> dict[str, Any]:
    """Plain NumPy arrays by position: structure belongs to the code, numbers to the file."""
    leaves = jax.tree.leaves(state.strategy)
    return {
        "step": np.asarray(state.step),
        "key": np.asarray(jax.random.key_data(state.key)),
        "strategy": {f"{index:03d}": np.asarray(leaf) for index, leaf in enumerate(leaves)},
    }


def _from_arrays(arrays: dict[str, Any], template: MetaState) -> MetaState:
    structure = jax.tree.structure(template.strategy)
    leaves = [jnp.asarray(leaf) for _, leaf in sorted(arrays["strategy"].items())]
    return MetaState(
        step=jnp.asarray(arrays["step"]),
        key=jax.random.wrap_key_data(jnp.asarray(arrays["key"])),
        strategy=jax.tree.unflatten(structure, leaves),
    )


def _check_alike(restored: Any, expected: Any) -> None:
    """Orbax may restore into another shape without a word; this does not."""
    pairs = zip(jax.tree.leaves(restored), jax.tree.leaves(expected), strict=True)
    for number, (found, wanted) in enumerate(pairs):
        if found.shape != wanted.shape or found.dtype != wanted.dtype:
            raise ValueError(
                f"array {number} is {found.dtype}{list(found.shape)}; expected "
                f"{wanted.dtype}{list(wanted.shape)}"
            )
