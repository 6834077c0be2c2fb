"""Two ways to compute a convolution; Flax's ``nn.Conv`` takes either as an argument.

`unfold` is for CPUs, where XLA's own gradient of a convolution with respect to its kernel runs at a
few per cent of the machine's speed. It computes with channels first and images last,
``[C, H, W, B]``: every shift of the image is then a copy of long contiguous runs, and whatever
surrounds the convolution is vectorised over images. Keep B small (8 to 32), so that all of it
stays in a core's cache (`tasks.tuning`).
"""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp

Convolution = Callable[..., jax.Array]
"""Has the signature of `jax.lax.conv_general_dilated`."""

FEW_CHANNELS = 3
"""Up to so many input channels, the patches of an image are smaller than the folded outputs."""


def unfold(
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
    """Convolve as one matrix product.

    With stride 1, only the kernel's rows are unfolded: kh copies of the image, shifted by rows,
    stand on top of each other as [kh·C, H·W·B]; one product with the kernel as [kw·O, kh·C] gives
    every column's share of the output, and those are shifted by columns and added. That moves
    3 + 3 numbers a pixel and channel where patches of 3×3 move 9. With few channels or larger
    strides, whole patches [kh·kw·C, H·W·B] are unfolded.

    Args:
        lhs: images ``[B, H, W, C]``.
        rhs: kernel ``[kh, kw, C, O]``.
        window_strides: any.
        padding: ``"SAME"``.
        lhs_dilation: None or ones.
        rhs_dilation: None or ones.
        dimension_numbers: NHWC, HWIO, NHWC, in any of JAX's spellings.
        feature_group_count: 1.
        batch_group_count: 1.
        precision: None.
        preferred_element_type: None.

    Returns:
        ``[B, H / stride, W / stride, O]``, rounded up.

    Raises:
        ValueError: dilation, groups, padding, layout, precision or type other than these.
    """
    layout = jax.lax.conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    _refuse_what_differs(
        padding=(padding, "SAME"),
        lhs_dilation=(tuple(lhs_dilation or (1, 1)), (1, 1)),
        rhs_dilation=(tuple(rhs_dilation or (1, 1)), (1, 1)),
        dimension_numbers=(layout, _LAYOUT),
        feature_group_count=(feature_group_count, 1),
        batch_group_count=(batch_group_count, 1),
        precision=(precision, None),
        preferred_element_type=(preferred_element_type, None),
    )
    strides = tuple(window_strides)
    whole_patches = strides != (1, 1) or rhs.shape[2] <= FEW_CHANNELS
    convolve = partial(_by_patches, strides=strides) if whole_patches else _by_rows
    return swap_images_and_channels(convolve(swap_images_and_channels(lhs), rhs))


def _refuse_what_differs(**asked: tuple[Any, Any]) -> None:
    for name, (value, expected) in asked.items():
        if value != expected:
            raise ValueError(
                f"unfold computes convolutions with {name}={expected!r} alone, not {value!r}; "
                'use convolution="lax".'
            )


def swap_images_and_channels(images: jax.Array) -> jax.Array:
    """``[B, H, W, C]`` to ``[C, H, W, B]``, and back."""
    return images.transpose(3, 1, 2, 0)


_LAYOUT = jax.lax.conv_dimension_numbers((1, 1, 1, 1), (1, 1, 1, 1), ("NHWC", "HWIO", "NHWC"))


def _by_patches(x: jax.Array, kernel: jax.Array, strides: tuple[int, ...]) -> jax.Array:
    """[O, kh·kw·C] · [kh·kw·C, H'·W'·B] for any stride."""
    kh, kw, inputs, outputs = kernel.shape
    sizes = [-(-length // stride) for length, stride in zip(x.shape[1:3], strides, strict=True)]
    margins = [
        _margins(length, size, stride, width)
        for length, size, stride, width in zip(x.shape[1:3], sizes, strides, (kh, kw), strict=True)
    ]
    padded = jnp.pad(x, ((0, 0), *margins, (0, 0)))
    reach = [(size - 1) * stride + 1 for size, stride in zip(sizes, strides, strict=True)]
    shifted = [
        padded[:, i : i + reach[0] : strides[0], j : j + reach[1] : strides[1]]
        for i in range(kh)
        for j in range(kw)
    ]
    patches = jnp.stack(shifted).reshape(kh * kw * inputs, -1)
    return (kernel.reshape(-1, outputs).T @ patches).reshape(outputs, *sizes, -1)


def _margins(length: int, size: int, stride: int, width: int) -> tuple[int, int]:
    total = max((size - 1) * stride + width - length, 0)
    return total // 2, total - total // 2


@jax.custom_vjp
def _by_rows(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """Rows unfolded in the input, columns folded in the output; stride 1."""
    return _forward(x, kernel)[0]


def _forward(x: jax.Array, kernel: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    kh, kw, _, outputs = kernel.shape
    _, height, width, batch = x.shape
    rows = _unfold_rows(x, kh, kw)
    columns = (_as_matrix(kernel) @ rows).reshape(kw, outputs, height, width + kw - 1, batch)
    folded = reduce(jnp.add, [columns[j, :, :, j : j + width] for j in range(kw)])
    return folded, (x, rows, kernel)


def _backward(
    residuals: tuple[jax.Array, ...], cotangent: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Autodiff would give the same products, but scatter where these shift and add."""
    x, rows, kernel = residuals
    kh, kw, inputs, outputs = kernel.shape
    _, height, width, batch = x.shape
    columns = _spread_columns(cotangent, kw)
    d_kernel = (columns @ rows.T).reshape(kw, outputs, kh, inputs).transpose(2, 0, 3, 1)
    d_rows = (_as_matrix(kernel).T @ columns).reshape(kh, inputs, height, -1, batch)
    left = (kw - 1) // 2
    edges = (kh - 1 - (kh - 1) // 2, (kh - 1) // 2)
    d_rows = jnp.pad(d_rows[:, :, :, left : left + width], ((0, 0), (0, 0), edges, (0, 0), (0, 0)))
    shifted = [d_rows[i, :, kh - 1 - i : kh - 1 - i + height] for i in range(kh)]
    d_x = reduce(jnp.add, shifted)
    return d_x, d_kernel


_by_rows.defvjp(_forward, _backward)


def _as_matrix(kernel: jax.Array) -> jax.Array:
    """[kh, kw, C, O] -> [kw·O, kh·C]."""
    kh, kw, inputs, outputs = kernel.shape
    return kernel.transpose(1, 3, 0, 2).reshape(kw * outputs, kh * inputs)


def _unfold_rows(x: jax.Array, kh: int, kw: int) -> jax.Array:
    """[C, H, W, B] -> [kh·C, H·(W + kw − 1)·B]: copies shifted by rows, columns padded."""
    height = x.shape[1]
    margins = [((edge - 1) // 2, edge // 2) for edge in (kh, kw)]
    padded = jnp.pad(x, ((0, 0), *margins, (0, 0)))
    shifted = [padded[:, i : i + height] for i in range(kh)]
    return jnp.stack(shifted).reshape(kh * x.shape[0], -1)


def _spread_columns(cotangent: jax.Array, kw: int) -> jax.Array:
    """[O, H, W, B] -> [kw·O, H·(W + kw − 1)·B]: the transpose of shifting and adding columns."""
    outputs, _, width, _ = cotangent.shape
    padded = jnp.pad(cotangent, ((0, 0), (0, 0), (kw - 1, kw - 1), (0, 0)))
    shifted = [padded[:, :, kw - 1 - j : 2 * (kw - 1) - j + width] for j in range(kw)]
    return jnp.stack(shifted).reshape(kw * outputs, -1)


CONVOLUTIONS: dict[str, Convolution] = {"lax": jax.lax.conv_general_dilated, "unfold": unfold}
"""Ways to convolve, by name."""
