"""The networks of the paper's task distribution, as Flax modules."""

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp

from tasks.convolution import Convolution, swap_images_and_channels
from tasks.resnet import ResNet
from tasks.spec import ModelSpec


class CNN(nn.Module):
    """A plain or residual convolutional classifier.

    ``depth`` times a 3×3 convolution, bias and ReLU at constant width; one 2×2 max-pool; a dense
    layer with ReLU; the read-out.

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
        for _ in range(self.spec.depth):
            conv = nn.Conv(
                self.spec.channels,
                (3, 3),
                kernel_init=nn.initializers.he_normal(),
                conv_general_dilated=self.convolution,
            )
            update = nn.relu(conv(h))
            h = widen(h, self.spec.channels) + update if self.spec.residual else update
        h = max_pool(h).reshape(x.shape[0], -1)
        h = nn.relu(nn.Dense(self.spec.dense, kernel_init=nn.initializers.he_normal())(h))
        return nn.Dense(self.num_classes)(h)


def max_pool(x: jax.Array) -> jax.Array:
    """Maximum over 2×2 tiles: ``[B, H, W, C]`` to ``[B, H//2, W//2, C]``; odd edges are cropped.

    Raises:
        ValueError: an edge is shorter than 2.
    """
    rows, columns = (2 * (edge // 2) for edge in x.shape[1:3])
    if not (rows and columns):
        raise ValueError(
            f"Nothing is left to pool of {x.shape[1]}×{x.shape[2]} pixels; use 2×2 at least."
        )
    # Arranged as `unfold` computes: vectorised over images.
    h = swap_images_and_channels(x)[:, :rows, :columns]
    h = jnp.maximum(h[:, ::2], h[:, 1::2])
    return swap_images_and_channels(jnp.maximum(h[:, :, ::2], h[:, :, 1::2]))


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


MODELS: dict[str, Callable[[ModelSpec, int, Convolution], nn.Module]] = {
    "cnn": CNN,
    "resnet": ResNet,
}
"""Family -> builder from (spec, number of classes, convolution)."""
