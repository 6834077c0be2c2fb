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

import jax
import jax.numpy as jnp

from l2e.types import Batch, Params, Potential


def minibatch(
    log_likelihood: Callable[[Params, Batch], jax.Array],
    log_prior: Callable[[Params], jax.Array],
    num_data: float,
) -> Potential:
    """Build Ũ(θ) = −(n/B) Σ log p(yᵢ|xᵢ,θ) − log p(θ) and its gradient.

    Args:
        log_likelihood: (θ, batch) -> one log-likelihood an example, shape [B].
        log_prior: θ -> log p(θ), a scalar, up to a constant.
        num_data: n, the number of examples in the data set (not in the batch).

    Returns:
        A `Potential`; energies are in nats.

    Raises:
        ValueError: when n is not positive, or (at the first call) when the log-likelihood is
            not one number an example.

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

    def energy(params: Params, batch: Batch) -> jax.Array:
        per_example = log_likelihood(params, batch)
        examples = len(jax.tree.leaves(batch)[0])
        if per_example.shape != (examples,):
            raise ValueError(
                f"log_likelihood returned shape {per_example.shape} for a batch of {examples} "
                f"examples; expected ({examples},): return one value an example, neither their "
                "sum nor their mean"
            )
        return -(num_data / examples) * jnp.sum(per_example) - log_prior(params)

    return Potential(value_and_grad=jax.value_and_grad(energy), num_data=num_data)
