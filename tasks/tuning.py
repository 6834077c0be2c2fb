"""What suits the machine: chosen by backend and shape, from measurements (docs/decisions.md)."""

import jax

from tasks.spec import ModelSpec

CACHED = 1 << 16
"""Numbers in a layer's activations that a CPU core handles best at once: 256 KiB."""

FEWEST, MOST = 16, 32
"""Images in a micro-batch: one or two vectors of 512 bits."""


def micro_batch(spec: ModelSpec, shape: tuple[int, ...]) -> int | None:
    """Images whose gradients are computed at once.

    Args:
        spec: the network.
        shape: (height, width, channels) of an image.

    Returns:
        So many images that the largest activations stay in a core's cache; None, the whole batch,
        on other backends than a CPU.
    """
    if jax.default_backend() != "cpu":
        return None
    height, width, _ = shape
    return MOST if MOST * height * width * spec.channels <= CACHED else FEWEST
