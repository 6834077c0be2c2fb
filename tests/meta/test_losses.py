"""Meta-losses against cases worked out by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from l2e.meta.losses import LOSSES

# Two draws, two examples, two classes; labels 0 and 1.
PROBS = np.array([[[0.8, 0.2], [0.6, 0.4]], [[0.4, 0.6], [0.1, 0.9]]], np.float32)
LABELS = jnp.array([0, 1])

BY_HAND = {
    "bma": -(np.log((0.8 + 0.4) / 2) + np.log((0.4 + 0.9) / 2)) / 2,
    "cross_entropy": -(np.log(0.8) + np.log(0.4) + np.log(0.4) + np.log(0.9)) / 4,
}


@pytest.mark.parametrize("name", LOSSES)
def test_by_hand(name):
    loss = LOSSES[name](jnp.log(PROBS), LABELS)
    np.testing.assert_allclose(loss, BY_HAND[name], rtol=1e-6)


def test_diversity_pays_in_bma_alone():
    same = np.repeat(PROBS.mean(axis=0, keepdims=True), 2, axis=0)
    np.testing.assert_allclose(
        LOSSES["bma"](jnp.log(PROBS), LABELS), LOSSES["bma"](jnp.log(same), LABELS), rtol=1e-6
    )
    assert LOSSES["cross_entropy"](jnp.log(PROBS), LABELS) > LOSSES["cross_entropy"](
        jnp.log(same), LABELS
    )
