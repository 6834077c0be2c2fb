"""The table of data sets, and the order in which each is looked for.

To add one: a row in `DATASETS`. A data set on disk is looked for as ``<name>.npz`` in the data
folder, as a prepared TFDS directory there, then as a download; the embedded ones are always there.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from tasks import npz, prepared
from tasks.glyphs import LETTERS, SIZES, glyphs
from tasks.images import DataError, ImageData, NotFoundError, image_data

Source = Callable[[str, Path | None], ImageData]

DIGITS_TEST_EVERY = 5  # one digit in five is test: 360 of 1,797
DIGITS_SEED = 0


@dataclass(frozen=True)
class Dataset:
    """One row of the table.

    Attributes:
        about: what it is and where it comes from.
        sources: asked in order; each returns the data, or raises NotFoundError to pass.
        embedded: whether it needs neither files nor network.
    """

    about: str
    sources: tuple[Source, ...]
    embedded: bool = False


def load(name: str, data_dir: Path | None = None) -> ImageData:
    """Load and check one data set.

    Args:
        name: a key of `DATASETS`, or that of a ``<name>.npz`` in the data folder.
        data_dir: the data folder; ``$L2E_DATA`` when None.

    Returns:
        uint8 images ``[n, height, width, channels]`` and labels from 0, in two parts.

    Raises:
        DataError: unknown name, data found nowhere, or data that fails a check.
    """
    row = dataset(name)
    folder = data_folder(name, data_dir)
    reasons = []
    for source in row.sources:
        try:
            return source(name, folder)
        except NotFoundError as error:
            reasons.append(f"  - {error}")
    raise DataError(
        f"{name} ({row.about}) was found nowhere. Looked for:\n" + "\n".join(reasons) + "\n"
        f"To mend it, put {name}.npz (arrays {', '.join(npz.OWN)}; images uint8 NHWC) into a "
        "folder and name that with --data-dir or L2E_DATA."
    )


def dataset(name: str) -> Dataset:
    """The table's row, or one for a user's own file; see `load`."""
    return DATASETS.get(name, Dataset("not in the table", (own_file,)))


def own_file(name: str, folder: Path | None) -> ImageData:
    """Read a data set that the table does not list.

    Raises:
        DataError: there is no such file; lists the known names.
    """
    try:
        return npz.from_folder(name, folder)
    except NotFoundError as error:
        raise DataError(
            f"Unknown data set {name!r}; known: {', '.join(DATASETS)}. For your own, put "
            f"{name}.npz (arrays {', '.join(npz.OWN)}; images uint8 NHWC) into the data folder."
        ) from error


def data_folder(name: str, data_dir: Path | None) -> Path | None:
    """``data_dir``, else ``$L2E_DATA``, else None; None for an embedded data set.

    Raises:
        DataError: the folder named does not exist.
    """
    named = data_dir or os.environ.get("L2E_DATA")
    if dataset(name).embedded or not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise DataError(f"The data folder {folder} does not exist; mend --data-dir or L2E_DATA.")
    return folder


def digits() -> ImageData:
    """Load scikit-learn's 8×8 digits, scaled to 0..255; every class is split alike, 4 to 1."""
    from sklearn.datasets import load_digits

    flat, target = load_digits(return_X_y=True)
    images = np.rint(np.asarray(flat) * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8, 1)
    labels = np.asarray(target, np.int64)
    shuffled = np.random.default_rng(DIGITS_SEED).permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    test = np.zeros(len(labels), bool)
    test[by_class[::DIGITS_TEST_EVERY]] = True
    return ImageData(images[~test], labels[~test], images[test], labels[test], 10)


def _embedded(about: str, make: Callable[[], ImageData]) -> Dataset:
    def source(name: str, folder: Path | None) -> ImageData:
        del folder
        return image_data(*make()[:4], where=name)

    return Dataset(about, (source,), embedded=True)


def _tfds(about: str, name: str, fix: prepared.Fix = prepared.as_stored) -> Dataset:
    online = (prepared.from_directory(name, fix), prepared.download(name, fix))
    return Dataset(f"{about}; TFDS {name}", (npz.from_folder, *online))


def _npz(about: str, url: str, md5: str) -> Dataset:
    return Dataset(f"{about}; {url}", (npz.from_folder, npz.download(url, md5)))


DATASETS: dict[str, Dataset] = {
    "mnist": _tfds("handwritten digits", "mnist"),
    "fashion_mnist": _tfds("articles of clothing", "fashion_mnist"),
    "emnist": _tfds("handwritten letters", "emnist/letters", prepared.emnist_letters),
    "kmnist": _tfds("cursive Japanese characters", "kmnist"),
    "bloodmnist": _npz(
        "blood cells",
        "https://zenodo.org/records/6496656/files/bloodmnist.npz?download=1",
        "7053d0359d879ad8a5505303e11de1dc",
    ),
    "cifar10": _tfds("small photographs, 10 classes", "cifar10"),
    "cifar100": _tfds("small photographs, 100 classes", "cifar100"),
    "digits": _embedded("scikit-learn's handwritten digits", digits),
} | {
    f"glyphs-{letters}-{size}": _embedded(
        f"{letters} letters at {size} pixels, drawn from Matplotlib's fonts",
        partial(glyphs, letters, size),
    )
    for letters in LETTERS
    for size in SIZES
}
"""Every data set, by name."""
