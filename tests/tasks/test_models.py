from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tasks.convolution import CONVOLUTIONS, unfold
from tasks.models import MODELS, max_pool, widen
from tasks.spec import ModelSpec

FAMILY = [ModelSpec(*choice) for choice in product((4, 8, 16), (1, 2, 3, 4, 5), (False, True))]
SHAPES = [(8, 8, 1), (13, 12, 1), (28, 28, 3), (32, 32, 3)]


def build(spec, classes=10, convolution=unfold):
    return MODELS[spec.family](spec, classes, convolution)


def random_params(network, x):
    """Parameters without the cost of compiling the initialisers."""
    rng = np.random.default_rng(0)
    shapes = jax.eval_shape(network.init, jax.random.key(0), x)
    return jax.tree.map(lambda leaf: 0.3 * rng.standard_normal(leaf.shape, np.float32), shapes)


@pytest.mark.parametrize("spec", FAMILY, ids=lambda spec: spec.name)
def test_parameter_shapes_of_the_whole_family(spec):
    for shape in SHAPES:
        x = jax.ShapeDtypeStruct((2, *shape), jnp.float32)
        logits, variables = jax.eval_shape(build(spec).init_with_output, jax.random.key(0), x)
        params = variables["params"]
        assert (logits.shape, logits.dtype) == ((2, 10), jnp.float32)
        assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(params))
        assert len(params) == spec.depth + 2
        assert params["Conv_0"]["kernel"].shape == (3, 3, shape[-1], spec.channels)
        pixels = (shape[0] // 2) * (shape[1] // 2)
        assert params["Dense_0"]["kernel"].shape == (pixels * spec.channels, spec.dense)
        assert params["Dense_1"]["kernel"].shape == (spec.dense, 10)


@pytest.mark.parametrize("spec", [FAMILY[0], FAMILY[3], FAMILY[9]], ids=lambda spec: spec.name)
def test_logits_are_finite_and_the_same_however_convolved(spec):
    x = jax.random.normal(jax.random.key(1), (3, 8, 8, 1))
    params = random_params(build(spec), x)
    logits = [
        jax.jit(build(spec, convolution=how).apply)(params, x) for how in CONVOLUTIONS.values()
    ]
    assert np.isfinite(logits[0]).all()
    np.testing.assert_allclose(logits[0], logits[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("depth", [1, 2])
def test_residual_differs_from_plain_at_equal_parameters(depth):
    x = jax.random.normal(jax.random.key(1), (3, 8, 8, 1))
    plain, residual = (build(ModelSpec(4, depth, skip)) for skip in (False, True))
    params = random_params(plain, x)
    same = jax.eval_shape(residual.init, jax.random.key(0), x)
    assert jax.tree.structure(params) == jax.tree.structure(same)
    logits = [jax.jit(network.apply)(params, x) for network in (plain, residual)]
    assert not np.allclose(*logits)


def test_max_pool_by_hand():
    x = jnp.arange(15.0).reshape(1, 3, 5, 1)
    np.testing.assert_array_equal(max_pool(x)[0, ..., 0], [[6.0, 8.0]])


def test_max_pool_refuses_a_single_row():
    with pytest.raises(ValueError, match="1×8 pixels"):
        max_pool(jnp.zeros((1, 1, 8, 1)))


def test_widen_pads_with_zeros_and_never_narrows():
    assert widen(jnp.ones((1, 2, 2, 1)), 3).sum() == 4
    with pytest.raises(ValueError, match="2 channels cannot carry an image of 3"):
        widen(jnp.ones((1, 2, 2, 3)), 2)
