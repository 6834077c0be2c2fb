"""All tensors of a model side by side in one block, cut into tiles that stay in a core's cache.

A learned update costs thousands of operations a parameter, on intermediates of 32 numbers a
parameter. Evaluated on the whole model at once, those travel to main memory and back; evaluated
tile by tile they do not, and the update runs near the speed of a matrix product.

A block is [n, T]: n tiles of T parameters. Every tensor begins at a multiple of `LANES` and is
padded with zeros, so that a sum over groups of `LANES` neighbours never mixes two tensors.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from l2e.types import Params

LANES = 64
"""Parameters in a group: four vectors of 512 bits."""

WIDTH = 1024
"""T is at most this, whatever the model: 32 hidden units of a tile are then 128 KiB."""


@dataclass(frozen=True)
class Tiling:
    """Where each tensor lies in a block.

    Attributes:
        sizes: parameters in each tensor, in the order of `jax.tree.leaves`.
    """

    sizes: tuple[int, ...]

    @classmethod
    def of(cls, params: Params) -> "Tiling":
        """The tiling of a model's parameters, or of anything shaped like them."""
        return cls(tuple(math.prod(leaf.shape) for leaf in jax.tree.leaves(params)))

    @cached_property
    def groups(self) -> tuple[int, ...]:
        """Groups of `LANES` in each tensor."""
        return tuple(-(-size // LANES) for size in self.sizes)

    @cached_property
    def count(self) -> int:
        """n, the number of tiles."""
        return -(-sum(self.groups) * LANES // WIDTH)

    @cached_property
    def width(self) -> int:
        """T, a multiple of `LANES` that shares the parameters evenly between the tiles."""
        return -(-sum(self.groups) // self.count) * LANES

    @cached_property
    def valid(self) -> np.ndarray:
        """How many of a group's lanes hold a parameter: uint8 [n, T / LANES, 1]."""
        lanes = [
            np.clip(size - LANES * np.arange(groups), 0, LANES)
            for size, groups in zip(self.sizes, self.groups, strict=True)
        ]
        lanes.append(np.zeros(self.count * self.width // LANES - sum(self.groups), int))
        return np.concatenate(lanes).astype(np.uint8).reshape(self.count, -1, 1)

    def pack(self, params: Params) -> jax.Array:
        """A pytree of tensors as a block [n, T]."""
        return self.pack_flat([leaf.ravel() for leaf in jax.tree.leaves(params)])

    def pack_raveled(self, flat: jax.Array) -> jax.Array:
        """A raveled model [P] as a block [n, T]."""
        return self.pack_flat(jnp.split(flat, np.cumsum(self.sizes)[:-1]))

    def pack_flat(self, tensors: list[jax.Array]) -> jax.Array:
        """Raveled tensors as a block [n, T]."""
        pieces = []
        for tensor, groups in zip(tensors, self.groups, strict=True):
            pieces += [tensor, jnp.zeros(groups * LANES - tensor.size, tensor.dtype)]
        end = jnp.zeros(self.count * self.width - sum(self.groups) * LANES, pieces[0].dtype)
        return jnp.concatenate([*pieces, end]).reshape(self.count, self.width)

    def unpack(self, block: jax.Array, like: Params) -> Params:
        """The inverse of `pack`: tensors shaped like those of `like`."""
        flat, start, tensors = block.reshape(-1), 0, []
        leaves, structure = jax.tree.flatten(like)
        for leaf, size, groups in zip(leaves, self.sizes, self.groups, strict=True):
            tensors.append(flat[start : start + size].reshape(leaf.shape))
            start += groups * LANES
        return structure.unflatten(tensors)

    def per_tensor(self, function: Callable[[jax.Array, int], jax.Array], sums: jax.Array) -> Any:
        """Reduce per-group sums within each tensor and hand the result back to its groups.

        Args:
            function: (sum over a tensor [F, 1], its size) -> [F, 1].
            sums: [n, F, T / LANES].

        Returns:
            [n, F, T / LANES]; 0 in the padding at the end.
        """
        count, rows, lanes = sums.shape
        groups = sums.swapaxes(0, 1).reshape(rows, count * lanes)
        start, pieces = 0, []
        for size, width in zip(self.sizes, self.groups, strict=True):
            total = jnp.sum(groups[:, start : start + width], axis=-1, keepdims=True)
            pieces.append(jnp.broadcast_to(function(total, size), (rows, width)))
            start += width
        pieces.append(jnp.zeros((rows, count * lanes - start), sums.dtype))
        return jnp.concatenate(pieces, axis=-1).reshape(rows, count, lanes).swapaxes(0, 1)


def group_sums(rows: jax.Array) -> jax.Array:
    """Sums over groups of a tile: [F, T] -> [F, T / LANES]."""
    return jnp.sum(rows.reshape(rows.shape[0], -1, LANES), axis=-1)


def by_group(rows: jax.Array, groups: jax.Array) -> jax.Array:
    """Multiply a tile by one number a group: [F, T], [F, T / LANES] -> [F, T]."""
    grouped = rows.reshape(rows.shape[0], -1, LANES)
    return (grouped * groups[:, :, None]).reshape(rows.shape)


def masked(tile: jax.Array, valid: jax.Array) -> jax.Array:
    """A tile [T] with zeros where there is no parameter; `valid` is [T / LANES, 1]."""
    lanes = jnp.arange(LANES, dtype=valid.dtype)[None, :]
    return jnp.where(lanes < valid, tile.reshape(-1, LANES), 0.0).reshape(tile.shape)
