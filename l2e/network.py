"""The small network that the learned kinetic energies run on every parameter.

    x = (eight shared features, momentum feature)                       [9, T]
    net = W_L relu( … W_1 relu(W_0 x + b_0) + b_1 … ) + b_L             [2, T]

with W_0 [w, 9], …, W_L [2, w'] and b_0 [w], …, b_L [2] for the hidden widths (w, …, w'), on one
tile of T parameters (`l2e.tiles`). `NETWORKS` holds two ways to evaluate it, equal to float32
rounding:

- "xla", the default: matrix products of XLA. The momentum feature alone differs between the two
  evaluations of one step, and what the other eight add to the first layer is computed apart.
- "pallas": one kernel for all layers, whose hidden units stay on a GPU's core and never travel to
  its memory. It is opt-in until somebody measures it on a GPU: none has run it yet. Its tests
  compare it with "xla" in Pallas's interpreter on a CPU, where it is of no other use, and lower it
  for CUDA. It is meant for widths like the paper's 32, whose weights and hidden units fit a core:
  of 64 units, some spill. It has no derivative, and evolution strategies ask for none.
"""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from l2e.features import NUM_FEATURES, NUM_SHARED
from l2e.types import Key, Params

Widths = tuple[int, ...]

NUM_OUTPUTS = 2

BLOCK = 128
"""Columns that one program of the kernel computes."""

# Triton's sizes are powers of two, and at least this in a matrix product.
_SMALLEST = 16


class Network(NamedTuple):
    """A way to evaluate the network.

    Attributes:
        encode: (φ, shared features [8, T]) -> whatever both evaluations of one step share.
        decode: (φ, encoded, momentum feature [T], hidden widths) -> (net_α, net_β) [2, T].
    """

    encode: Callable[[Params, jax.Array], Any]
    decode: Callable[[Params, Any, jax.Array, Widths], jax.Array]


def init_network(key: Key, widths: Widths) -> Params:
    """Weights w0, w1, … [out, in] ~ N(0, 2/in), biases b0, b1, … [out] = 0; two outputs."""
    sizes = (NUM_FEATURES, *widths, NUM_OUTPUTS)
    network: Params = {}
    for layer, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        weights = jax.random.normal(jax.random.fold_in(key, layer), (fan_out, fan_in))
        network[f"w{layer}"] = math.sqrt(2.0 / fan_in) * weights
        network[f"b{layer}"] = jnp.zeros((fan_out,), jnp.float32)
    return network


def _xla_encode(phi: Params, shared: jax.Array) -> jax.Array:
    """The shared part of the first layer: [8, T] -> [w, T]."""
    return phi["w0"][:, :NUM_SHARED] @ shared + phi["b0"][:, None]


def _xla_decode(phi: Params, encoded: jax.Array, feature: jax.Array, widths: Widths) -> jax.Array:
    """The rest of the network: [w, T] and the momentum feature [T] -> [2, T]."""
    hidden = encoded + phi["w0"][:, NUM_SHARED:] * feature[None, :]
    for layer in range(1, len(widths) + 1):
        hidden = phi[f"w{layer}"] @ jax.nn.relu(hidden) + phi[f"b{layer}"][:, None]
    return hidden


def _pallas_decode(phi: Params, shared: jax.Array, feature: jax.Array, widths: Widths) -> jax.Array:
    """The whole network: [8, T] and the momentum feature [T] -> [2, T]."""
    if not widths:  # One product with no hidden units to keep.
        return _xla_decode(phi, _xla_encode(phi, shared), feature, widths)
    # Imported here: it takes 0.1 s, and the default does without.
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    columns = feature.shape[0]
    blocks = pl.cdiv(columns, BLOCK)
    padded = blocks * BLOCK
    layers = _padded_layers(phi, widths)

    def rows(count: int) -> pl.BlockSpec:
        return pl.BlockSpec((count, BLOCK), lambda block: (0, block))

    outputs = pl.pallas_call(
        _kernel,
        out_shape=jax.ShapeDtypeStruct((NUM_OUTPUTS, padded), jnp.float32),
        grid=(blocks,),
        in_specs=[rows(NUM_SHARED), rows(1), *[pl.BlockSpec()] * len(layers)],
        out_specs=rows(NUM_OUTPUTS),
        compiler_params=triton.CompilerParams(),
        interpret=jax.default_backend() == "cpu",
    )(_padded(shared, NUM_SHARED, padded), _padded(feature[None, :], 1, padded), *layers)
    return outputs[:, :columns]


def _kernel(shared: Any, feature: Any, *refs: Any) -> None:
    """One block of columns: [8, BLOCK], [1, BLOCK], w0, b0, w1, …, writing [2, BLOCK].

    The first layer and the last are sums of rows, because nine and two are no sizes for Triton's
    matrix products: padded to sixteen, they would more than double what travels.
    """
    *layers, outputs = refs
    (first, offset), *middle, (last, constant) = zip(layers[::2], layers[1::2], strict=True)
    hidden = offset[:][:, None] + first[:, NUM_SHARED][:, None] * feature[0, :][None, :]
    for row in range(NUM_SHARED):
        hidden += first[:, row][:, None] * shared[row, :][None, :]
    for weights, bias in middle:
        # In float32 throughout: without this, tensor cores would round the factors to 10 bits.
        product = jnp.dot(weights[:, :], _relu(hidden), precision=jax.lax.Precision.HIGHEST)
        hidden = product + bias[:][:, None]
    hidden = _relu(hidden)
    for row in range(NUM_OUTPUTS):
        outputs[row, :] = jnp.sum(last[row, :][:, None] * hidden, axis=0) + constant[row]


def _relu(x: jax.Array) -> jax.Array:
    """max(x, 0), NaN where x is: Triton's own maximum of NaN and 0 is 0."""
    return jnp.where(x < 0.0, 0.0, x)


def _padded_layers(phi: Params, widths: Widths) -> list[jax.Array]:
    """w0, b0, w1, … with hidden units that are always 0, up to sizes that Triton takes."""
    hidden = [max(_SMALLEST, 1 << (width - 1).bit_length()) for width in widths]
    layers = []
    for layer, (fan_in, fan_out) in enumerate(pairwise((NUM_FEATURES, *hidden, NUM_OUTPUTS))):
        bias = phi[f"b{layer}"]
        layers.append(_padded(phi[f"w{layer}"], fan_out, fan_in))
        layers.append(jnp.pad(bias, (0, fan_out - len(bias))))
    return layers


def _padded(matrix: jax.Array, rows: int, columns: int) -> jax.Array:
    """A matrix with zeros below and to the right."""
    return jnp.pad(matrix, ((0, rows - matrix.shape[0]), (0, columns - matrix.shape[1])))


NETWORKS: dict[str, Network] = {
    "xla": Network(_xla_encode, _xla_decode),
    "pallas": Network(lambda phi, shared: shared, _pallas_decode),
}
