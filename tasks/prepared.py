"""Image data from TensorFlow Datasets, read without TensorFlow.

A prepared directory is read record by record, in either of TFDS's file formats (``array_record``
and ``tfrecord``), and decoded by TFDS's NumPy decoder. *Preparing* a data set (download, then
encode the images) does need TensorFlow.
"""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tasks.images import DataError, ImageData, NotFoundError, image_data

Source = Callable[[str, Path | None], ImageData]
Fix = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]

MISSING = "tensorflow-datasets is not installed; pip install 'l2e[data]'"


def as_stored(images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Leave both alone."""
    return images, labels


def emnist_letters(images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Stand EMNIST's transposed images upright; count its letters from 0 instead of 1."""
    return images.swapaxes(1, 2), labels - 1


def from_directory(dataset: str, fix: Fix = as_stored) -> Source:
    """A source that reads a prepared directory inside the data folder.

    Args:
        dataset: TFDS's name, with its configuration, such as ``emnist/letters``.
        fix: (images, labels) -> the same, upright and counted from 0.

    Returns:
        (name, folder) -> data. Raises NotFoundError where nothing is prepared, DataError where what
        is prepared cannot be read.
    """

    def source(name: str, folder: Path | None) -> ImageData:
        del name
        if folder is None:
            raise NotFoundError(f"TFDS {dataset}: no folder given (--data-dir or $L2E_DATA)")
        home = folder / dataset
        versions = [info.parent for info in home.glob("*/dataset_info.json")]
        if not versions:
            raise NotFoundError(f"{home}: no prepared TFDS directory")
        return _read(max(versions, key=_version), fix)

    return source


def download(dataset: str, fix: Fix = as_stored) -> Source:
    """A source that lets TFDS download and prepare a data set, inside the data folder if given.

    Args:
        dataset: TFDS's name, with its configuration.
        fix: as for `from_directory`.

    Returns:
        (name, folder) -> data. Raises NotFoundError without TFDS, TensorFlow or network.
    """

    def source(name: str, folder: Path | None) -> ImageData:
        del name
        try:
            builder = _tfds().builder(dataset, data_dir=folder, file_format="array_record")
            builder.download_and_prepare()
        except Exception as error:  # TFDS passes on whatever network, disk and its parsers raise
            raise NotFoundError(
                f"TFDS {dataset}: not downloaded ({type(error).__name__}: {_brief(error)}); this "
                "needs a network and pip install 'l2e[data]' tensorflow"
            ) from error
        return _read(Path(builder.data_dir), fix)

    return source


def _tfds() -> Any:
    """The library, imported when first needed: it takes long and is optional."""
    try:
        import tensorflow_datasets
    except ImportError as error:
        raise DataError(f"{MISSING} ({error})") from error
    return tensorflow_datasets


def _read(directory: Path, fix: Fix) -> ImageData:
    """Read both parts of one prepared version.

    Raises:
        DataError: unreadable files, or arrays that are not what they should be.
    """
    tfds = _tfds()
    try:
        builder = tfds.builder_from_directory(directory)
        parts = [fix(*_part(builder, split)) for split in ("train", "test")]
    except DataError:
        raise
    except Exception as error:  # damaged files surface as many unrelated types
        raise DataError(
            f"{directory} cannot be read as a TFDS directory ({type(error).__name__}: "
            f"{_brief(error)}). Delete it and prepare the data set again."
        ) from error
    return image_data(*parts[0], *parts[1], where=str(directory))


def _part(builder: Any, split: str) -> tuple[np.ndarray, np.ndarray]:
    """All images ``[n, H, W, C]`` and labels ``[n]`` of one split."""
    form = builder.info.file_format.value
    if form not in _RECORDS:
        raise DataError(
            f"{builder.data_dir} is in the format {form!r}; expected one of {', '.join(_RECORDS)}. "
            "Prepare it again with one of these as file_format."
        )
    decode = builder.info.features.deserialize_example_np
    examples = [decode(record) for record in _RECORDS[form](builder, split)]
    if len(examples) != builder.info.splits[split].num_examples:
        raise DataError(
            f"{builder.data_dir} has {len(examples)} examples in {split!r}, and its own index says "
            f"{builder.info.splits[split].num_examples}. Delete it and prepare it again."
        )
    images = np.stack([example["image"] for example in examples])
    return images, np.asarray([example["label"] for example in examples], np.int64)


def _array_records(builder: Any, split: str) -> Iterator[bytes]:
    raw = _tfds().decode.DeserializeMethod.RAW_BYTES
    yield from builder.as_data_source(split=split, deserialize_method=raw)


def _tf_records(builder: Any, split: str) -> Iterator[bytes]:
    """Records of the TFRecord framing: length (8 bytes), its check (4), content, its check (4)."""
    for path in map(Path, builder.info.splits[split].filepaths):
        content = path.read_bytes()
        start = 0
        while start < len(content):
            (length,) = struct.unpack_from("<Q", content, start)
            start += 12
            if start + length + 4 > len(content):
                raise DataError(
                    f"{path} ends within a record. Delete its folder, prepare it again."
                )
            yield content[start : start + length]
            start += length + 4


_RECORDS: dict[str, Callable[[Any, str], Iterator[bytes]]] = {
    "array_record": _array_records,
    "tfrecord": _tf_records,
}


def _version(directory: Path) -> tuple[int, ...]:
    """``3.0.10`` sorts after ``3.0.9``; a folder that is no version comes first."""
    parts = directory.name.split(".")
    return tuple(map(int, parts)) if all(part.isdigit() for part in parts) else ()


def _brief(error: Exception) -> str:
    """The last line of a message: TFDS puts whole examples into the lines before."""
    lines = str(error).strip().splitlines() or ["no message"]
    return lines[-1][:200]
