"""The residual networks of Bayesian-deep-learning benchmarks: ResNet-FRN with Swish.

No layer here looks at more than one image at a time. That is why batch normalisation had to go:
with it, the likelihood of one image would depend on the minibatch around it, and the posterior
would not be defined.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from tasks.convolution import Convolution
from tasks.spec import ModelSpec

STAGES = 3
"""Resolutions that a network goes through; each halves the edges and doubles the width."""

EPSILON = 1e-6
"""ε of `FilterResponseNorm`, in squared units of its input."""


class FilterResponseNorm(nn.Module):
    """Normalise every channel of every image by its root mean square, then scale and shift.

    y = γ · x / √(ν² + |ε|) + β, with ν² = mean of x² over the image's pixels.

    The mean is not subtracted. ε is the constant `EPSILON` (the authors also learn it), and their
    thresholded linear unit is left out, because Swish follows. Parameters: ``scale`` γ and ``bias``
    β, ``[C]`` each, 1 and 0 at first.

    Over a single pixel, x / √(ν² + ε) is little but the sign of x; keep feature maps larger.

    Source: Singh & Krishnan, 2020, "Filter Response Normalization Layer: Eliminating Batch
    Dependence in the Training of Deep Neural Networks", section 3.
    """

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Feature maps ``[B, H, W, C]`` to the same shape."""
        scale = self.param("scale", nn.initializers.ones, x.shape[-1:])
        bias = self.param("bias", nn.initializers.zeros, x.shape[-1:])
        power = jnp.mean(jnp.square(x), axis=(1, 2), keepdims=True)
        factor = scale[None, None, None] * jax.lax.rsqrt(power + EPSILON)
        return factor * x + bias[None, None, None]


class ResidualBlock(nn.Module):
    """Two 3×3 convolutions and a way around them.

    h ← Swish(FRN(conv(Swish(FRN(conv(h))))) + shortcut(h)), Swish(a) = a · sigmoid(a).

    The first convolution has the stride. The shortcut is h itself where the shape stays, else
    FRN(1×1 convolution of the same stride): He et al.'s option B.

    Attributes:
        channels: width O of both convolutions.
        stride: pixels from one output to the next, along both edges.
        convolution: with the signature of `jax.lax.conv_general_dilated`.

    Source: He et al., 2016, "Deep Residual Learning for Image Recognition", sections 3.2
    and 3.3.
    """

    channels: int
    stride: int
    convolution: Convolution

    @nn.compact
    def __call__(self, h: jax.Array) -> jax.Array:
        """Feature maps ``[B, H, W, C]`` to ``[B, H / stride, W / stride, O]``, rounded up."""
        update = _conv(self.channels, 3, self.stride, self.convolution)(h)
        update = nn.silu(FilterResponseNorm()(update))
        update = FilterResponseNorm()(_conv(self.channels, 3, 1, self.convolution)(update))
        if h.shape != update.shape:
            h = FilterResponseNorm()(_conv(self.channels, 1, self.stride, self.convolution)(h))
        return nn.silu(h + update)


class ResNet(nn.Module):
    """A residual classifier of 6n + 2 layers, such as ResNet20-FRN (n = 3) and ResNet56-FRN (9).

    Swish(FRN(3×3 convolution)); three stages of n times `ResidualBlock`, with w, 2w and 4w
    channels, of which the second and the third begin with stride 2; mean over pixels; the read-out.
    No convolution has a bias, since FRN brings one.

    This is the CIFAR network of He et al. with FRN for batch normalisation and Swish for ReLU.
    Where a shape changes, they pad with channels of zeros (option A); here a 1×1 convolution and
    FRN project (option B), which do not count as layers. Versions of this network in other code may
    have further parameters, such as biases of convolutions or FRN's learned threshold.

    Attributes:
        spec: ``channels`` is w, ``depth`` is 6n + 2; ``residual`` and ``dense`` mean nothing here.
        num_classes: Y.
        convolution: with the signature of `jax.lax.conv_general_dilated`.

    Source: He et al., 2016, section 4.2; Wenzel et al., 2020, "How Good is the Bayes Posterior in
    Deep Neural Networks Really?"; Izmailov et al., 2021, "What Are Bayesian Neural Network
    Posteriors Really Like?".
    """

    spec: ModelSpec
    num_classes: int
    convolution: Convolution

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Images ``[B, H, W, C]`` float32 to logits ``[B, Y]``.

        Raises:
            ValueError: ``spec.depth`` is not 6n + 2.
        """
        blocks = blocks_per_stage(self.spec.depth)
        h = _conv(self.spec.channels, 3, 1, self.convolution)(x)
        h = nn.silu(FilterResponseNorm()(h))
        for stage in range(STAGES):
            for block in range(blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                h = ResidualBlock(2**stage * self.spec.channels, stride, self.convolution)(h)
        return nn.Dense(self.num_classes)(jnp.mean(h, axis=(1, 2)))


def blocks_per_stage(depth: int) -> int:
    """n of depth = 6n + 2: three stages of n blocks of two convolutions, the first, the read-out.

    Raises:
        ValueError: no n from 1 on gives this depth.
    """
    blocks, rest = divmod(depth - 2, 2 * STAGES)
    if rest or blocks < 1:
        below = max(blocks, 1)
        raise ValueError(
            f"A ResNet's depth is {depth}; expected 6n + 2 with n from 1 on. "
            f"Use {6 * below + 2} or {6 * below + 8}, for example."
        )
    return blocks


def _conv(channels: int, width: int, stride: int, convolution: Convolution) -> nn.Conv:
    return nn.Conv(
        channels,
        (width, width),
        strides=stride,
        use_bias=False,
        kernel_init=nn.initializers.he_normal(),
        conv_general_dilated=convolution,
    )
