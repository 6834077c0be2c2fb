from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tasks.convolution import CONVOLUTIONS, unfold

LAYOUT = ("NHWC", "HWIO", "NHWC")


@partial(jax.jit, static_argnums=(0, 3))
def convolve(how, x, kernel, strides=(1, 1)):
    return how(x, kernel, strides, "SAME", dimension_numbers=LAYOUT)


@pytest.fixture(params=[(3, 3, 6), (3, 3, 2), (5, 2, 6), (2, 5, 1), (1, 1, 6), (1, 1, 1)], ids=str)
def images_and_kernels(request):
    """Few and many channels take different ways; kernels of even size are padded unevenly."""
    keys = jax.random.split(jax.random.key(0), 2)
    x = jax.random.normal(keys[0], (2, 7, 6, request.param[-1]))
    return x, jax.random.normal(keys[1], (4, *request.param, 5))


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


def test_unfold_equals_lax(images_and_kernels):
    x, kernels = images_and_kernels
    close(convolve(unfold, x, kernels[0]), convolve(jax.lax.conv_general_dilated, x, kernels[0]))


def test_gradients_equal_lax(images_and_kernels):
    x, kernels = images_and_kernels

    def loss(how, x, kernel):
        return jnp.sum(jnp.sin(convolve(how, x, kernel)))

    gradients = [jax.grad(loss, (1, 2))(how, x, kernels[0]) for how in CONVOLUTIONS.values()]
    for one, other in zip(*gradients, strict=True):
        close(one, other)


def test_mapped_over_kernels_equals_lax(images_and_kernels):
    x, kernels = images_and_kernels
    mapped = [
        jax.vmap(lambda kernel, how=how: convolve(how, x, kernel))(kernels)
        for how in CONVOLUTIONS.values()
    ]
    close(mapped[0], mapped[1])


@pytest.mark.parametrize("strides", [(2, 2), (1, 3)], ids=str)
@pytest.mark.parametrize("edge", [7, 8])
@pytest.mark.parametrize("kernel", [(3, 3), (1, 1), (4, 4)], ids=str)
def test_strides_equal_lax(kernel, edge, strides):
    keys = jax.random.split(jax.random.key(0), 2)
    x = jax.random.normal(keys[0], (2, edge, edge + 1, 5))
    weights = jax.random.normal(keys[1], (*kernel, 5, 3))

    def loss(how, x, weights):
        out = convolve(how, x, weights, strides)
        return jnp.sum(jnp.sin(out)), out

    gradient = jax.jit(jax.grad(loss, (1, 2), has_aux=True), static_argnums=0)
    ours, theirs = (gradient(how, x, weights) for how in CONVOLUTIONS.values())
    jax.tree.map(close, ours, theirs)


@pytest.mark.parametrize(
    "options",
    [
        {"precision": "high"},
        {"kernel_dilation": 2},
        {"input_dilation": 2},
        {"feature_group_count": 2},
        {"padding": "VALID"},
    ],
    ids=str,
)
def test_what_unfold_cannot_do_is_refused(options):
    layer = nn.Conv(4, (3, 3), conv_general_dilated=unfold, **options)
    with pytest.raises(ValueError, match='use convolution="lax"'):
        layer.init(jax.random.key(0), jnp.zeros((1, 6, 6, 2)))


def test_other_layouts_are_refused():
    with pytest.raises(ValueError, match="dimension_numbers"):
        unfold(jnp.zeros((1, 2, 6, 6)), jnp.zeros((4, 2, 3, 3)), (1, 1), "SAME")
