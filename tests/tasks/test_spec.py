import pickle

import pytest

from tasks.spec import ModelSpec, TaskSpec

NAMES = [
    "kmnist/cnn8x3r",
    "mnist/cnn4x1",
    "glyphs-latin-upper-8/cnn16x5r",
    "cifar10/cnn32x1",
    "cifar10/resnet20",
    "cifar10/resnet56",
    "digits/resnet8w4",
    "digits/mlp4x1",
]


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


def test_resnet_names_have_the_depth_first_and_a_width_unless_it_is_16():
    model = TaskSpec.parse("cifar10/resnet20").model
    assert model == ModelSpec(channels=16, depth=20, family="resnet")
    assert TaskSpec.parse("cifar10/resnet20w16").name == "cifar10/resnet20"
    assert TaskSpec.parse("cifar10/resnet20w8").model == ModelSpec(8, 20, family="resnet")


WRONG = ["mnist", "mnist/8x3", "mnist/cnn", "/cnn4x1", "mnist/cnn4x1q", ""]
WRONG_RESNETS = ["resnet", "resnet20x3", "resnet20r", "resnet20w", "resnet20w8r"]


@pytest.mark.parametrize("name", WRONG + [f"cifar10/{model}" for model in WRONG_RESNETS])
def test_parse_error_shows_value_and_form(name):
    with pytest.raises(ValueError, match=r"kmnist/cnn8x3r.*cifar10/resnet20") as error:
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
