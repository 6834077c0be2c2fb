"""The benchmarks' own arithmetic, counted by hand, and their two engines against each other."""

import jax
import jax.numpy as jnp
import measure
import numpy as np
import plain
import pytest

import l2e
from l2e.samplers.l2e import L2EState
from l2e.tiles import Tiling


def test_products_in_a_loop_are_counted_as_often_as_they_run():
    def function(a, b):
        return jax.lax.scan(lambda total, _: (total + a @ b, None), jnp.zeros((3, 5)), length=7)[0]

    assert measure.arithmetic(function, jnp.ones((3, 4)), jnp.ones((4, 5))) == 7 * 2 * 3 * 4 * 5


def test_a_convolution_and_its_gradient_are_counted():
    """Forward and both backward products are 2·B·H·W·9·C·O each, borders included."""

    def convolve(x, kernel):
        return jax.lax.conv_general_dilated(
            x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    x, kernel = jnp.ones((2, 6, 6, 3)), jnp.ones((3, 3, 3, 4))
    once = 2 * 2 * 36 * 9 * 3 * 4
    assert measure.arithmetic(convolve, x, kernel) == once
    gradient = jax.grad(lambda x, kernel: jnp.sum(jnp.sin(convolve(x, kernel))), (0, 1))
    assert measure.arithmetic(gradient, x, kernel) == 3 * once


def test_summaries_by_hand():
    assert measure.geometric_mean([1.0, 8.0, 27.0]) == pytest.approx(6.0)
    assert measure.ratio([2.0, 9.0, 4.0], [1.0, 3.0, 1.0]) == 3.0


def test_both_engines_take_the_same_step(nested, monkeypatch):
    """Without friction neither adds noise, so that one step can be compared to rounding."""
    monkeypatch.setattr(plain, "FRICTION", 0.0)
    kinetic = l2e.KINETICS["anchored"]()
    phi = jax.tree.map(lambda leaf: leaf + 0.1, kinetic.init(jax.random.key(0)))
    phi |= {"log_step_size": jnp.float32(0.0), "logit_momentum_decay": jnp.float32(0.0)}
    kernel = l2e.SAMPLERS["l2e"](
        nested.potential,
        kinetic=kinetic,
        phi=phi,
        step_size=plain.STEP_SIZE,
        momentum_decay=1e-12,
        temperature=0.0,
    )
    start: L2EState = kernel.init(jax.random.key(0), nested.params)
    ours, _ = kernel.step(jax.random.key(1), start, nested.data)
    _, gradient = nested.potential.value_and_grad(nested.params, nested.data)
    theirs = plain.update(phi, plain.start(nested.params), gradient, jax.random.key(1))
    momentum = Tiling.of(nested.params).unpack(ours.momentum, nested.params)
    for one, other in ((ours.position, theirs.position), (momentum, theirs.momentum)):
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), one, other
        )
