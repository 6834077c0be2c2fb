"""Image data from ``<name>.npz``: this project's layout and MedMNIST's."""

import hashlib
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from tasks.images import DataError, ImageData, NotFoundError, image_data

Arrays = Mapping[str, np.ndarray]

OWN = ("x_train", "y_train", "x_test", "y_test")
MEDMNIST = tuple(
    f"{part}_{kind}" for part in ("train", "val", "test") for kind in ("images", "labels")
)


def from_folder(name: str, folder: Path | None) -> ImageData:
    """Read ``<folder>/<name>.npz``.

    Raises:
        NotFoundError: there is no such file.
        DataError: the file is damaged, or its arrays are not what they should be.
    """
    if folder is None:
        raise NotFoundError(f"{name}.npz: no folder given (--data-dir or $L2E_DATA)")
    path = folder / f"{name}.npz"
    if not path.is_file():
        raise NotFoundError(f"{path}: no such file")
    return read(path)


def read(path: Path) -> ImageData:
    """Read one file in either layout.

    Raises:
        DataError: the file is damaged, or its arrays are not what they should be.
    """
    arrays = _arrays(path)
    for keys, arrange in _LAYOUTS.items():
        if arrays.keys() >= set(keys):
            return image_data(*arrange(arrays), where=str(path))
    raise DataError(
        f"{path} holds the arrays {sorted(arrays)}; expected {', '.join(OWN)} (or MedMNIST's "
        f"{', '.join(MEDMNIST)}). Save it with numpy.savez_compressed and these names."
    )


def download(url: str, md5: str) -> Callable[[str, Path | None], ImageData]:
    """A source that fetches one npz file into the data folder and reads it.

    Args:
        url: where the file is.
        md5: its published checksum.

    Returns:
        (name, folder) -> data. Raises NotFoundError without folder or network, and for a file
        that is not the published one, which is not kept.
    """

    def source(name: str, folder: Path | None) -> ImageData:
        if folder is None:
            raise NotFoundError(f"{url}: not downloaded, for want of a folder to keep it in")
        path = folder / f"{name}.npz"
        try:
            with urllib.request.urlopen(url, timeout=30) as response:
                content = response.read()
            if hashlib.md5(content, usedforsecurity=False).hexdigest() != md5:
                raise NotFoundError(f"{url}: the download's MD5 is not the published {md5}")
            folder.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(".partial")
            partial.write_bytes(content)
            partial.replace(path)
        except OSError as error:
            raise NotFoundError(f"{url}: download failed ({error})") from error
        return read(path)

    return source


def _arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of one file; never unpickles."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
            return {key: content[key] for key in content.files}
    except (OSError, ValueError, EOFError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(
            f"{path} cannot be read as npz ({error}). The file is damaged or incomplete, or is "
            "something else: delete it and copy or download it again."
        ) from error


def _own(arrays: Arrays) -> tuple[np.ndarray, ...]:
    return tuple(arrays[key] for key in OWN)


def _medmnist(arrays: Arrays) -> tuple[np.ndarray, ...]:
    """MedMNIST's three parts as two: tasks cut their own validation part from the train part."""
    x_train = np.concatenate([arrays["train_images"], arrays["val_images"]])
    y_train = np.concatenate([arrays["train_labels"], arrays["val_labels"]])
    images = [x if x.ndim == 4 else x[..., None] for x in (x_train, arrays["test_images"])]
    labels = [y[:, 0] if y.shape[1:] == (1,) else y for y in (y_train, arrays["test_labels"])]
    return images[0], labels[0], images[1], labels[1]


_LAYOUTS: dict[tuple[str, ...], Callable[[Arrays], tuple[np.ndarray, ...]]] = {
    OWN: _own,
    MEDMNIST: _medmnist,
}
