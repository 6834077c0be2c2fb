import pickle

import pytest

from tasks.spec import ModelSpec, TaskSpec

NAMES = ["kmnist/cnn8x3r", "mnist/cnn4x1", "glyphs-latin-upper-8/cnn16x5r", "cifar10/cnn32x1"]


@pytest.mark.parametrize("name", NAMES)
def test_name_and_parse_are_inverse(name):
    spec = TaskSpec.parse(name)
    assert spec.name == name
    assert hash(spec) == hash(TaskSpec.parse(name))
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_parse_reads_every_part():
    assert TaskSpec.parse("kmnist/cnn8x3r") == TaskSpec("kmnist", ModelSpec(8, 3, residual=True))


def test_missing_depth_is_one():
    assert TaskSpec.parse("fashion_mnist/cnn32").model == ModelSpec(32, depth=1)


@pytest.mark.parametrize(
    "name", ["mnist", "mnist/8x3", "mnist/cnn", "/cnn4x1", "mnist/cnn4x1q", ""]
)
def test_parse_error_shows_value_and_form(name):
    with pytest.raises(ValueError, match="kmnist/cnn8x3r") as error:
        TaskSpec.parse(name)
    assert repr(name) in str(error.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("channels", 0),
        ("depth", 1.5),
        ("dense", -1),
        ("residual", 1),
        ("family", "CNN 2"),
        ("depth", True),
    ],
)
def test_model_spec_names_the_bad_field(field, value):
    with pytest.raises(ValueError, match=f"{field} is {value!r}"):
        ModelSpec(**{"channels": 4, field: value})


@pytest.mark.parametrize(("field", "value"), [("valid", 0), ("dataset", "a/b")])
def test_task_spec_names_the_bad_field(field, value):
    with pytest.raises(ValueError, match=f"{field} is {value!r}"):
        TaskSpec(**{"dataset": "mnist", "model": ModelSpec(4), field: value})
