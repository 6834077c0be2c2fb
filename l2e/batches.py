"""Minibatches drawn on the device: pure functions of (key, step count)."""

from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp

from l2e.types import Batch, Key

BatchSource = Callable[[Key, jax.Array], Batch]
"""(the chain's data key, step count) -> batch. Usable inside a scan."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Minibatches:
    """A `BatchSource` over data on the device; made by `minibatches`.

    It is a pytree, so that compiled programs take the data as an argument and not as a constant.
    """

    data: Batch
    batch_size: int = field(metadata={"static": True})

    def __call__(self, key: Key, count: jax.Array) -> Batch:
        """The batch of step `count`."""
        num_data = count_examples(self.data)
        if self.batch_size == num_data:
            return self.data
        rows = jax.random.randint(jax.random.fold_in(key, count), (self.batch_size,), 0, num_data)
        return jax.tree.map(lambda leaf: leaf[rows], self.data)


def minibatches(data: Batch, batch_size: int) -> Minibatches:
    """Batches drawn uniformly with replacement, so that every minibatch gradient is unbiased.

    Args:
        data: a pytree of arrays with one leading example axis, resident on the device.
        batch_size: B; as many as there are examples gives the whole data set, in order, each
            time.

    Returns:
        A `BatchSource`.

    Raises:
        ValueError: when the leaves disagree about the number of examples, or the batch is empty
            or larger than the data.
    """
    num_data = count_examples(data)
    if not 1 <= batch_size <= num_data:
        raise ValueError(
            f"batch_size is {batch_size}; expected between 1 and the {num_data} examples there are"
        )
    return Minibatches(data, batch_size)


def count_examples(data: Batch) -> int:
    """The common length of all leaves.

    Raises:
        ValueError: naming the lengths, when they differ or there are no arrays.
    """
    lengths = {jnp.shape(leaf)[0] if jnp.ndim(leaf) else 0 for leaf in jax.tree.leaves(data)}
    if len(lengths) != 1:
        raise ValueError(
            f"the data's arrays have lengths {sorted(lengths)}; expected one common number of "
            "examples along the first axis"
        )
    return lengths.pop()


def in_pieces(data: Batch, size: int) -> tuple[Batch, Batch | None]:
    """Cut a batch into equal pieces.

    Returns:
        Pieces with leaves [n // size, size, ...], and the n % size examples that are left, or None.
    """
    examples = count_examples(data)
    whole = examples // size * size
    pieces = jax.tree.map(lambda leaf: leaf[:whole].reshape(-1, size, *leaf.shape[1:]), data)
    rest = jax.tree.map(lambda leaf: leaf[whole:], data) if whole < examples else None
    return pieces, rest
