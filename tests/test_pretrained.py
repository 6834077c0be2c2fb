"""Samplers as files: exact round trips, and one clear error for every kind of damage."""

import json
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

import l2e
from l2e.features import FEATURE_VERSION
from l2e.pretrained import MANIFEST_FILE, WEIGHTS_FILE

MANIFEST = {
    "name": "tiny",
    "kinetic": "anchored",
    "kinetic_options": {"widths": [4], "alpha_scale": 0.2},
    "physics": "exact",
    "learning_rate": 0.02,
    "momentum_decay": 0.2,
    "training": {"seed": 3},
}


def new_phi(kinetic="anchored", **options):
    phi = l2e.KINETICS[kinetic](**options).init(jax.random.key(7))
    return jax.tree.map(lambda leaf: leaf + jnp.float32(0.1), phi)


PHI = new_phi(widths=(4,))


@pytest.fixture
def folder(tmp_path):
    l2e.export(tmp_path / "tiny", PHI, MANIFEST)
    return tmp_path / "tiny"


def edit(**changes):
    """A damage: other values in the manifest; None removes one."""

    def damage(folder):
        manifest = json.loads((folder / MANIFEST_FILE).read_text()) | changes
        manifest = {key: value for key, value in manifest.items() if value is not None}
        (folder / MANIFEST_FILE).write_text(json.dumps(manifest))

    return damage


def write(file, content):
    return lambda folder: (folder / file).write_bytes(content)


def truncate(length):
    def damage(folder):
        path = folder / WEIGHTS_FILE
        path.write_bytes(path.read_bytes()[:length])

    return damage


def exported(phi):
    """A damage: the manifest is right about a file with other arrays."""

    def damage(folder):
        with pytest.raises(l2e.SamplerFileError):
            l2e.export(folder, phi, MANIFEST)

    return damage


def empty(folder):
    for file in folder.iterdir():
        file.unlink()


FOREIGN = safetensors.numpy.save({"embedding": np.zeros((2, 2), np.float32)})
WIDER = new_phi(widths=(5,))

DAMAGES = {
    "empty folder": (empty, r"manifest.json is missing; expected a folder with"),
    "no weights": (lambda f: (f / WEIGHTS_FILE).unlink(), r"sampler.safetensors is missing"),
    "not JSON": (write(MANIFEST_FILE, b"{'name'"), r"manifest.json is not JSON"),
    "not text": (write(MANIFEST_FILE, b"\xff\xfe\x00"), r"manifest.json is not JSON"),
    "a list": (
        write(MANIFEST_FILE, b"[1, 2]"),
        r"'format' is None; expected a whole number: this is not",
    ),
    "of something else": (write(MANIFEST_FILE, b'{"name": "x"}'), r"this is not the manifest"),
    "no learning rate": (edit(learning_rate=None), r"'learning_rate' is None; expected a number"),
    "other features": (edit(feature_version=99), r"feature_version is 99; .* runs .* 1 only"),
    "other format": (edit(format=2), r"format is 2; this version of l2e runs format 1 only"),
    "unknown kinetic": (
        edit(kinetic="kelvin"),
        r"unknown kinetic energy 'kelvin'; known: anchored, gaussian, gradient",
    ),
    "unknown option": (edit(kinetic_options={"depth": 2}), r"manifest.json: .*'depth'"),
    "impossible widths": (edit(kinetic_options={"widths": 5}), r"manifest.json: .*int"),
    "unknown physics": (edit(physics="exakt"), r"unknown physics 'exakt'; known: exact, reference"),
    "truncated": (truncate(-3), r"sampler.safetensors cannot be read .*: truncated or no"),
    "cut in its header": (truncate(5), r"sampler.safetensors cannot be read"),
    "no bytes": (truncate(0), r"sampler.safetensors cannot be read"),
    "a foreign file": (write(WEIGHTS_FILE, FOREIGN), r"its checksum differs"),
    "missing tensor": (
        exported({name: leaf for name, leaf in PHI.items() if name != "b1"}),
        r"'b1' is absent; expected float32\[2\]",
    ),
    "extra tensor": (
        exported(PHI | {"w9": jnp.zeros(3)}),
        r"'w9' is float32\[3\]; expected absent",
    ),
    "other widths": (exported(WIDER), r"'b0' is float32\[5\]; expected float32\[4\]"),
    "other dtype": (
        exported(PHI | {"b0": np.zeros(4, np.int32)}),
        r"'b0' is int32\[4\]; expected float32\[4\]",
    ),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_damage_is_refused_with_its_name(folder, case):
    damage, message = DAMAGES[case]
    damage(folder)
    with pytest.raises(l2e.SamplerFileError, match=message) as caught:
        l2e.load(folder)
    assert str(folder) in str(caught.value)


def test_an_unknown_name_lists_the_bundled_samplers(monkeypatch, tmp_path):
    monkeypatch.setattr(l2e.pretrained, "bundled", lambda: {"l2e-b": tmp_path, "l2e-a": tmp_path})
    with pytest.raises(l2e.SamplerFileError, match=r"no sampler 'l2e-c'.*\(l2e-a, l2e-b\)"):
        l2e.load("l2e-c")


@pytest.mark.parametrize("kinetic", sorted(l2e.KINETICS))
def test_round_trip_is_exact(tmp_path, kinetic):
    phi = new_phi(kinetic)
    written = l2e.export(
        tmp_path / "new", phi, {**MANIFEST, "kinetic": kinetic, "kinetic_options": {}}
    )
    read = l2e.load(str(tmp_path / "new"))
    for sampler in (written, read):
        assert jax.tree.map(lambda leaf: leaf.dtype, sampler.phi) == dict.fromkeys(phi, jnp.float32)
        jax.tree.map(np.testing.assert_array_equal, sampler.phi, phi)
    assert read.name == "tiny"
    assert read.manifest["training"] == {"seed": 3}
    assert read.manifest["feature_version"] == FEATURE_VERSION
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        MANIFEST_FILE,
        WEIGHTS_FILE,
    ]


def test_exporting_again_replaces(folder):
    other = jax.tree.map(jnp.zeros_like, PHI)
    l2e.export(folder, other, MANIFEST)
    jax.tree.map(np.testing.assert_array_equal, l2e.load(folder).phi, other)


def test_build_runs_at_the_settings_it_was_trained_with(folder, nested):
    """ℓ = 0.02, a = 0.2, T = 1 and the network's own options: against the parts put together."""
    own = l2e.load(folder).build(nested.potential)
    parts = l2e.SAMPLERS["l2e"](
        nested.potential,
        kinetic=l2e.KINETICS["anchored"](widths=(4,), alpha_scale=0.2),
        phi=PHI,
        step_size=0.02 / nested.num_data,
        momentum_decay=0.2,
    )
    after = []
    for kernel in (own, parts):
        state = kernel.init(jax.random.key(0), nested.params)
        after.append(kernel.step(jax.random.key(1), state, nested.data))
    jax.tree.map(np.testing.assert_array_equal, *after)


def test_build_takes_other_settings(folder, nested):
    kernel = l2e.load(folder).build(nested.potential, step_size=1e-20, temperature=0.0)
    state = kernel.init(jax.random.key(0), nested.params)
    np.testing.assert_array_equal(state.momentum, 0.0)
    _, info = kernel.step(jax.random.key(1), state, nested.data)
    assert info.update_norm < 1e-6


def test_bundled_samplers_load():
    for name in l2e.bundled():
        assert l2e.load(name).manifest["feature_version"] == FEATURE_VERSION


BARE = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
import jax, jax.numpy as jnp, l2e
potential = l2e.minibatch(lambda m, y: -0.5 * (y - m) ** 2, lambda m: -0.5 * m**2, num_data=4)
kernel = l2e.load({folder!r}).build(potential)
batches = l2e.minibatches(jnp.arange(4.0), 2)
draws = l2e.sample(kernel, jax.random.key(0), jnp.float32(0.0), batches, burn_in=1, draws=2, thin=1)
print(draws.position.shape)
"""
ABSENT = {
    *("blackjax", "evosax", "flax", "haiku", "matplotlib", "optax", "orbax", "ray", "rich"),
    *("sklearn", "tensorboardX", "tensorflow", "tensorflow_datasets", "tyro"),
}


def test_loading_needs_jax_numpy_and_safetensors_alone(folder):
    code = BARE.format(absent=ABSENT, folder=str(folder))
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
        check=False,
    )
    assert result.stdout == "(2,)\n", result.stderr
