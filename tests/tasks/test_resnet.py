import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tasks.build import bind_network
from tasks.convolution import CONVOLUTIONS, unfold
from tasks.models import MODELS
from tasks.resnet import FilterResponseNorm, ResidualBlock, blocks_per_stage
from tasks.spec import ModelSpec

TINY = ModelSpec(channels=4, depth=8, family="resnet")
IMAGES = jax.ShapeDtypeStruct((2, 32, 32, 3), jnp.float32)


def resnet(spec=TINY, classes=3, convolution=unfold):
    return MODELS[spec.family](spec, classes, convolution)


def shapes(network, x=IMAGES):
    return jax.eval_shape(network.init_with_output, jax.random.key(0), x)


def random_params(network, x):
    """Parameters without the cost of compiling the initialisers."""
    rng = np.random.default_rng(0)
    _, variables = shapes(network, x)
    return jax.tree.map(lambda leaf: 0.3 * rng.standard_normal(leaf.shape, np.float32), variables)


def count_by_hand(blocks, width, image_channels, classes):
    """Numbers in a network of 6·blocks + 2 layers, layer by layer."""

    def conv_and_norm(edge, inputs, outputs):
        return edge * edge * inputs * outputs + 2 * outputs

    total = conv_and_norm(3, image_channels, width)
    inputs = width
    for outputs in (width, 2 * width, 4 * width):
        if inputs != outputs:
            total += conv_and_norm(1, inputs, outputs)
        total += conv_and_norm(3, inputs, outputs)
        total += (2 * blocks - 1) * conv_and_norm(3, outputs, outputs)
        inputs = outputs
    return total + inputs * classes + classes


@pytest.mark.parametrize(("depth", "blocks"), [(20, 3), (56, 9)])
def test_parameters_are_those_of_the_architecture(depth, blocks):
    logits, variables = shapes(resnet(ModelSpec(16, depth, family="resnet"), classes=10))
    leaves = jax.tree.leaves(variables["params"])
    assert (logits.shape, logits.dtype) == ((2, 10), jnp.float32)
    assert all(leaf.dtype == jnp.float32 for leaf in leaves)
    assert sum(leaf.size for leaf in leaves) == count_by_hand(blocks, 16, 3, 10)
    weighted = [leaf for leaf in leaves if leaf.ndim == 2 or leaf.shape[:2] == (3, 3)]
    assert len(weighted) == depth


def test_stages_halve_the_edges_and_double_the_width():
    _, variables = shapes(resnet())
    params = variables["params"]
    widths = [params[f"ResidualBlock_{i}"]["Conv_1"]["kernel"].shape[-1] for i in range(3)]
    assert widths == [4, 8, 16]
    assert "Conv_2" not in params["ResidualBlock_0"]
    assert params["ResidualBlock_1"]["Conv_2"]["kernel"].shape == (1, 1, 4, 8)
    for edge, half in ((32, 16), (7, 4)):
        x = jax.ShapeDtypeStruct((2, edge, edge, 4), jnp.float32)
        assert shapes(ResidualBlock(8, 2, unfold), x)[0].shape == (2, half, half, 8)


def test_filter_response_norm_by_hand():
    rng = np.random.default_rng(1)
    x, scale, bias = (rng.standard_normal(s, np.float32) for s in ((3, 5, 4, 2), 2, 2))
    expected = np.empty_like(x)
    for image in range(3):
        for channel in range(2):
            plane = x[image, :, :, channel]
            root_mean_square = np.sqrt(np.sum(plane**2) / 20 + 1e-6)
            expected[image, :, :, channel] = scale[channel] * plane / root_mean_square
            expected[image, :, :, channel] += bias[channel]
    found = FilterResponseNorm().apply({"params": {"scale": scale, "bias": bias}}, jnp.asarray(x))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_filter_response_norm_starts_at_unit_power_and_survives_zeros():
    norm = FilterResponseNorm()
    x = np.stack([np.zeros((4, 4, 2), np.float32), np.full((4, 4, 2), 7, np.float32)])
    y, variables = jax.jit(norm.init_with_output)(jax.random.key(0), x)
    np.testing.assert_allclose(np.mean(np.square(y), axis=(1, 2)), [[0, 0], [1, 1]], rtol=1e-5)
    slope = jax.jit(jax.grad(lambda x: jnp.sum(norm.apply(variables, x))))(x)
    assert np.isfinite(slope).all()


def test_logits_are_finite_and_the_same_however_convolved_and_whatever_the_batch():
    x = jax.random.normal(jax.random.key(1), (3, 8, 8, 1))
    params = random_params(resnet(), x)
    lax, unfolded = (jax.jit(resnet(convolution=how).apply) for how in CONVOLUTIONS.values())
    logits = lax(params, x)
    assert np.isfinite(logits).all()
    np.testing.assert_allclose(unfolded(params, x), logits, rtol=1e-3, atol=1e-5)
    beside_others = lax(params, x.at[1:].set(1.0))
    np.testing.assert_allclose(beside_others[0], logits[0], rtol=1e-5, atol=1e-6)
    assert not np.allclose(beside_others[1:], logits[1:])


def test_gradients_are_finite_and_reach_every_parameter():
    network = bind_network(TINY, (8, 8, 1), 3, "unfold")
    x = jax.random.normal(jax.random.key(1), (3, 8, 8, 1))
    params = random_params(resnet(), x)["params"]
    gradient = jax.jit(jax.grad(lambda p: jnp.sum(network.log_likelihood(p, (x, jnp.arange(3))))))
    for leaf in jax.tree.leaves(gradient(params)):
        assert np.isfinite(leaf).all()
        assert np.any(leaf != 0)


@pytest.mark.parametrize(("depth", "blocks"), [(8, 1), (20, 3), (56, 9), (110, 18)])
def test_blocks_per_stage(depth, blocks):
    assert blocks_per_stage(depth) == blocks


@pytest.mark.parametrize(("depth", "use"), [(1, "8 or 14"), (2, "8 or 14"), (21, "20 or 26")])
def test_other_depths_are_refused(depth, use):
    with pytest.raises(ValueError, match=rf"depth is {depth}; expected 6n \+ 2.* Use {use}"):
        bind_network(ModelSpec(4, depth, family="resnet"), (8, 8, 1), 3, "unfold")
