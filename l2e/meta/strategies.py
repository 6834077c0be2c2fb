"""Gradient estimators for φ: evolution strategies from evosax, in antithetic pairs.

Eq. (10) of Kim et al. (2024), with perturbations ηᵢ ~ N(0, σ²I) and meta-losses Lᵢ^± of φ ± ηᵢ:

    ∇_φ E[L] ≈ 1/(2Nσ²) Σᵢ (Lᵢ⁺ − Lᵢ⁻) ηᵢ

A strategy keeps one optimiser state for the whole run. Adding one is a builder and a row.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from l2e.types import Key, Params


class Strategy(NamedTuple):
    """An estimator with its optimiser.

    Attributes:
        init: (key, φ) -> state.
        ask: (key, state) -> population, leaves [N, 2, ...] with φ + ηᵢ, φ − ηᵢ along the second
            axis.
        tell: (key, state, population, losses [N, 2]) -> state. Losses must be finite.
        mean: state -> φ.
        gradient_norm: state -> norm of the last estimate, before clipping.
    """

    init: Callable[[Key, Params], Any]
    ask: Callable[[Key, Any], Params]
    tell: Callable[[Key, Any, Params, jax.Array], Any]
    mean: Callable[[Any], Params]
    gradient_norm: Callable[[Any], jax.Array]


class _NormState(NamedTuple):
    norm: jax.Array


def outer_adam(
    learning_rate: float, beta1: float, beta2: float, clip_norm: float
) -> optax.GradientTransformation:
    """Adam on the gradient clipped to `clip_norm`; its state also holds the unclipped norm."""
    return optax.chain(
        _record_norm(),
        optax.clip_by_global_norm(clip_norm),
        optax.adam(learning_rate, beta1, beta2),
    )


def open_es(
    phi: Params, *, pairs: int, sigma: float, optimizer: optax.GradientTransformation
) -> Strategy:
    """Evosax's `Open_ES` with antithetic sampling and *identity* fitness shaping: eq. (10).

    Its default shaping, centred ranks, estimates another gradient.

    Args:
        phi: an example of φ, for its structure.
        pairs: N.
        sigma: σ.
        optimizer: from `outer_adam`.
    """
    # Evosax starts JAX's backend when imported, and programs choose their devices before that.
    from evosax.algorithms import Open_ES
    from evosax.core.fitness_shaping import identity_fitness_shaping_fn

    with _evosax_promotion():
        algorithm = Open_ES(
            population_size=2 * pairs,
            solution=phi,
            use_antithetic_sampling=True,
            optimizer=optimizer,
            std_schedule=optax.constant_schedule(sigma),
            fitness_shaping_fn=identity_fitness_shaping_fn,
            metrics_fn=lambda *_: {},
        )
        params = algorithm.default_params

    def init(key: Key, mean: Params) -> Any:
        with _evosax_promotion():
            state = algorithm.init(key, mean, params)
        return jax.tree.map(jnp.asarray, state)

    def ask(key: Key, state: Any) -> Params:
        with _evosax_promotion():
            population, _ = algorithm.ask(key, state, params)
        return jax.tree.map(lambda leaf: _pair_signs(leaf, pairs), population)

    def tell(key: Key, state: Any, population: Params, losses: jax.Array) -> Any:
        flat = jax.tree.map(_unpair_signs, population)
        with _evosax_promotion():
            state, _ = algorithm.tell(key, flat, _unpair_signs(losses), state, params)
        return state

    return Strategy(init, ask, tell, algorithm.get_mean, lambda state: state.opt_state[0].norm)


STRATEGIES: dict[str, Callable[..., Strategy]] = {"open_es": open_es}


def _record_norm() -> optax.GradientTransformation:
    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, _NormState]:
        return updates, _NormState(optax.tree.norm(updates))

    return optax.GradientTransformation(
        lambda params: _NormState(jnp.zeros((), jnp.float32)), update
    )


def _pair_signs(leaf: jax.Array, pairs: int) -> jax.Array:
    """Evosax's order, all pluses then all minuses, to [N, 2, ...]."""
    return jnp.swapaxes(leaf.reshape(2, pairs, *leaf.shape[1:]), 0, 1)


def _unpair_signs(leaf: jax.Array) -> jax.Array:
    return jnp.swapaxes(leaf, 0, 1).reshape(-1, *leaf.shape[2:])


@contextmanager
def _evosax_promotion() -> Iterator[None]:
    """Evosax relies on implicit promotion; this project's own code does not."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield
