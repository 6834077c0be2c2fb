import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tasks.build import bind_network, build, split
from tasks.images import DataError
from tasks.spec import ModelSpec, TaskSpec
from tasks.tuning import micro_batch

SPEC = TaskSpec("mock", ModelSpec(4), valid=10)


def log_prior(params):
    return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))


@pytest.mark.parametrize(("count", "valid", "expected"), [(60, 10, 10), (60, 1000, 12)])
def test_split_sizes(mock_data, count, valid, expected):
    parts = split(mock_data(train=count), valid)
    assert [len(part[1]) for part in parts[:3]] == [count - expected, expected, 20]


def test_split_is_disjoint_complete_and_fixed(mock_data):
    data = mock_data(train=300)
    parts, again = split(data, 50), split(data, 50)
    x = np.concatenate([parts.train[0], parts.valid[0]])
    assert len(np.unique(x.reshape(300, -1), axis=0)) == 300
    np.testing.assert_array_equal(parts.valid[0], again.valid[0])


def test_labels_stay_with_their_images(mock_data):
    data = mock_data()
    data.x_train[:, 0, 0, 0] = 80 * data.y_train
    parts = split(data, 10)
    for x, y in (parts.train, parts.valid):
        np.testing.assert_array_equal(np.unique(x[:, 0, 0, 0], return_inverse=True)[1], y)


def test_train_part_is_standardised_per_channel(mock_data):
    data = mock_data(channels=3)
    data = data._replace(x_train=data.x_train // np.asarray([1, 2, 4], np.uint8))
    x, y = split(data, 10).train
    assert (x.dtype, y.dtype) == (jnp.float32, jnp.int32)
    np.testing.assert_allclose(np.mean(x, (0, 1, 2)), 0, atol=1e-5)
    np.testing.assert_allclose(np.std(x, (0, 1, 2)), 1, atol=1e-5)


def test_test_part_uses_the_train_parts_scale(mock_data):
    data = mock_data()
    parts = split(data._replace(x_test=data.x_train[:20] // 2), 10)
    assert parts.test[0].mean() < -0.5


def test_likelihood_is_categorical(mock_data):
    task = build(SPEC, mock_data(), log_prior)
    params = jax.jit(task.init)(jax.random.key(0))
    x, y = task.test
    probabilities = jax.nn.softmax(task.apply(params, x))
    expected = np.log(np.asarray(probabilities)[np.arange(len(y)), y])
    np.testing.assert_allclose(task.log_likelihood(params, (x, y)), expected, rtol=1e-5)
    assert task.log_prior(params).shape == ()
    assert (task.name, task.num_data) == ("mock/cnn4x1", 50)


def test_equal_signatures_share_functions_whatever_the_data(mock_data):
    one, other = (build(SPEC, mock_data(seed), log_prior) for seed in (0, 1))
    assert one.signature == other.signature
    assert hash(one.signature) == hash(other.signature)
    assert one.apply is other.apply
    assert one.log_likelihood is other.log_likelihood
    assert not np.array_equal(one.train[0], other.train[0])


@pytest.mark.parametrize(
    "change", [{"size": 9}, {"channels": 3}, {"classes": 4}, {"train": 70}], ids=str
)
def test_other_shapes_have_other_signatures(mock_data, change):
    one, other = build(SPEC, mock_data(), log_prior), build(SPEC, mock_data(**change), log_prior)
    assert one.signature != other.signature


def test_no_data_in_the_functions(mock_data):
    task = build(SPEC, mock_data(), log_prior)
    params, batch = jax.jit(task.init)(jax.random.key(0)), task.train
    jaxpr = jax.make_jaxpr(task.log_likelihood)(params, batch)
    assert sum(np.size(const) for const in jaxpr.consts) == 0


def test_wrong_images_are_refused(mock_data):
    task = build(SPEC, mock_data(), log_prior)
    with pytest.raises(ValueError, match=r"\(2, 9, 9, 1\).*\(8, 8, 1\)"):
        task.apply(jax.eval_shape(task.init, jax.random.key(0)), jnp.zeros((2, 9, 9, 1)))


def test_network_that_does_not_fit_fails_when_bound():
    with pytest.raises(ValueError, match="1×1 pixels"):
        bind_network(ModelSpec(4, depth=2), (1, 1, 1), 10, "unfold")
    with pytest.raises(ValueError, match="2 channels cannot carry"):
        bind_network(ModelSpec(2, residual=True), (8, 8, 3), 10, "unfold")


def test_data_without_variation_or_size_is_refused(mock_data):
    data = mock_data()
    with pytest.raises(DataError, match="Channel 0 is 7"):
        split(data._replace(x_train=np.full_like(data.x_train, 7)), 10)
    with pytest.raises(DataError, match="9 training images"):
        split(mock_data(train=9), 3)


@pytest.mark.parametrize(("channels", "edge", "images"), [(4, 8, 32), (4, 28, 16), (64, 28, 16)])
def test_micro_batches_are_whole_vectors_and_divide_a_batch(channels, edge, images):
    assert micro_batch(ModelSpec(channels), (edge, edge, 1)) == images
    assert 128 % images == 0
