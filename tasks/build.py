"""From a spec and its data to a task: split, standardise, bind the network."""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from l2e.types import Batch, Key, Params, Task
from tasks.convolution import CONVOLUTIONS
from tasks.images import DataError, ImageData
from tasks.models import MODELS
from tasks.spec import ModelSpec, TaskSpec
from tasks.tables import lookup
from tasks.tuning import micro_batch

SPLIT_SEED = 20_240_721
"""Seed of the permutation whose head is the validation part: one for all data sets, for ever."""

MIN_TRAIN = 10
"""Fewer training images than this cannot be cut into a train and a validation part."""


class Parts(NamedTuple):
    """Standardised data: each part is (x float32 ``[n, H, W, C]``, y int32 ``[n]``)."""

    train: Batch
    valid: Batch
    test: Batch
    num_classes: int


class Network(NamedTuple):
    """A network bound to an image shape and a number of classes, but to no data."""

    init: Callable[[Key], Params]
    apply: Callable[[Params, jax.Array], jax.Array]
    log_likelihood: Callable[[Params, Batch], jax.Array]


def build(
    spec: TaskSpec,
    data: ImageData,
    log_prior: Callable[[Params], jax.Array],
    convolution: str = "unfold",
) -> Task:
    """Make the task that ``spec`` names.

    Args:
        spec: the network, and the size of the validation part.
        data: checked images and labels (`tasks.datasets.load`).
        log_prior: θ -> log p(θ), a scalar.
        convolution: a key of `tasks.convolution.CONVOLUTIONS`.

    Returns:
        The task, with arrays on JAX's default device.

    Raises:
        DataError: too few images, or a channel without variation.
        ValueError: unknown network family or convolution, or one that does not fit the images.
    """
    return bind(spec, split(data, spec.valid), log_prior, convolution)


def split(data: ImageData, valid: int) -> Parts:
    """Cut the validation part off the train part; standardise all three by the train part.

    The validation part is the first ``min(valid, n // 5)`` of a fixed permutation. Mean and
    standard deviation are per channel, over the remaining training images and all pixels.

    Raises:
        DataError: too few images, or a channel without variation.
    """
    count = len(data.x_train)
    if count < MIN_TRAIN:
        raise DataError(f"{count} training images; expected at least {MIN_TRAIN}. Add data.")
    order = np.random.default_rng(SPLIT_SEED).permutation(count)
    cut = min(valid, count // 5)
    train, held = order[cut:], order[:cut]
    x_train = data.x_train[train]
    moments = _moments(x_train)

    def part(images: np.ndarray, labels: np.ndarray) -> Batch:
        return _standardise(jnp.asarray(images), *moments), jnp.asarray(labels.astype(np.int32))

    return Parts(
        train=part(x_train, data.y_train[train]),
        valid=part(data.x_train[held], data.y_train[held]),
        test=part(data.x_test, data.y_test),
        num_classes=data.num_classes,
    )


def bind(
    spec: TaskSpec,
    parts: Parts,
    log_prior: Callable[[Params], jax.Array],
    convolution: str = "unfold",
) -> Task:
    """Make a task of data that is already split; see `build`.

    The signature leaves ``log_prior`` out: one distribution over tasks has one prior.
    """
    shape = parts.train[0].shape[1:]
    sizes = tuple(len(part[1]) for part in (parts.train, parts.valid, parts.test))
    network = bind_network(spec.model, shape, parts.num_classes, convolution)
    return Task(
        name=spec.name,
        signature=(spec.model, shape, parts.num_classes, *sizes, convolution),
        init=network.init,
        apply=network.apply,
        log_likelihood=network.log_likelihood,
        log_prior=log_prior,
        num_data=sizes[0],
        train=parts.train,
        valid=parts.valid,
        test=parts.test,
        micro_batch=micro_batch(spec.model, shape),
    )


@lru_cache(maxsize=256)
def bind_network(
    spec: ModelSpec, shape: tuple[int, ...], num_classes: int, convolution: str
) -> Network:
    """Bind a network to an image shape; equal arguments give the very same functions.

    Args:
        spec: the network.
        shape: (height, width, channels).
        num_classes: Y.
        convolution: a key of `tasks.convolution.CONVOLUTIONS`.

    Raises:
        ValueError: unknown family or convolution, or a network that does not fit the images.
    """
    convolve = lookup(CONVOLUTIONS, convolution, "convolution")
    module = lookup(MODELS, spec.family, "model family")(spec, num_classes, convolve)

    def init(key: Key) -> Params:
        return module.init(key, jnp.zeros((1, *shape), jnp.float32))["params"]

    def apply(params: Params, x: jax.Array) -> jax.Array:
        if x.shape[1:] != shape:
            raise ValueError(
                f"Images have shape {x.shape}; {spec.name} was built for ('B', *{shape}). "
                "Build a task for these images."
            )
        return cast(jax.Array, module.apply({"params": params}, x))

    def log_likelihood(params: Params, batch: Batch) -> jax.Array:
        x, y = batch
        log_probability = jax.nn.log_softmax(apply(params, x))
        chosen = jax.nn.one_hot(y, num_classes, dtype=log_probability.dtype)
        return jnp.sum(chosen * log_probability, axis=-1)

    jax.eval_shape(init, jax.random.key(0))
    return Network(init, apply, log_likelihood)


def _moments(images: np.ndarray) -> tuple[jax.Array, jax.Array]:
    """Mean and standard deviation of every channel, ``[1, 1, 1, C]`` float32 each.

    Computed from counts of pixel values, hence exact whatever the order of summation. The counts
    are taken in blocks, because NumPy widens what it counts to 8 bytes a pixel.
    """
    values = np.arange(256)
    moments = []
    for channel in range(images.shape[-1]):
        counts = np.zeros(256, np.int64)
        for block in np.array_split(images[..., channel], max(1, len(images) // 4096)):
            counts += np.bincount(block.ravel(), minlength=256)
        mean = (counts @ values) / counts.sum()
        spread = np.sqrt((counts @ (values - mean) ** 2) / counts.sum())
        if spread == 0:
            raise DataError(
                f"Channel {channel} is {mean:g} in every training pixel; expected variation. "
                "Drop the channel or replace the images."
            )
        moments.append((mean, spread))
    mean, spread = np.asarray(moments, np.float32).T[:, None, None, None]
    return jnp.asarray(mean), jnp.asarray(spread)


@jax.jit
def _standardise(images: jax.Array, mean: jax.Array, spread: jax.Array) -> jax.Array:
    return (images.astype(jnp.float32) - mean) / spread
