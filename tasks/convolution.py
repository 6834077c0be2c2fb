"""Two ways to compute a convolution; Flax's ``nn.Conv`` takes either as an argument.

Inside `jax.lax.scan` on a CPU, XLA's convolution and above all its gradient are slow, and slower
yet when mapped over weights. A product of image patches with the kernel as a matrix is not.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

Convolution = Callable[..., jax.Array]
"""Has the signature of `jax.lax.conv_general_dilated`."""


def patches(
    lhs: jax.Array,
    rhs: jax.Array,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> jax.Array:
    """Convolve as one matrix product: [B·H·W, kh·kw·C] times [kh·kw·C, O].

    The patches are shifted slices of the padded input, side by side. Mapped over kernels with a
    shared input, it stays one product with the kernels' outputs side by side.

    Args:
        lhs: images ``[B, H, W, C]``.
        rhs: kernel ``[kh, kw, C, O]``.
        window_strides: ones.
        padding: ``"SAME"``.
        lhs_dilation: None or ones.
        rhs_dilation: None or ones.
        dimension_numbers: NHWC, HWIO, NHWC, in any of JAX's spellings.
        feature_group_count: 1.
        batch_group_count: 1.
        precision: as for `jax.lax.dot_general`.
        preferred_element_type: as for `jax.lax.dot_general`.

    Returns:
        ``[B, H, W, O]``.

    Raises:
        ValueError: strides, dilation, groups, padding or layout other than these.
    """
    layout = jax.lax.conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    asked = {
        "window_strides": (tuple(window_strides), (1, 1)),
        "padding": (padding, "SAME"),
        "lhs_dilation": (tuple(lhs_dilation or (1, 1)), (1, 1)),
        "rhs_dilation": (tuple(rhs_dilation or (1, 1)), (1, 1)),
        "dimension_numbers": (layout, _LAYOUT),
        "feature_group_count": (feature_group_count, 1),
        "batch_group_count": (batch_group_count, 1),
    }
    for name, (value, expected) in asked.items():
        if value != expected:
            raise ValueError(
                f"patches computes convolutions with {name}={expected!r} alone, not {value!r}; "
                'use convolution="lax".'
            )
    height, width, inputs, outputs = rhs.shape
    return jnp.matmul(
        _unfold(lhs, height, width),
        rhs.reshape(height * width * inputs, outputs),
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


_LAYOUT = jax.lax.conv_dimension_numbers((1, 1, 1, 1), (1, 1, 1, 1), ("NHWC", "HWIO", "NHWC"))


def _unfold(images: jax.Array, height: int, width: int) -> jax.Array:
    """Patches of ``[B, H, W, C]`` around every pixel: ``[B, H, W, height·width·C]``."""
    rows, columns = images.shape[1:3]
    margins = ((0, 0), *(((edge - 1) // 2, edge // 2) for edge in (height, width)), (0, 0))
    padded = jnp.pad(images, margins)
    shifted = [
        padded[:, i : i + rows, j : j + columns] for i in range(height) for j in range(width)
    ]
    return jnp.concatenate(shifted, axis=-1)


CONVOLUTIONS: dict[str, Convolution] = {"lax": jax.lax.conv_general_dilated, "patches": patches}
"""Ways to convolve, by name."""
