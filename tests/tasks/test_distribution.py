import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tasks import datasets
from tasks.build import bind_network
from tasks.datasets import DATASETS
from tasks.distribution import DISTRIBUTIONS, TaskDistribution, cross, named
from tasks.images import DataError, checksum
from tasks.spec import ModelSpec, TaskSpec


def log_prior(params):
    return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))


def small(specs=("digits/cnn4x1",), heldout=("glyphs-cyrillic-8/cnn4x1",), **options):
    specs, heldout = (tuple(map(TaskSpec.parse, names)) for names in (specs, heldout))
    return TaskDistribution(specs, heldout, log_prior, **options)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_every_distribution_is_consistent(name):
    family = named(name, log_prior)
    trained = {spec.model for spec in family.specs}
    assert family.heldout
    assert trained.isdisjoint(spec.model for spec in family.heldout)
    assert all(spec.dataset in DATASETS for spec in (*family.specs, *family.heldout))
    assert all(TaskSpec.parse(spec.name) == spec for spec in family.specs)


def test_paper_has_its_120_tasks():
    specs = named("paper", log_prior).specs
    assert len(set(specs)) == len({spec.name for spec in specs}) == 120
    assert {spec.dataset for spec in specs} == {"mnist", "fashion_mnist", "emnist", "bloodmnist"}
    assert {spec.model.channels for spec in specs} == {4, 8, 16}
    assert {spec.model.depth for spec in specs} == {1, 2, 3, 4, 5}
    assert {spec.model.residual for spec in specs} == {False, True}


def test_quick_needs_no_files_and_few_compilations(monkeypatch):
    monkeypatch.setenv("L2E_DATA", "absent")
    family = named("quick", log_prior)
    family.identity()
    tasks = [family.build(spec) for spec in (*family.specs, *family.heldout)]
    assert len({task.signature for task in tasks}) <= 6
    assert len({id(task.apply) for task in tasks}) == len({task.signature for task in tasks})


def test_sample_is_pure_and_uniform():
    family = small([f"digits/cnn{width}x1" for width in (4, 8, 16)])
    keys = jax.random.split(jax.random.key(0), 300)
    draws = [family.sample(key) for key in keys]
    assert draws[:20] == [family.sample(key) for key in keys[:20]]
    counts = [draws.count(spec) for spec in family.specs]
    assert sum(counts) == 300
    assert min(counts) > 70


def test_build_gives_a_task_that_computes():
    family = small()
    task = family.build(family.heldout[0])
    assert (task.name, task.num_data) == ("glyphs-cyrillic-8/cnn4x1", 4000)
    x, y = task.valid
    assert len(y) == 1000
    params = task.init(jax.random.key(0))
    assert np.isfinite(task.log_likelihood(params, (x[:5], y[:5]))).all()


def test_build_refuses_names():
    with pytest.raises(TypeError, match="'digits/cnn4x1'; expected a TaskSpec"):
        small().build("digits/cnn4x1")


def test_data_is_loaded_once_a_process(monkeypatch, mock_data, tmp_path):
    calls = []

    def source(name, folder):
        calls.append(folder)
        return mock_data()

    monkeypatch.setitem(DATASETS, "counted", datasets.Dataset("a counting source", (source,)))
    family = small(["counted/cnn4x1", "counted/cnn4x2"], data_dir=tmp_path)
    assert family.identity()["sha256"]["counted"] == checksum(mock_data())
    one, two = map(family.build, family.specs)
    family.identity()
    assert calls == [tmp_path]
    assert one.train[0] is two.train[0]


def test_identity_reports_missing_data_before_any_compute(monkeypatch, tmp_path):
    monkeypatch.setitem(DATASETS, "gone", datasets.Dataset("a set with no source", ()))
    with pytest.raises(DataError, match="gone"):
        small(["digits/cnn4x1"], ["gone/cnn4x1"], data_dir=tmp_path).identity()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"specs": ()}, "specs is empty"),
        ({"specs": ("digits/cnn4x1", "digits/cnn4x1")}, "digits/cnn4x1 twice"),
        ({"heldout": ("digits/cnn8x1",)}, "digits is in specs and in heldout"),
        ({"convolution": "fft"}, "'fft'; known: lax, unfold"),
        ({"specs": ("digits/mlp4x1",)}, "'mlp'; known: cnn"),
    ],
)
def test_construction_names_the_fault(arguments, message):
    with pytest.raises(ValueError, match=message):
        small(**arguments)


def test_unknown_name_lists_the_known():
    with pytest.raises(ValueError, match="'large'; known: quick, small, paper"):
        named("large", log_prior)


def test_identity_covers_training_and_heldout():
    identity = small().identity()
    assert list(identity["sha256"]) == ["digits", "glyphs-cyrillic-8"]
    assert all(len(value) == 64 for value in identity["sha256"].values())
    assert identity["heldout"] == [spec.name for spec in small().heldout]


def test_cross_and_networks():
    specs = cross(["digits"], (4, 8), (1, 2), (False, True))
    assert len({spec.name for spec in specs}) == 8
    same = [bind_network(ModelSpec(4), (8, 8, 1), 10, "unfold") for _ in range(2)]
    assert same[0] is same[1]
