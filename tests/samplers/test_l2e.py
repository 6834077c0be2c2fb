"""The learned sampler against SGHMC, and against eq. (6) written out tensor by tensor."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import l2e
from l2e.features import DECAYS
from l2e.tiles import Tiling
from tasks.build import bind_network
from tasks.spec import ModelSpec

H, DECAY, TEMPERATURE = 4e-4, 0.15, 0.7
SETTINGS = {"step_size": H, "momentum_decay": DECAY, "temperature": TEMPERATURE}


def positions(kernel, problem, steps):
    """Every position of a chain on minibatches, each step compiled by itself."""
    state = kernel.init(jax.random.key(2), problem.params)
    step, path = jax.jit(kernel.step), []
    for count in range(steps):
        state, _ = step(jax.random.key(100 + count), state, problem.batch(count))
        path.append(state.position)
    return path


@pytest.mark.parametrize("row", ["l2e/gaussian", "l2e/anchored"])
def test_untrained_is_sghmc(nested, build, row):
    sghmc = positions(build("sghmc", nested.potential, **SETTINGS), nested, 50)
    learned = positions(build(row, nested.potential, **SETTINGS), nested, 50)
    for ours, theirs in zip(learned, sghmc, strict=True):
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6), ours, theirs
        )


def perturbed(phi, scale=0.3):
    """Nonzero meta-parameters everywhere, so that each of them counts."""
    return {
        name: leaf + scale * jax.random.normal(jax.random.key(index), leaf.shape)
        for index, (name, leaf) in enumerate(sorted(phi.items()))
    }


def mlp(phi, features):
    """The network as anybody would write it: [9, P] -> (net_α, net_β)."""
    hidden = np.maximum(phi["w0"] @ features + phi["b0"][:, None], 0.0)
    hidden = np.maximum(phi["w1"] @ hidden + phi["b1"][:, None], 0.0)
    return phi["w2"] @ hidden + phi["b2"][:, None]


def gradient_rule(phi, features, r, epsilon):
    alpha, beta = mlp(phi, features)
    return alpha, beta


def anchored_rule(phi, features, r, epsilon):
    alpha, beta = mlp(phi, features)
    return 0.1 / epsilon * alpha, r + beta


def anchored_physics(phi, h):
    logit = np.log(DECAY / (1.0 - DECAY)) + phi["logit_momentum_decay"]
    return h * np.exp(phi["log_step_size"]), 1.0 / (1.0 + np.exp(-logit))


RULES = {
    "gradient": (gradient_rule, lambda phi, h: (h, DECAY)),
    "anchored": (anchored_rule, anchored_physics),
}


class Reference:
    """Eq. (6) in NumPy and float64, one tensor at a time, two whole passes a step."""

    def __init__(self, name, phi, leaves, momenta, h):
        self.rule, physics = RULES[name]
        self.phi = {key: np.float64(leaf) for key, leaf in phi.items()}
        self.h, self.a = physics(self.phi, h)
        self.theta = [np.float64(leaf).ravel() for leaf in leaves]
        self.r = momenta
        self.averages = [np.zeros((len(DECAYS), len(leaf))) for leaf in self.theta]

    def step(self, gradients, noises):
        epsilon = np.sqrt(self.h)
        for i, (g, xi) in enumerate(zip(gradients, noises, strict=True)):
            for j, decay in enumerate(DECAYS):
                self.averages[i][j] = decay * self.averages[i][j] + (1.0 - decay) * g
            alpha, beta = self.rule(self.phi, self.features(i, g), self.r[i], epsilon)
            noise = np.sqrt(2.0 * self.a * TEMPERATURE) * xi
            self.r[i] = self.r[i] - epsilon * (g + alpha) - self.a * beta + noise
            # The second pass: the new momentum, and everything else at the old position.
            _, beta = self.rule(self.phi, self.features(i, g), self.r[i], epsilon)
            self.theta[i] = self.theta[i] + epsilon * beta

    def features(self, i, g):
        rows = [g, self.theta[i], *self.averages[i], self.r[i]]
        return np.stack([row / np.sqrt(np.mean(row**2) + 1e-30) for row in rows])


def momentum(state):
    """The momentum, raveled as the position is."""
    tensors = Tiling.of(state.position).unpack(state.momentum, state.position)
    return ravel_pytree(tensors)[0]


def pieces(flat, leaves):
    """A flat vector cut into the tensors' lengths."""
    return np.split(np.float64(flat), np.cumsum([leaf.size for leaf in leaves])[:-1])


def follow(name, potential, gradient, params, batch, h=H):
    """A chain of the sampler beside eq. (6) written out, comparing both at every step.

    `gradient` computes ∇Ũ for the equations, at their own positions.
    """
    kinetic = l2e.KINETICS[name]()
    phi = perturbed(kinetic.init(jax.random.key(0)), 0.1)
    kernel = l2e.SAMPLERS["l2e"](potential, kinetic=kinetic, phi=phi, **SETTINGS | {"step_size": h})
    state = kernel.init(jax.random.key(2), params)
    leaves, structure = jax.tree.flatten(params)
    reference = Reference(name, phi, leaves, pieces(momentum(state), leaves), h)
    step, size = jax.jit(kernel.step), sum(leaf.size for leaf in leaves)
    for count in range(100):
        key = jax.random.key(100 + count)
        position = [
            jnp.asarray(theta.reshape(leaf.shape), jnp.float32)
            for theta, leaf in zip(reference.theta, leaves, strict=True)
        ]
        g = jax.tree.leaves(gradient(structure.unflatten(position), batch(count)))
        noise = pieces(jax.random.normal(key, (size,)), leaves)
        reference.step([np.float64(leaf).ravel() for leaf in g], noise)
        state, _ = step(key, state, batch(count))
        assert_close(ravel_pytree(state.position)[0], np.concatenate(reference.theta))
        assert_close(momentum(state), np.concatenate(reference.r))


@pytest.mark.parametrize("name", RULES)
def test_a_chain_equals_the_equations_written_out(nested, name):
    value_and_grad = jax.jit(nested.potential.value_and_grad)
    follow(
        name,
        nested.potential,
        lambda params, batch: value_and_grad(params, batch)[1],
        nested.params,
        nested.batch,
    )


def test_the_engine_equals_a_plain_one():
    """A convolutional network over several tiles, unfolded, in micro-batches with a remainder.

    The equations get their gradients from XLA's convolution, a batch at once.
    """
    keys = jax.random.split(jax.random.key(0), 3)
    x = jax.random.normal(keys[0], (40, 9, 8, 1))
    y = jax.random.randint(keys[1], (40,), 0, 10)

    def potential(convolution, micro_batch):
        network = bind_network(ModelSpec(5, 3, residual=True), (9, 8, 1), 10, convolution)
        prior = l2e.priors.gaussian(1.0)
        return network, l2e.minibatch(network.log_likelihood, prior, 40, micro_batch=micro_batch)

    (network, fast), (_, plain) = potential("unfold", 16), potential("lax", None)
    params = network.init(keys[2])
    assert Tiling.of(params).count > 1
    value_and_grad = jax.jit(plain.value_and_grad)
    follow(
        "anchored",
        fast,
        lambda params, batch: value_and_grad(params, batch)[1],
        params,
        lambda count: (x, y),
        h=1e-5,
    )


def assert_close(ours, wanted):
    """To rounding, in units of the largest number (100 steps of float32)."""
    np.testing.assert_allclose(ours, wanted, rtol=0.0, atol=1e-5 * max(1.0, np.abs(wanted).max()))


@pytest.mark.parametrize("name", sorted(l2e.KINETICS))
def test_a_population_of_phi_is_one_vmap(nested, name):
    kinetic = l2e.KINETICS[name]()
    population = [perturbed(kinetic.init(jax.random.key(seed))) for seed in range(3)]

    def after(phi, key):
        kernel = l2e.SAMPLERS["l2e"](nested.potential, kinetic=kinetic, phi=phi, **SETTINGS)
        state = kernel.init(jax.random.key(0), nested.params)
        return kernel.step(key, state, nested.data)[0].momentum

    keys = jax.random.split(jax.random.key(1), 3)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *population)
    together = jax.jit(jax.vmap(after))(stacked, keys)
    alone = jnp.stack([jax.jit(after)(phi, key) for phi, key in zip(population, keys, strict=True)])
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-5)


def test_the_scale_of_the_gradient_does_not_reach_the_network(nested):
    """Twice the data repeated, or U in other units: the same features, hence the same α and β."""
    weights = jnp.arange(1.0, 9.0)
    kinetic = l2e.KINETICS["gaussian"]()._replace(
        encode=lambda phi, features: weights @ features,
        gradients=lambda phi, encoded, feature, r, epsilon: (jnp.zeros_like(r), encoded),
    )
    moved = []
    for scale in (1.0, 1000.0):
        potential = l2e.Potential(
            jax.value_and_grad(
                lambda params, batch, scale=scale: (
                    -scale * jnp.sum(nested.log_likelihood(params, batch))
                )
            ),
            num_data=1,
        )
        kernel = l2e.SAMPLERS["l2e"](potential, kinetic=kinetic, phi={}, step_size=1.0)
        state = kernel.init(jax.random.key(0), nested.params)
        moved.append(kernel.step(jax.random.key(1), state, nested.data)[0].position)
    jax.tree.map(lambda *leaves: np.testing.assert_allclose(*leaves, rtol=1e-4, atol=1e-4), *moved)
    assert abs(ravel_pytree(moved[0])[0]).max() > 10.0


def test_unknown_physics_lists_the_known(nested):
    with pytest.raises(ValueError, match="unknown physics 'exakt'; known: exact, reference"):
        l2e.SAMPLERS["l2e"](
            nested.potential, kinetic=l2e.KINETICS["gaussian"](), phi={}, physics="exakt"
        )


def test_reference_physics_starts_at_rest_with_noise_of_a_tenth(nested):
    """√(2·0.1·T) whatever the friction, as the paper's public code has it."""
    settings = {"kinetic": l2e.KINETICS["gaussian"](), "phi": {}, "physics": "reference"}
    kernel = l2e.SAMPLERS["l2e"](nested.potential, momentum_decay=0.3, step_size=1e-20, **settings)
    state = kernel.init(jax.random.key(0), nested.params)
    np.testing.assert_array_equal(state.momentum, 0.0)
    after, _ = kernel.step(jax.random.key(1), state, nested.data)
    xi = jax.random.normal(jax.random.key(1), (nested.size,))
    np.testing.assert_allclose(momentum(after), 0.2**0.5 * xi, rtol=1e-5, atol=1e-6)
