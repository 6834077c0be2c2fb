"""Algorithm 2: which steps become draws, what is kept, and what stops a chain."""

import sys
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import l2e
from l2e import chain

SHAPES = [(0, 1, 1), (0, 3, 4), (7, 4, 3), (5, 2, 9), (10, 3, 5)]
KEY = jax.random.key(0)


class Counting(NamedTuple):
    position: dict
    sums: jax.Array


def counting(fatal=None):
    """A fake sampler: θ counts its steps, and it diverges at step `fatal`."""

    def init(key, position):
        return Counting(position, jnp.float32(0.0))

    def step(key, state, batch):
        position = jax.tree.map(lambda leaf: leaf + 1.0, state.position)
        sums = state.sums + jnp.sum(batch)
        count = jax.tree.leaves(position)[0].ravel()[0]
        energy = sums if fatal is None else jnp.where(count >= fatal, jnp.nan, sums)
        return Counting(position, sums), l2e.Info(energy, count, jnp.float32(0.0))

    return l2e.Sampler(init, step)


def count_as_batch(key, count):
    return jnp.full((1,), count, jnp.float32)


ZEROS = {"a": jnp.zeros((2, 3)), "b": jnp.zeros(())}
BATCHES = [jnp.ones(1), jnp.ones(1), jnp.ones(1)]


def on_device(burn_in, draws, thin):
    return l2e.sample(
        counting(), KEY, ZEROS, count_as_batch, burn_in=burn_in, draws=draws, thin=thin
    )


def from_host(burn_in, draws, thin):
    batches = [jnp.full((1,), float(count)) for count in range(burn_in + draws * thin)]
    return l2e.sample(counting(), KEY, ZEROS, batches, burn_in=burn_in, draws=draws, thin=thin)


def in_one_program(burn_in, draws, thin):
    keys = chain.split_roles(KEY)
    return jax.jit(
        lambda: chain.run(
            counting(), keys, ZEROS, count_as_batch, burn_in=burn_in, draws=draws, thin=thin
        )
    )()


@pytest.mark.parametrize("runner", [on_device, from_host, in_one_program])
@pytest.mark.parametrize(("burn_in", "draws", "thin"), SHAPES)
def test_draw_k_is_the_position_after_burn_in_and_k_thin_steps(runner, burn_in, draws, thin):
    found = runner(burn_in, draws, thin)
    wanted = burn_in + thin * np.arange(1, draws + 1)
    np.testing.assert_array_equal(found.step, wanted)
    np.testing.assert_array_equal(found.position["b"], wanted)
    np.testing.assert_array_equal(
        found.position["a"], np.ones((draws, 2, 3)) * wanted[:, None, None]
    )
    # Info is that of the step which made the draw; the batches so far were 0, 1, …, count − 1.
    np.testing.assert_array_equal(found.info.gradient_norm, wanted)
    np.testing.assert_array_equal(found.info.energy, wanted * (wanted - 1) / 2)


def dimensions(jaxpr):
    """Every axis length of every array in a program, inner programs included."""
    found = set()
    for eqn in jaxpr.eqns:
        for var in (*eqn.invars, *eqn.outvars):
            found |= set(getattr(var.aval, "shape", ()))
    for inner in subprograms(jaxpr):
        found |= dimensions(inner)
    return found


def subprograms(jaxpr):
    for eqn in jaxpr.eqns:
        for value in jax.tree.leaves(
            tuple(eqn.params.values()), is_leaf=lambda v: hasattr(v, "eqns")
        ):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield inner


def test_no_array_is_as_long_as_the_path():
    """137 steps of which 77 are burn-in, and 5 draws: only the 5 is an axis of anything."""

    def program(key):
        keys = chain.split_roles(key)
        return chain.run(counting(), keys, ZEROS, count_as_batch, burn_in=77, draws=5, thin=12)

    lengths = dimensions(jax.make_jaxpr(program)(KEY).jaxpr)
    assert 5 in lengths
    assert max(lengths) < 12


def test_lengths_are_seen_inside_loops():
    """The search above finds an array that exists in a loop's body alone."""

    def program():
        return jax.lax.fori_loop(0, 3, lambda i, x: x + jnp.sum(jnp.ones(137)), 0.0)

    assert 137 in dimensions(jax.make_jaxpr(program)().jaxpr)


@pytest.mark.parametrize("row", ["sghmc", "l2e/anchored"])
def test_one_program_equals_pieces(nested, build, row):
    kernel = build(row, nested.potential, step_size=1e-4)
    source = l2e.minibatches(nested.data, 8)
    lengths = {"burn_in": 13, "draws": 4, "thin": 5}
    pieces = l2e.sample(kernel, KEY, nested.params, source, **lengths)
    whole = jax.jit(
        lambda key: chain.run(kernel, chain.split_roles(key), nested.params, source, **lengths)
    )(KEY)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), pieces, whole)


def test_host_batches_equal_the_same_on_the_device(nested, build):
    kernel = build("sghmc", nested.potential, step_size=1e-4)
    source = l2e.minibatches(nested.data, 8)
    lengths = {"burn_in": 2, "draws": 3, "thin": 2}
    keys = chain.split_roles(KEY)
    batches = [jax.tree.map(np.asarray, source(keys.data, jnp.int32(i))) for i in range(8)]
    host = l2e.sample(kernel, KEY, nested.params, iter(batches), **lengths)
    device = l2e.sample(kernel, KEY, nested.params, source, **lengths)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), host, device)


def test_chains_sharing_the_data_key_see_the_same_batches():
    """And other noise or initial keys do not change them."""
    seen = lambda key, count: jax.random.uniform(jax.random.fold_in(key, count), (1,))
    energies = []
    for other in (1, 2):
        keys = chain.split_roles(KEY)._replace(noise=jax.random.key(other))
        found = chain.run(counting(), keys, ZEROS, seen, burn_in=0, draws=2, thin=2)
        energies.append(found.info.energy)
    np.testing.assert_array_equal(*energies)


def test_a_loader_is_started_again_and_a_spent_generator_is_refused():
    lengths = {"burn_in": 0, "draws": 2, "thin": 2}
    found = l2e.sample(counting(), KEY, ZEROS, BATCHES, **lengths)
    np.testing.assert_array_equal(found.info.energy, [2.0, 4.0])
    with pytest.raises(ValueError, match=r"batches has run out: .* not a generator that is spent"):
        l2e.sample(counting(), KEY, ZEROS, iter(BATCHES), **lengths)
    with pytest.raises(ValueError, match="batches has run out"):
        l2e.sample(counting(), KEY, ZEROS, [], **lengths)


@pytest.mark.parametrize("batches", [count_as_batch, BATCHES], ids=["device", "host"])
def test_divergence_is_an_error_that_carries_the_draws_before(batches):
    with pytest.raises(
        l2e.ChainDivergedError, match="diverged before step 9: energy nan"
    ) as caught:
        l2e.sample(counting(fatal=8), KEY, ZEROS, batches, burn_in=3, draws=5, thin=2)
    np.testing.assert_array_equal(caught.value.draws.step, [5, 7])
    with pytest.raises(l2e.ChainDivergedError) as caught:
        l2e.sample(counting(fatal=1), KEY, ZEROS, batches, burn_in=3, draws=5, thin=2)
    assert caught.value.draws is None


def test_a_real_chain_that_explodes_says_so(nested, build):
    kernel = build("sgld", nested.potential, step_size=1e3)
    source = l2e.minibatches(nested.data, 8)
    with pytest.raises(l2e.ChainDivergedError, match="use a smaller step_size"):
        l2e.sample(kernel, KEY, nested.params, source, burn_in=0, draws=9, thin=9)


def interrupted_after(steps):
    for _ in range(steps):
        yield jnp.ones(1)
    raise KeyboardInterrupt


def test_interrupted_it_returns_what_it_has():
    lengths = {"burn_in": 3, "draws": 5, "thin": 2}
    with pytest.warns(UserWarning, match="interrupted: 2 of 5 draws returned"):
        found = l2e.sample(counting(), KEY, ZEROS, interrupted_after(8), **lengths)
    np.testing.assert_array_equal(found.step, [5, 7])
    with pytest.raises(KeyboardInterrupt):
        l2e.sample(counting(), KEY, ZEROS, interrupted_after(4), **lengths)


@pytest.mark.parametrize(
    ("name", "value"), [("burn_in", -1), ("draws", 0), ("thin", 0), ("thin", 1.5), ("draws", "3")]
)
def test_impossible_lengths_are_refused_by_name(name, value):
    lengths = {"burn_in": 0, "draws": 1, "thin": 1, name: value}
    with pytest.raises(ValueError, match=f"{name} is {value!r}; expected a whole number"):
        l2e.sample(counting(), KEY, ZEROS, BATCHES, **lengths)
    with pytest.raises(ValueError, match=f"{name} is {value!r}; expected a whole number"):
        chain.run(counting(), chain.split_roles(KEY), ZEROS, count_as_batch, **lengths)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"w": jnp.zeros(2), "n": jnp.zeros(2, jnp.int32)}, r"\['n'\] has dtype int32"),
        ({"w": [jnp.zeros(2, jnp.bfloat16)]}, r"\['w'\]\[0\] has dtype bfloat16"),
        ({"w": np.zeros(2)}, r"\['w'\] has dtype float64"),
        (1.0, "the parameter has dtype float"),
        ({}, "params has no arrays"),
    ],
)
def test_parameters_that_are_not_float32_are_refused_by_name(params, message):
    with pytest.raises(ValueError, match=message):
        l2e.sample(counting(), KEY, params, BATCHES, burn_in=0, draws=1, thin=1)


def test_a_progress_bar_changes_nothing_and_needs_rich(monkeypatch, capsys):
    lengths = {"burn_in": 3, "draws": 2, "thin": 2}
    plain = l2e.sample(counting(), KEY, ZEROS, BATCHES, **lengths)
    assert capsys.readouterr().out == ""
    pytest.importorskip("rich")
    shown = l2e.sample(counting(), KEY, ZEROS, BATCHES, progress=True, **lengths)
    jax.tree.map(np.testing.assert_array_equal, plain, shown)
    assert "sampling" in capsys.readouterr().out
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with pytest.raises(ModuleNotFoundError, match="progress=True needs rich: pip install rich"):
        l2e.sample(counting(), KEY, ZEROS, BATCHES, progress=True, **lengths)
