"""The networks of the paper's task distribution, as Flax modules."""

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp

from tasks.convolution import Convolution
from tasks.spec import ModelSpec

POOLED = 2
"""Convolutions that a max-pool follows: the first two."""


class CNN(nn.Module):
    """A plain or residual convolutional classifier.

    ``depth`` times a 3×3 convolution, bias and ReLU at constant width; a 2×2 max-pool after each of
    the first two; a dense layer with ReLU; the read-out. With a 28×28 image the dense layer thus
    sees 14×14 pixels at depth 1 and 7×7 from depth 2 on, and later convolutions are cheap.

    Residual: h ← h + ReLU(conv(h)) around *every* convolution. The image, which has fewer channels
    than the first convolution, is filled up with channels of zeros (He et al., 2016, option A), so
    that skips have no parameters and a residual network of depth 1 differs from a plain one.

    Attributes:
        spec: width, depth, skips, dense units.
        num_classes: Y.
        convolution: with the signature of `jax.lax.conv_general_dilated`.
    """

    spec: ModelSpec
    num_classes: int
    convolution: Convolution

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Images ``[B, H, W, C]`` float32 to logits ``[B, Y]``."""
        h = x
        for layer in range(self.spec.depth):
            conv = nn.Conv(
                self.spec.channels,
                (3, 3),
                kernel_init=nn.initializers.he_normal(),
                conv_general_dilated=self.convolution,
            )
            update = nn.relu(conv(h))
            h = widen(h, self.spec.channels) + update if self.spec.residual else update
            h = max_pool(h) if layer < POOLED else h
        h = h.reshape(h.shape[0], -1)
        h = nn.relu(nn.Dense(self.spec.dense, kernel_init=nn.initializers.he_normal())(h))
        return nn.Dense(self.num_classes)(h)


def max_pool(x: jax.Array) -> jax.Array:
    """Maximum over 2×2 tiles: ``[B, H, W, C]`` to ``[B, H//2, W//2, C]``; odd edges are cropped.

    Raises:
        ValueError: an edge is shorter than 2.
    """
    batch, height, width, channels = x.shape
    rows, columns = height // 2, width // 2
    if not (rows and columns):
        raise ValueError(
            f"Nothing is left to pool of {height}×{width} pixels; expected 2×2 at least. "
            f"Use images of {2**POOLED}×{2**POOLED} pixels or more."
        )
    tiles = x[:, : 2 * rows, : 2 * columns].reshape(batch, rows, 2, columns, 2, channels)
    return tiles.max(axis=(2, 4))


def widen(x: jax.Array, channels: int) -> jax.Array:
    """Fill the last axis up with zeros to ``channels``.

    Raises:
        ValueError: there are more channels already.
    """
    missing = channels - x.shape[-1]
    if missing < 0:
        raise ValueError(
            f"A residual network of {channels} channels cannot carry an image of {x.shape[-1]}; "
            "use at least as many channels as the image has, or no skips."
        )
    return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, missing)])


MODELS: dict[str, Callable[[ModelSpec, int, Convolution], nn.Module]] = {"cnn": CNN}
"""Family -> builder from (spec, number of classes, convolution)."""
