"""The network: each way to evaluate it against NumPy, and the GPU's kernel against XLA."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import l2e
from l2e.features import NUM_SHARED
from l2e.network import NETWORKS, init_network

PAPER = (32, 32)


def random(*shape, seed=0):
    """NumPy's, which compiles nothing."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def random_phi(widths, seed=0):
    """Weights of about the network's own size, and biases that count."""
    shapes = jax.eval_shape(lambda: init_network(jax.random.key(0), widths))
    return {
        name: 0.5 * random(*leaf.shape, seed=seed + index)
        for index, (name, leaf) in enumerate(sorted(shapes.items()))
    }


def stack(*trees):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def evaluate(name, widths):
    network = NETWORKS[name]
    return lambda phi, shared, feature: network.decode(
        phi, network.encode(phi, shared), feature, widths
    )


def both(widths, transform, *arguments):
    """(pallas, xla), compiled as one program."""
    functions = [transform(evaluate(name, widths)) for name in ("pallas", "xla")]
    return jax.jit(lambda *arguments: [f(*arguments) for f in functions])(*arguments)


def assert_equal_to_rounding(ours, wanted, tolerance=1e-5):
    assert ours.shape == wanted.shape
    assert ours.dtype == wanted.dtype == jnp.float32
    np.testing.assert_allclose(ours, wanted, rtol=0.0, atol=tolerance * np.abs(wanted).max())


@pytest.fixture
def for_cuda(monkeypatch):
    """(function, arguments) -> the program that JAX hands to XLA for an NVIDIA GPU."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    return lambda function, *arguments: (
        jax.jit(function).trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()
    )


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("widths", [(), (8,), PAPER])
def test_equals_numpy_written_out(name, widths):
    phi, shared, feature = random_phi(widths), random(NUM_SHARED, 70), random(70, seed=1)
    hidden = np.concatenate([np.float64(shared), np.float64(feature)[None]])
    for layer in range(len(widths) + 1):
        inputs = np.maximum(hidden, 0.0) if layer else hidden
        hidden = np.float64(phi[f"w{layer}"]) @ inputs + np.float64(phi[f"b{layer}"])[:, None]
    ours = jax.jit(evaluate(name, widths))(phi, shared, feature)
    assert_equal_to_rounding(ours, np.float32(hidden))


@pytest.mark.parametrize("widths", [PAPER, (8,), (5, 7, 3)])
class TestPallasEqualsXLA:
    @pytest.mark.parametrize("columns", [1, 64, 200, 1024])
    def test_on_one_tile(self, widths, columns):
        shared, feature = random(NUM_SHARED, columns), random(columns, seed=1)
        assert_equal_to_rounding(*both(widths, lambda f: f, random_phi(widths), shared, feature))

    @pytest.mark.parametrize("columns", [64, 200])
    def test_on_many_tiles(self, widths, columns):
        over_tiles = lambda f: jax.vmap(f, in_axes=(None, 0, 0))
        shared, feature = random(3, NUM_SHARED, columns), random(3, columns, seed=1)
        assert_equal_to_rounding(*both(widths, over_tiles, random_phi(widths), shared, feature))

    @pytest.mark.parametrize("columns", [64, 200])
    def test_on_many_phi(self, widths, columns):
        over_phi = lambda f: jax.vmap(f, in_axes=(0, None, None))
        population = stack(random_phi(widths), random_phi(widths, seed=20))
        shared, feature = random(NUM_SHARED, columns), random(columns, seed=1)
        assert_equal_to_rounding(*both(widths, over_phi, population, shared, feature))


def test_pallas_equals_xla_on_the_tiles_of_every_phi():
    """As chains of a population see it, φ outside and tiles inside."""
    nested = lambda f: jax.vmap(jax.vmap(f, in_axes=(None, 0, 0)))
    population = stack(random_phi(PAPER), random_phi(PAPER, seed=20))
    shared, feature = random(2, 3, NUM_SHARED, 200), random(2, 3, 200, seed=1)
    assert_equal_to_rounding(*both(PAPER, nested, population, shared, feature))


def kernel(problem, name, kinetic="anchored", phi=None):
    kinetic = l2e.KINETICS[kinetic](network=name)
    if phi is None:
        untrained = kinetic.init(jax.random.key(0))
        phi = jax.tree.map(lambda leaf: leaf + 0.1 * random(*leaf.shape), untrained)
    return l2e.SAMPLERS["l2e"](problem.potential, kinetic=kinetic, phi=phi, step_size=4e-4)


def chain(kernel, problem, steps=10):
    """The last state of a chain on minibatches."""
    state, step = kernel.init(jax.random.key(1), problem.params), jax.jit(kernel.step)
    for count in range(steps):
        state, _ = step(jax.random.key(100 + count), state, problem.batch(count))
    return state


@pytest.mark.parametrize("kinetic", ["anchored", "gradient"])
def test_a_chain_is_the_same_by_either_network(nested, kinetic):
    ours, wanted = (chain(kernel(nested, name, kinetic), nested) for name in ("pallas", "xla"))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5),
        (ours.position, ours.momentum),
        (wanted.position, wanted.momentum),
    )


@pytest.mark.parametrize("name", NETWORKS)
def test_nan_is_not_hidden(name):
    phi, shared = random_phi((8,)), random(NUM_SHARED, 5)
    feature = np.where(np.arange(5) == 2, np.float32(np.nan), random(5, seed=1))
    outputs = jax.jit(evaluate(name, (8,)))(phi, shared, feature)
    np.testing.assert_array_equal(np.isnan(outputs), [[False, False, True, False, False]] * 2)


@pytest.mark.parametrize("widths", [PAPER, (8,), (5, 7, 3)])
@pytest.mark.parametrize("columns", [1, 1024])
def test_the_kernel_lowers_for_cuda(for_cuda, widths, columns):
    arguments = random_phi(widths), random(NUM_SHARED, columns), random(columns)
    program = for_cuda(evaluate("pallas", widths), *arguments)
    assert "xla.gpu.triton" in program
    # Triton's maximum by this name turns NaN into 0.
    assert "maxnumf" not in program


def test_a_population_of_chains_lowers_for_cuda(nested, for_cuda):
    phi = l2e.KINETICS["anchored"]().init(jax.random.key(0))

    def after(phi, key):
        sampler = kernel(nested, "pallas", phi=phi)
        state = sampler.init(key, nested.params)
        return sampler.step(key, state, nested.data)[0].position

    keys = jax.random.split(jax.random.key(1), 3)
    assert "xla.gpu.triton" in for_cuda(jax.vmap(after), stack(phi, phi, phi), keys)


@pytest.mark.parametrize("name", ["anchored", "gradient"])
def test_the_network_is_chosen_by_name_and_is_not_an_option_of_the_sampler(name):
    build = l2e.KINETICS[name]
    assert build(network="pallas").options == build().options
    with pytest.raises(ValueError, match="unknown network 'cuda'; known: pallas, xla"):
        build(network="cuda")


def test_a_loaded_sampler_runs_on_either_network(nested, tmp_path):
    phi = random_phi((4,))
    manifest = {
        "name": "tiny",
        "kinetic": "gradient",
        "kinetic_options": {"widths": [4]},
        "physics": "exact",
        "learning_rate": 0.01,
        "momentum_decay": 0.1,
    }
    sampler = l2e.export(tmp_path, phi, manifest)
    ours, wanted = (
        chain(sampler.build(nested.potential, network=name), nested, steps=2).momentum
        for name in ("pallas", "xla")
    )
    assert_equal_to_rounding(ours, wanted)
    options = {"widths": [4], "network": "pallas"}
    with pytest.raises(l2e.SamplerFileError, match="network"):
        l2e.export(tmp_path, phi, manifest | {"kinetic_options": options})
