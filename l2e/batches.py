"""Minibatches drawn on the device: pure functions of (key, step count)."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from l2e.types import Batch, Key

BatchSource = Callable[[Key, jax.Array], Batch]
"""(the chain's data key, step count) -> batch. Usable inside a scan."""


def minibatches(data: Batch, batch_size: int) -> BatchSource:
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
    if batch_size == num_data:
        return lambda key, count: data

    def source(key: Key, count: jax.Array) -> Batch:
        rows = jax.random.randint(jax.random.fold_in(key, count), (batch_size,), 0, num_data)
        return jax.tree.map(lambda leaf: leaf[rows], data)

    return source


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
