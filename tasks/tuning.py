"""What suits the machine: chosen by backend and shape, from measurements (docs/decisions.md)."""

import jax

from tasks.spec import ModelSpec

CACHED = 100_000
"""Numbers in a layer's activations that a CPU core handles best at once: 400 kB."""

SMALLEST = 8
"""Images in a micro-batch, at the least: half a vector of float32."""


def micro_batch(spec: ModelSpec, shape: tuple[int, ...]) -> int | None:
    """Images whose gradients are computed at once.

    Args:
        spec: the network.
        shape: (height, width, channels) of an image.

    Returns:
        A power of two for which the largest activations stay in a core's cache; None, the whole
        batch, on other backends than a CPU.
    """
    if jax.default_backend() != "cpu":
        return None
    height, width, _ = shape
    fitting = max(CACHED // (height * width * spec.channels), SMALLEST)
    return 1 << (fitting.bit_length() - 1)
