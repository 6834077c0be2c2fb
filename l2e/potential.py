"""The potential energy and its minibatch estimate: the only file that scales by n.

Everybody's mistake with stochastic-gradient MCMC is here or nowhere, so it is said once. The
target is the posterior p(θ|D) ∝ p(θ) Πᵢ p(yᵢ|xᵢ,θ), its potential

    U(θ) = −Σᵢ₌₁ⁿ log p(yᵢ|xᵢ,θ) − log p(θ),

and the estimate from a batch of B examples, unbiased when batches are drawn uniformly,

    Ũ(θ) = −(n/B) Σ_{i∈batch} log p(yᵢ|xᵢ,θ) − log p(θ).

The likelihood is scaled by n/B, the prior enters once. Optimisers work on the *mean* loss; a
learning rate ℓ of the mean loss is the step size h = ℓ/n of U.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from l2e.batches import count_examples, in_pieces
from l2e.types import Batch, Params, Potential, Task


def minibatch(
    log_likelihood: Callable[[Params, Batch], jax.Array],
    log_prior: Callable[[Params], jax.Array],
    num_data: float,
    *,
    micro_batch: int | None = None,
) -> Potential:
    """Build Ũ(θ) = −(n/B) Σ log p(yᵢ|xᵢ,θ) − log p(θ) and its gradient.

    Args:
        log_likelihood: (θ, batch) -> one log-likelihood an example, shape [B].
        log_prior: θ -> log p(θ), a scalar, up to a constant.
        num_data: n, the number of examples in the data set (not in the batch).
        micro_batch: examples whose gradients are computed at once; the sum over a batch is taken
            piece by piece. It bounds memory, and on a CPU it keeps a convolution's intermediates
            in the cache. None takes the whole batch at once.

    Returns:
        A `Potential`; energies are in nats.

    Raises:
        ValueError: when n or micro_batch is not positive, or (at the first call) when the
            log-likelihood is not one number an example.

    Example:
        >>> import jax.numpy as jnp
        >>> U = minibatch(lambda m, y: -0.5 * (y - m) ** 2, lambda m: -0.5 * m**2, num_data=4)
        >>> energy, gradient = U.value_and_grad(jnp.float32(1.0), jnp.array([0.0, 2.0]))
        >>> float(energy), float(gradient)
        (2.5, 1.0)
    """
    if not num_data > 0:
        raise ValueError(
            f"num_data is {num_data!r}; expected the number of training examples, at least 1"
        )

    if micro_batch is not None and micro_batch < 1:
        raise ValueError(f"micro_batch is {micro_batch!r}; expected at least 1, or None")

    def summed(params: Params, batch: Batch) -> jax.Array:
        return jnp.sum(_per_example(log_likelihood(params, batch), count_examples(batch)))

    def value_and_grad(params: Params, batch: Batch) -> tuple[jax.Array, Params]:
        scale = num_data / count_examples(batch)
        likelihood = _sum_over_pieces(jax.value_and_grad(summed), params, batch, micro_batch)
        prior = jax.value_and_grad(log_prior)(params)
        return jax.tree.map(lambda data, prior: -scale * data - prior, likelihood, prior)

    return Potential(value_and_grad=value_and_grad, num_data=num_data)


def of_task(task: Task, num_data: float | None = None) -> Potential:
    """The potential of a task, in its own micro-batches; n is the task's unless given."""
    return minibatch(
        task.log_likelihood,
        task.log_prior,
        num_data or task.num_data,
        micro_batch=task.micro_batch,
    )


def _sum_over_pieces(
    function: Callable[[Params, Batch], Any], params: Params, batch: Batch, size: int | None
) -> Any:
    """Σ function(params, piece) over pieces of `size` examples; the last one may be shorter."""
    if size is None or size >= count_examples(batch):
        return function(params, batch)
    pieces, rest = in_pieces(batch, size)

    def add(total: Any, piece: Batch) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, function(params, piece)), None

    zero = jax.tree.map(jnp.zeros_like, (jnp.float32(0.0), params))
    total, _ = jax.lax.scan(add, zero, pieces)
    return total if rest is None else add(total, rest)[0]


def _per_example(values: jax.Array, examples: int) -> jax.Array:
    if values.shape != (examples,):
        raise ValueError(
            f"log_likelihood returned shape {values.shape} for a batch of {examples} "
            f"examples; expected ({examples},): return one value an example, neither their "
            "sum nor their mean"
        )
    return values
