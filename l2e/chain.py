"""Running a chain: burn-in, then K thinned draws (Algorithm 2 of Kim et al., 2024).

Draw k is the position after burn_in + k·thin steps, k = 1…K. Only the draws are kept. Step t uses
the keys fold_in(role key, t), so a chain is the same whether it runs as one program (`run`) or in
pieces with a progress bar (`sample`).
"""

import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from l2e.batches import BatchSource, Minibatches
from l2e.progress import track
from l2e.types import Batch, Info, Key, Params, Sampler


class Draws(NamedTuple):
    """K draws of a chain.

    Attributes:
        position: θ₁…θ_K; every leaf has a leading axis K.
        info: `Info` of the step that produced each draw; leaves [K].
        step: number of steps taken at each draw, int32 [K].
    """

    position: Params
    info: Info
    step: jax.Array


class ChainDivergedError(FloatingPointError):
    """A chain's energy or update is not finite. `draws` holds the draws made before, or None."""

    def __init__(self, count: int, info: Info, draws: Draws | None) -> None:
        self.draws = draws
        super().__init__(
            f"the chain diverged before step {count}: energy {info.energy}, update norm "
            f"{info.update_norm}; use a smaller step_size, or look for non-finite values in the "
            "data (the draws made before are in this error's .draws)"
        )


class ChainKeys(NamedTuple):
    """One key for each role of randomness in a chain."""

    init: Key
    data: Key
    noise: Key


def split_roles(key: Key) -> ChainKeys:
    """Independent keys for the sampler's initial state, the data order and the injected noise."""
    return ChainKeys(*(jax.random.fold_in(key, role) for role in range(3)))


def run(
    kernel: Sampler,
    keys: ChainKeys,
    params: Params,
    source: BatchSource,
    *,
    burn_in: int,
    draws: int,
    thin: int,
) -> Draws:
    """A whole chain as one pure function, for jit and vmap.

    Args:
        kernel: the sampler.
        keys: from `split_roles`; chains that share `keys.data` see the same batches.
        params: θ₀.
        source: (data key, step count) -> batch.
        burn_in: steps before the first draw's own `thin` steps; may be 0.
        draws: K.
        thin: steps from one draw to the next.

    Returns:
        `Draws`, with memory proportional to K and not to the number of steps.
    """
    check_lengths(burn_in, draws, thin)

    def advance(count: jax.Array, carry: tuple[Any, Draws]) -> tuple[Any, Draws]:
        state, collected = carry
        batch = source(keys.data, count)
        state, info = kernel.step(jax.random.fold_in(keys.noise, count), state, batch)
        # Every step writes into the slot of its coming draw, whose last writer is the draw
        # itself: one loop, compiled once, without a branch.
        slot = jnp.maximum(count - burn_in, 0) // thin
        new = Draws(state.position, info, count + 1)
        return state, jax.tree.map(lambda all_, leaf: all_.at[slot].set(leaf), collected, new)

    zero = jnp.zeros((), jnp.float32)
    empty = Draws(params, Info(zero, zero, zero), jnp.zeros((), jnp.int32))
    empty = jax.tree.map(lambda leaf: jnp.zeros((draws, *leaf.shape), leaf.dtype), empty)
    start = (kernel.init(keys.init, params), empty)
    last = jnp.int32(burn_in + draws * thin)
    _, collected = jax.lax.fori_loop(jnp.int32(0), last, advance, start)
    return collected


def sample(
    kernel: Sampler,
    key: Key,
    params: Params,
    batches: BatchSource | Iterable[Batch],
    *,
    burn_in: int,
    draws: int,
    thin: int,
    progress: bool = False,
) -> Draws:
    """Run one chain and return its draws.

    Args:
        kernel: the sampler, from `SAMPLERS[name](potential, …)` or `l2e.load(name).build(…)`.
        key: all randomness of the chain.
        params: θ₀, a pytree of float32 arrays.
        batches: `l2e.minibatches(data, batch_size)`, which stays on the device, or any iterable
            of batches (a data loader), which is started again when it ends.
        burn_in: steps before the first draw's own `thin` steps; may be 0.
        draws: K.
        thin: steps from one draw to the next.
        progress: show a progress bar (needs `rich`).

    Returns:
        `Draws`; pass it to `l2e.predict`.

    Raises:
        ValueError: for impossible lengths, parameters that are not float32, or an iterable
            without batches.
        ChainDivergedError: when energy or update stop being finite; it carries the earlier draws.

    Interrupted with Ctrl-C after its first draw, it warns and returns the draws it has.
    """
    check_lengths(burn_in, draws, thin)
    check_params(params)
    keys = split_roles(key)
    segments = (
        _on_device(kernel, keys, batches)
        if callable(batches)
        else _from_host(kernel, keys, batches)
    )
    # Segments reuse the memory of the state that they are given, which may be the caller's params.
    state, count = _copy(kernel.init(keys.init, params)), 0
    collected: list[Draws] = []
    try:
        for length, is_draw in track(_plan(burn_in, draws, thin), show=progress):
            state, info = segments(state, count, length)
            count += length
            if not bool(jnp.isfinite(info.energy) & jnp.isfinite(info.update_norm)):
                raise ChainDivergedError(count, info, _stack(collected))
            if is_draw:
                collected.append(Draws(_copy(state.position), info, jnp.int32(count)))
    except KeyboardInterrupt:
        if not collected:
            raise
        warnings.warn(f"interrupted: {len(collected)} of {draws} draws returned", stacklevel=2)
    return _stack(collected)


def check_lengths(burn_in: int, draws: int, thin: int) -> None:
    """Raise ValueError unless burn_in ≥ 0, draws ≥ 1 and thin ≥ 1."""
    for name, value, least in (("burn_in", burn_in, 0), ("draws", draws, 1), ("thin", thin, 1)):
        if not isinstance(value, Integral) or value < least:
            raise ValueError(f"{name} is {value!r}; expected a whole number of at least {least}")


def check_params(params: Params) -> None:
    """Raise ValueError unless every leaf is a float32 array."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        dtype = getattr(leaf, "dtype", type(leaf).__name__)
        if dtype != jnp.float32:
            name = jax.tree_util.keystr(path) or "the parameter"
            raise ValueError(
                f"{name} has dtype {dtype}; expected float32: pass only trainable parameters, "
                "converted with jax.tree.map(lambda a: a.astype('float32'), params)"
            )
    if not jax.tree.leaves(params):
        raise ValueError("params has no arrays; expected a pytree of float32 arrays")


def _copy(tree: Any) -> Any:
    return jax.tree.map(jnp.copy, tree)


def _plan(burn_in: int, draws: int, thin: int) -> list[tuple[int, bool]]:
    """(steps, ends in a draw) for every segment; burn-in is cut into pieces of about `thin`."""
    pieces = [(min(thin, burn_in - done), False) for done in range(0, burn_in, thin)]
    return pieces + [(thin, True)] * draws


def _stack(collected: list[Draws]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *collected) if collected else None


def _on_device(kernel: Sampler, keys: ChainKeys, source: BatchSource) -> Any:
    """(state, first count, length) -> (state, info): one compiled loop of dynamic length."""
    source = source if isinstance(source, Minibatches) else Partial(source)

    def segment(state: Any, first: int, length: int) -> tuple[Any, Info]:
        return _segment(kernel.step, state, source, keys, jnp.int32(first), jnp.int32(length))

    return segment


@partial(jax.jit, static_argnums=0, donate_argnums=1)
def _segment(
    step: Callable[..., tuple[Any, Info]],
    state: Any,
    source: BatchSource,
    keys: ChainKeys,
    first: jax.Array,
    length: jax.Array,
) -> tuple[Any, Info]:
    """Compiled once a kernel and shape of data, which are arguments."""

    def body(offset: jax.Array, carry: tuple[Any, Info]) -> tuple[Any, Info]:
        count = first + offset
        batch = source(keys.data, count)
        return step(jax.random.fold_in(keys.noise, count), carry[0], batch)

    zero = jnp.zeros((), jnp.float32)
    return jax.lax.fori_loop(jnp.int32(0), length, body, (state, Info(zero, zero, zero)))


def _from_host(kernel: Sampler, keys: ChainKeys, batches: Iterable[Batch]) -> Any:
    """The same, one compiled step at a time, on batches that arrive from the host."""
    stream = _endless(batches)
    step = jax.jit(kernel.step, donate_argnums=1)

    def segment(state: Any, first: int, length: int) -> tuple[Any, Info]:
        info = None
        for count in range(first, first + length):
            state, info = step(jax.random.fold_in(keys.noise, count), state, next(stream))
        assert info is not None
        return state, info

    return segment


def _endless(batches: Iterable[Batch]) -> Iterator[Batch]:
    while True:
        empty = True
        for batch in batches:
            empty = False
            yield jax.tree.map(jnp.asarray, batch)
        if empty:
            raise ValueError(
                "batches has run out: expected an iterable that yields batches and can be started "
                "again, such as a list or a data loader, not a generator that is spent"
            )
