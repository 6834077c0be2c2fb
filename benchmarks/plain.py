"""The plain engines that ours is measured against: the same equations, written the obvious way."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import l2e
from l2e.batches import minibatches
from l2e.features import DECAYS
from l2e.potential import of_task

BATCH = 128
STEP_SIZE, FRICTION = 1e-6, 0.1


class Chain(NamedTuple):
    """θ, r and the six running averages of the gradient, each a pytree like θ."""

    position: Any
    momentum: Any
    averages: Any


def start(theta: Any) -> Chain:
    """At rest, with empty averages."""
    averages = jax.tree.map(lambda leaf: jnp.zeros((len(DECAYS), leaf.size)), theta)
    return Chain(theta, jax.tree.map(jnp.zeros_like, theta), averages)


def update(phi: dict[str, jax.Array], chain: Chain, gradient: Any, key: jax.Array) -> Chain:
    """Eq. (6) with `anchored`, tensor by tensor, in two whole passes."""
    leaves, structure = jax.tree.flatten(chain.position)
    columns = map(jax.tree.leaves, (chain.momentum, chain.averages, gradient))
    keys = jax.random.split(key, len(leaves))
    moved = [_tensor(phi, *row) for row in zip(leaves, *columns, keys, strict=True)]
    return Chain(*(structure.unflatten(column) for column in zip(*moved, strict=True)))


def _tensor(
    phi: dict[str, jax.Array],
    theta: jax.Array,
    r: jax.Array,
    averages: jax.Array,
    g: jax.Array,
    key: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    shape, epsilon = theta.shape, STEP_SIZE**0.5
    theta, r, g = theta.ravel(), r.ravel(), g.ravel()
    decays = jnp.asarray(DECAYS)[:, None]
    averages = decays * averages + (1.0 - decays) * g[None, :]
    noise = (2.0 * FRICTION) ** 0.5 * jax.random.normal(key, theta.shape)
    alpha, beta = _gradients(phi, theta, r, averages, g)
    r = r - epsilon * g - 0.1 * alpha - FRICTION * (r + beta) + noise
    _, beta = _gradients(phi, theta, r, averages, g)
    return (theta + epsilon * (r + beta)).reshape(shape), r.reshape(shape), averages


def _gradients(
    phi: dict[str, jax.Array], theta: jax.Array, r: jax.Array, averages: jax.Array, g: jax.Array
) -> jax.Array:
    rows = jnp.concatenate([g[None, :], theta[None, :], averages, r[None, :]])
    x = rows / jnp.sqrt(jnp.mean(jnp.square(rows), axis=1, keepdims=True) + 1e-30)
    x = jax.nn.relu(phi["w0"] @ x + phi["b0"][:, None])
    x = jax.nn.relu(phi["w1"] @ x + phi["b1"][:, None])
    return phi["w2"] @ x + phi["b2"][:, None]


def vmapped(task: l2e.Task, *, pairs: int, steps: int) -> tuple[Callable[[], Any], int]:
    """A population under one vmap, whole chains in one loop; and how many steps that is."""
    potential, source, phi = _parts(task)
    population = jax.tree.map(lambda leaf: jnp.stack([leaf] * 2 * pairs), phi)
    keys = jax.random.split(jax.random.key(1), 2 * pairs)

    def run(phi: dict[str, jax.Array], key: jax.Array) -> Chain:
        def step(count: jax.Array, chain: Chain) -> Chain:
            batch = source(jax.random.key(2), count)
            _, gradient = potential.value_and_grad(chain.position, batch)
            return update(phi, chain, gradient, jax.random.fold_in(key, count))

        return jax.lax.fori_loop(0, steps, step, start(task.init(key)))

    program = jax.jit(jax.vmap(run)).lower(population, keys).compile()
    return (lambda: program(population, keys)), 2 * pairs * steps


def stepwise(task: l2e.Task, *, steps: int) -> tuple[Callable[[], Any], int]:
    """One chain; gradient and update compiled apart, called from Python."""
    potential, source, phi = _parts(task)
    batch = source(jax.random.key(2), jnp.int32(0))
    gradient = jax.jit(lambda theta, batch: potential.value_and_grad(theta, batch)[1])
    move = jax.jit(update)

    def run() -> Chain:
        chain = start(task.init(jax.random.key(1)))
        for count in range(steps):
            key = jax.random.key(count)
            chain = move(phi, chain, gradient(chain.position, batch), key)
        return chain

    return run, steps


def _parts(task: l2e.Task) -> tuple[l2e.Potential, Any, Any]:
    potential = of_task(task)
    phi = l2e.KINETICS["anchored"]().init(jax.random.key(0))
    return potential, minibatches(task.train, BATCH), phi
