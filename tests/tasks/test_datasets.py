import numpy as np
import pytest

from tasks import datasets, npz
from tasks.datasets import DATASETS, digits, load
from tasks.images import DataError, NotFoundError, checksum

REAL_CLASSES = {
    "mnist": 10,
    "fashion_mnist": 10,
    "emnist": 26,
    "kmnist": 10,
    "bloodmnist": 8,
    "cifar10": 10,
}


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """Never reach out: keep every source but the downloads, which are always last."""
    monkeypatch.delenv("L2E_DATA", raising=False)

    def refuse(name, folder):
        raise NotFoundError(f"{name}: no network in tests")

    for name, row in DATASETS.items():
        if not row.embedded:
            closed = datasets.Dataset(row.about, (*row.sources[:-1], refuse))
            monkeypatch.setitem(DATASETS, name, closed)


def save(folder, content, name="mnist"):
    np.savez(folder / f"{name}.npz", **content)
    return folder


def test_npz_folder(tmp_path, arrays):
    data = load("mnist", save(tmp_path, arrays))
    for key, value in arrays.items():
        np.testing.assert_array_equal(getattr(data, key), value)
    assert data.num_classes == 3


def test_folder_from_the_environment(tmp_path, arrays, monkeypatch):
    monkeypatch.setenv("L2E_DATA", str(save(tmp_path, arrays)))
    assert checksum(load("mnist")) == checksum(load("mnist", tmp_path))


def test_class_count_comes_from_the_data(tmp_path, arrays):
    arrays |= {"y_train": np.arange(60) % 20, "y_test": np.arange(20)}
    assert load("emnist", save(tmp_path, arrays, "emnist")).num_classes == 20


def medmnist_layout(arrays, channels):
    parts = {"train": slice(0, 40), "val": slice(40, 60)}
    content = {}
    for part, rows in parts.items():
        content[f"{part}_images"] = arrays["x_train"][rows]
        content[f"{part}_labels"] = arrays["y_train"][rows, None]
    content |= {"test_images": arrays["x_test"], "test_labels": arrays["y_test"][:, None]}
    return {k: v if channels or "labels" in k else v[..., 0] for k, v in content.items()}


@pytest.mark.parametrize("channels", [True, False], ids=["channel axis", "grey"])
def test_medmnist_layout(tmp_path, arrays, channels):
    data = load("bloodmnist", save(tmp_path, medmnist_layout(arrays, channels), "bloodmnist"))
    np.testing.assert_array_equal(data.x_train, arrays["x_train"])
    np.testing.assert_array_equal(data.y_test, arrays["y_test"])


BAD = {
    "float images": ({"x_train": np.zeros((60, 8, 8, 1))}, "x_train has type float64"),
    "no channel axis": ({"x_test": np.zeros((20, 8, 8), np.uint8)}, r"x_test has shape \(20, 8, 8"),
    "no images": ({"x_test": np.zeros((0, 8, 8, 1), np.uint8)}, r"x_test has shape \(0, 8"),
    "two sizes": ({"x_test": np.zeros((20, 9, 9, 1), np.uint8)}, r"\(8, 8, 1\), test images \(9"),
    "float labels": ({"y_train": np.zeros(60)}, "y_train has type float64"),
    "too few labels": ({"y_train": np.arange(59) % 3}, r"y_train has shape \(59,\)"),
    "negative label": ({"y_test": np.arange(20) - 1}, "y_test holds label -1"),
    "absent class": ({"y_train": np.arange(60) % 3 * 2}, r"never holds 1"),
    "one class": ({"y_train": np.zeros(60, int)}, "has 1 class"),
    "unseen class": ({"y_test": np.arange(20) % 4}, "y_test holds label 3"),
    "huge label": ({"y_train": np.where(np.arange(60) == 7, 10**12, 0)}, "never holds"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_arrays_are_refused_with_file_and_reason(tmp_path, arrays, case):
    change, message = BAD[case]
    with pytest.raises(DataError, match=message) as error:
        load("mnist", save(tmp_path, arrays | change))
    assert "mnist.npz" in str(error.value)


def test_missing_array_lists_the_expected(tmp_path, arrays):
    del arrays["y_test"]
    with pytest.raises(DataError, match="expected x_train, y_train, x_test, y_test"):
        load("mnist", save(tmp_path, arrays))


def truncate(path):
    path.write_bytes(path.read_bytes()[:-200])


def flip(path):
    content = bytearray(path.read_bytes())
    content[300:340] = bytes(40)
    path.write_bytes(content)


def other(path):
    path.write_text("<html>not found</html>")


def empty(path):
    path.write_bytes(b"")


def plain_array(path):
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


def pickled(path):
    np.savez(path, x_train=np.asarray([None], dtype=object))


@pytest.mark.parametrize("damage", [truncate, flip, other, empty, plain_array, pickled])
def test_damaged_files_are_named(tmp_path, arrays, damage):
    damage(save(tmp_path, arrays) / "mnist.npz")
    with pytest.raises(DataError, match=r"mnist\.npz cannot be read as npz"):
        load("mnist", tmp_path)


def test_missing_data_says_what_was_looked_for_and_what_to_do(tmp_path):
    with pytest.raises(DataError) as error:
        load("kmnist", tmp_path)
    for part in (str(tmp_path / "kmnist.npz"), "TFDS", "no network", "--data-dir", "uint8 NHWC"):
        assert part in str(error.value)


def test_missing_folder_is_named(tmp_path):
    with pytest.raises(DataError, match="absent does not exist"):
        load("mnist", tmp_path / "absent")
    with pytest.raises(DataError, match="no folder given"):
        load("mnist")


def test_unknown_name_lists_the_known():
    with pytest.raises(DataError, match=r"'svhn'; known: mnist, fashion_mnist, .*digits"):
        load("svhn")


def test_failed_npz_download_keeps_nothing(tmp_path, arrays):
    served = save(tmp_path, arrays, "served") / "served.npz"
    good, bad = served.as_uri(), (tmp_path / "absent.npz").as_uri()
    with pytest.raises(NotFoundError, match="download failed"):
        npz.download(bad, "0" * 32)("bloodmnist", tmp_path)
    with pytest.raises(NotFoundError, match="not the published"):
        npz.download(good, "0" * 32)("bloodmnist", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["served.npz"]


def test_npz_download_is_kept(tmp_path, arrays):
    import hashlib

    served = save(tmp_path, arrays, "served") / "served.npz"
    md5 = hashlib.md5(served.read_bytes()).hexdigest()
    data = npz.download(served.as_uri(), md5)("bloodmnist", tmp_path)
    assert checksum(data) == checksum(load("bloodmnist", tmp_path))


def test_embedded_sets_ignore_the_folder(tmp_path):
    data = load("digits", tmp_path / "absent")
    assert (data.x_train.shape, data.x_test.shape) == ((1437, 8, 8, 1), (360, 8, 8, 1))
    assert (data.num_classes, data.x_train.max()) == (10, 255)


def test_digits_split_is_stratified_and_fixed():
    data = digits()
    assert checksum(data) == checksum(digits())
    shares = np.bincount(data.y_test) / np.bincount(np.concatenate([data.y_train, data.y_test]))
    assert np.abs(shares - 0.2).max() < 0.01


def test_checksum_sees_pixels_and_labels_but_not_label_types(arrays, mock_data):
    data = mock_data()
    assert checksum(data._replace(y_test=data.y_test.astype(np.uint8))) == checksum(data)
    assert checksum(data._replace(y_test=data.y_test[::-1])) != checksum(data)
    assert checksum(data._replace(x_test=data.x_test[::-1])) != checksum(data)


@pytest.mark.parametrize("name", REAL_CLASSES)
def test_real_data(name, folder_with):
    assert load(name, folder_with(name)).num_classes == REAL_CLASSES[name]
