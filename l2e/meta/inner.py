"""The inner loop: a population of φ, each judged by one short chain.

One program is compiled for a task signature. The data are its arguments, so tasks of one shape
share it. Both signs of a pair share initial θ, momentum and injected noise; all pairs of an outer
step share the data order, so that a batch is gathered once for a whole chunk.

Pairs are evaluated in chunks of a configured width. On an accelerator a chunk is one vectorised
program; on a CPU its chains run one after another, each within a core's cache. Chunks are spread
over all local devices (one a core on a CPU). The width alone shapes the arithmetic, so the number
of devices does not change a bit of the result.
"""

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import jax

from l2e import chain
from l2e.batches import minibatches
from l2e.meta.config import MetaConfig
from l2e.meta.losses import LOSSES
from l2e.parallel import each, over_devices
from l2e.potential import of_task
from l2e.predict import member_log_probs
from l2e.samplers import SAMPLERS
from l2e.types import Batch, Key, Params, Task


class PairKeys(NamedTuple):
    """Randomness of one antithetic pair."""

    params: Key
    chain: chain.ChainKeys


def pair_roles(pair_key: Key, data_key: Key) -> PairKeys:
    """Keys of one pair; the data order comes from a key that all pairs share."""
    params, roles = jax.random.fold_in(pair_key, 0), jax.random.fold_in(pair_key, 1)
    return PairKeys(params, chain.split_roles(roles)._replace(data=data_key))


class InnerLoop:
    """Compiled programs by task signature.

    Attributes:
        traces: how often each signature was traced; a test holds it at one for each shape of
            population.
    """

    def __init__(self, config: MetaConfig) -> None:
        self.traces: Counter[Hashable] = Counter()
        self._config = config
        self._programs: dict[Hashable, Callable[..., jax.Array]] = {}

    def losses(self, task: Task, population: Params, keys: Key, data_key: Key) -> jax.Array:
        """Meta-losses of a population.

        Args:
            task: the inference problem.
            population: φ with leading axes [N, S]: pairs, then the members that share a pair's
                randomness (S = 2 signs in meta-training).
            keys: one key a pair [N].
            data_key: the data order, common to all.

        Returns:
            Losses [N, S]; not finite where a chain diverged.
        """
        program = self.compile(task, population, keys, data_key)
        return program(population, keys, data_key, task.train, task.valid)

    def compile(
        self, task: Task, population: Params, keys: Key, data_key: Key
    ) -> Callable[..., jax.Array]:
        """The program for such arguments, compiled at their first visit. Runs nothing."""
        shapes = tuple(leaf.shape[:2] for leaf in jax.tree.leaves(population)[:1])
        name = (task.signature, shapes)
        if name not in self._programs:
            arguments = (population, keys, data_key, task.train, task.valid)
            self._programs[name] = self._program(task).lower(*arguments).compile()
        return self._programs[name]

    def _program(self, task: Task) -> Any:
        task = task._replace(train=None, valid=None, test=None)  # programs outlive their data

        def loss(members: Params, key: Key, data_key: Key, train: Batch, valid: Batch) -> jax.Array:
            """Losses [S] of the members of one pair."""
            roles = pair_roles(key, data_key)
            return each(
                lambda phi: chain_loss(self._config, task, phi, roles, train, valid), members
            )

        def losses(
            population: Params, keys: Key, data_key: Key, train: Batch, valid: Batch
        ) -> jax.Array:
            self.traces[task.signature] += 1
            width = self._config.chunk
            chunks = jax.tree.map(
                lambda leaf: leaf.reshape(-1, width, *leaf.shape[1:]), (population, keys)
            )

            def on_device(chunks: tuple[Params, Key], *shared: Any) -> jax.Array:
                def chunk(part: tuple[Params, Key]) -> jax.Array:
                    return each(lambda members, key: loss(members, key, *shared), *part)

                return jax.lax.map(chunk, chunks)

            result = over_devices(on_device, chunks, data_key, train, valid)
            return result.reshape(-1, *result.shape[2:])

        return jax.jit(losses)


def chain_loss(
    config: MetaConfig, task: Task, phi: Params, keys: PairKeys, train: Batch, valid: Batch
) -> Any:
    """Run one chain with the sampler φ and judge its model average on validation data."""
    inner = config.inner
    num_data = inner.num_data or len(train[1])
    potential = of_task(task, num_data)
    kernel = SAMPLERS["l2e"](
        potential,
        kinetic=config.kinetic.build(),
        phi=phi,
        step_size=inner.learning_rate / num_data,
        momentum_decay=inner.momentum_decay,
        temperature=inner.temperature,
        physics=inner.physics,
    )
    draws = chain.run(
        kernel,
        keys.chain,
        task.init(keys.params),
        minibatches(train, min(inner.batch_size, len(train[1]))),
        burn_in=inner.burn_in,
        draws=inner.draws,
        thin=inner.thin,
    )
    x, labels = valid
    batch_size = task.micro_batch or inner.predict_batch
    log_probs = member_log_probs(task.apply, draws, x, batch_size=batch_size)
    return LOSSES[config.meta_loss](log_probs, labels)
