import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tasks.convolution import CONVOLUTIONS, patches

LAYOUT = ("NHWC", "HWIO", "NHWC")


def convolve(how, x, kernel):
    return how(x, kernel, (1, 1), "SAME", dimension_numbers=LAYOUT)


@pytest.fixture(params=[(3, 3), (5, 2), (1, 1)], ids=str)
def images_and_kernels(request):
    keys = jax.random.split(jax.random.key(0), 2)
    x = jax.random.normal(keys[0], (2, 7, 6, 3))
    return x, jax.random.normal(keys[1], (4, *request.param, 3, 5))


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


def test_patches_equal_lax(images_and_kernels):
    x, kernels = images_and_kernels
    close(convolve(patches, x, kernels[0]), convolve(jax.lax.conv_general_dilated, x, kernels[0]))


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


def test_mapped_over_kernels_stays_one_product(images_and_kernels):
    x, kernels = images_and_kernels
    text = jax.jit(jax.vmap(lambda k: convolve(patches, x, k))).lower(kernels).as_text()
    assert text.count("dot_general") == 1
    assert "batching_dims" not in text


@pytest.mark.parametrize(
    "options",
    [
        {"strides": 2},
        {"kernel_dilation": 2},
        {"input_dilation": 2},
        {"feature_group_count": 2},
        {"padding": "VALID"},
    ],
    ids=str,
)
def test_what_patches_cannot_do_is_refused(options):
    layer = nn.Conv(4, (3, 3), conv_general_dilated=patches, **options)
    with pytest.raises(ValueError, match='use convolution="lax"'):
        layer.init(jax.random.key(0), jnp.zeros((1, 6, 6, 2)))


def test_other_layouts_are_refused():
    with pytest.raises(ValueError, match="dimension_numbers"):
        patches(jnp.zeros((1, 2, 6, 6)), jnp.zeros((4, 2, 3, 3)), (1, 1), "SAME")
