"""How many chains, or many tiles, share a machine.

A CPU core is fastest with one chain at a time: its working set then stays in the cache. An
accelerator wants them side by side. Devices (one a core on a CPU) each take their part.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec


def each(function: Callable[..., Any], *stacked: Any) -> Any:
    """Map over the leading axis: one after another on a CPU, all at once elsewhere."""
    if jax.default_backend() == "cpu":
        return jax.lax.map(lambda one: function(*one), stacked)
    return jax.vmap(function)(*stacked)


def each_in_place(function: Callable[..., Any], block: Any, *stacked: Any) -> tuple[Any, Any]:
    """Like `each`, for a function that replaces its first argument: the block is updated in place.

    Args:
        function: (part of block, *parts of stacked) -> (new part of block, anything else).
        block: an array with one leading axis; the caller has no further use for it.
        stacked: pytrees with the same leading axis.

    Returns:
        The new block, and everything else stacked.
    """
    if jax.default_backend() != "cpu":
        return jax.vmap(function)(block, *stacked)

    def one(block: Any, x: tuple[jax.Array, Any]) -> tuple[Any, Any]:
        index, parts = x
        old = jax.lax.dynamic_index_in_dim(block, index, keepdims=False)
        new, rest = function(old, *parts)
        return jax.lax.dynamic_update_index_in_dim(block, new, index, 0), rest

    return jax.lax.scan(one, block, (jax.numpy.arange(len(block)), stacked))


def over_devices(function: Callable[..., Any], stacked: Any, *shared: Any) -> Any:
    """Give every local device an equal part of the leading axis, and all of what is shared.

    Args:
        function: (part of stacked, *shared) -> results with the part's leading axis. What it does
            with one element must not depend on how many there are.
        stacked: a pytree of arrays with one leading axis. As many devices work as divide it.
        shared: pytrees that every device sees whole.

    Returns:
        The results, with the whole leading axis.
    """
    count = len(jax.tree.leaves(stacked)[0])
    devices = math.gcd(count, jax.local_device_count())
    mesh = Mesh(np.asarray(jax.local_devices()[:devices]), ("parts",))
    parts, whole = PartitionSpec("parts"), PartitionSpec()
    return jax.shard_map(
        function,
        mesh=mesh,
        in_specs=(parts, *[whole] * len(shared)),
        out_specs=parts,
        check_vma=False,
    )(stacked, *shared)
