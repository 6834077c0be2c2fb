"""TFDS directories, prepared here without TensorFlow: images go in as encoded PNG files."""

import io
import struct
import sys

import numpy as np
import pytest

from tasks import prepared
from tasks.datasets import load
from tasks.images import DataError, NotFoundError

tfds = pytest.importorskip("tensorflow_datasets", reason="needs the extra: l2e[data]")


def png(image):
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(image[..., 0]).save(file, "png")
    file.seek(0)
    return file


def prepare(folder, dataset, data, shift=0, version="3.0.1"):
    """Write a TFDS directory in the array_record format, through TFDS's own builder."""
    dataset, _, config = dataset.partition("/")
    parts = {"train": (data.x_train, data.y_train), "test": (data.x_test, data.y_test)}
    image = tfds.features.Image(shape=data.x_train.shape[1:])
    label = tfds.features.ClassLabel(num_classes=data.num_classes + shift)

    with tfds.core.registered.skip_registration():

        class Builder(tfds.core.GeneratorBasedBuilder):
            VERSION = tfds.core.Version(version)
            BUILDER_CONFIGS = [tfds.core.BuilderConfig(name=config)] if config else []
            name = dataset

            def _info(self):
                features = tfds.features.FeaturesDict({"image": image, "label": label})
                return tfds.core.DatasetInfo(builder=self, features=features)

            def _split_generators(self, manager):
                return {split: self._generate_examples(*part) for split, part in parts.items()}

            def _generate_examples(self, images, labels):
                for row, (x, y) in enumerate(zip(images, labels, strict=True)):
                    yield row, {"image": png(x), "label": int(y) + shift}

    Builder(data_dir=folder, file_format="array_record").download_and_prepare()
    return folder / dataset / config / version


def as_tfrecord(directory):
    """Rewrite a prepared directory in TFDS's default format; checks of records stay zero."""
    builder = tfds.builder_from_directory(directory)
    raw = tfds.decode.DeserializeMethod.RAW_BYTES
    for split, info in builder.info.splits.items():
        records = list(builder.as_data_source(split=split, deserialize_method=raw))
        framed = (struct.pack("<QI", len(r), 0) + r + struct.pack("<I", 0) for r in records)
        (old,) = info.filepaths
        (directory / old.name.replace("array_record", "tfrecord")).write_bytes(b"".join(framed))
        (directory / old.name).unlink()
    info = directory / "dataset_info.json"
    info.write_text(info.read_text().replace("array_record", "tfrecord"))


def rows(images, labels):
    """Images and labels as a set of rows: TFDS shuffles when it writes."""
    return sorted((*x.ravel().tolist(), int(y)) for x, y in zip(images, labels, strict=True))


def same(one, other):
    assert rows(one.x_train, one.y_train) == rows(other.x_train, other.y_train)
    assert rows(one.x_test, one.y_test) == rows(other.x_test, other.y_test)
    assert one.num_classes == other.num_classes


@pytest.mark.parametrize("convert", [None, as_tfrecord], ids=["array_record", "tfrecord"])
def test_prepared_directory_without_tensorflow(tmp_path, mock_data, convert):
    directory = prepare(tmp_path, "mnist", mock_data())
    if convert:
        convert(directory)
    same(load("mnist", tmp_path), mock_data())
    assert "tensorflow" not in sys.modules


def test_emnist_is_turned_upright_and_counted_from_zero(tmp_path, mock_data):
    data = mock_data()
    stored = data._replace(x_train=data.x_train.swapaxes(1, 2), x_test=data.x_test.swapaxes(1, 2))
    prepare(tmp_path, "emnist/letters", stored, shift=1)
    same(load("emnist", tmp_path), data)


def test_newest_version_wins(tmp_path, mock_data):
    prepare(tmp_path, "mnist", mock_data(seed=1), version="3.0.9")
    prepare(tmp_path, "mnist", mock_data(seed=2), version="3.0.10")
    same(load("mnist", tmp_path), mock_data(seed=2))


def test_npz_comes_before_tfds(tmp_path, mock_data, arrays):
    prepare(tmp_path, "mnist", mock_data(seed=1))
    np.savez(tmp_path / "mnist.npz", **arrays)
    same(load("mnist", tmp_path), mock_data())


def cut(directory, share):
    (path,) = directory.glob("*-train.*")
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])


def no_info(directory):
    (directory / "dataset_info.json").write_text("{")


@pytest.mark.parametrize(
    "damage",
    [no_info, lambda d: cut(d, 0.5), lambda d: (as_tfrecord(d), cut(d, 0.97))],
    ids=["info", "array_record", "tfrecord"],
)
def test_damaged_directory_is_named(tmp_path, mock_data, damage):
    directory = prepare(tmp_path, "mnist", mock_data())
    damage(directory)
    with pytest.raises(DataError, match="epare") as error:
        load("mnist", tmp_path)
    assert str(directory) in str(error.value)


def test_fewer_examples_than_the_index_says(tmp_path, mock_data):
    directory = prepare(tmp_path, "mnist", mock_data())
    as_tfrecord(directory)
    (path,) = directory.glob("*-test.*")
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    path.write_bytes(content[16 + length :])
    with pytest.raises(DataError, match=r"has 19 examples in 'test'.* 20"):
        load("mnist", tmp_path)


def test_without_the_library_a_prepared_directory_names_the_extra(tmp_path, mock_data, monkeypatch):
    prepare(tmp_path, "mnist", mock_data())
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(DataError, match=r"pip install 'l2e\[data\]'"):
        load("mnist", tmp_path)


def test_any_failed_download_is_one_reason(tmp_path, monkeypatch):
    def fail(self):
        raise ConnectionError("first line\nno route to host")

    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", fail)
    with pytest.raises(NotFoundError, match=r"ConnectionError: no route to host.*tensorflow"):
        prepared.download("mnist")("mnist", tmp_path)


def test_download_reads_what_it_prepared(tmp_path, mock_data):
    """TFDS's own MNIST builder finds the directory prepared, as after a download."""
    prepare(tmp_path, "mnist", mock_data())
    same(prepared.download("mnist")("mnist", tmp_path), mock_data())
