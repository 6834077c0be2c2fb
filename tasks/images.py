"""Image classification data as arrays, and the checks that every source has to pass."""

import hashlib
from typing import NamedTuple

import numpy as np


class DataError(ValueError):
    """Data that is missing, unreadable or not what it should be; says what to do about it."""


class NotFoundError(DataError):
    """One source has nothing under this name; the next one is asked."""


class ImageData(NamedTuple):
    """One data set.

    Attributes:
        x_train: uint8 ``[n, height, width, channels]``.
        y_train: integers ``[n]`` from 0.
        x_test: uint8 ``[m, height, width, channels]``.
        y_test: integers ``[m]`` from 0.
        num_classes: counted in ``y_train``, never a constant.
    """

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    num_classes: int


def image_data(
    x_train: np.ndarray, y_train: np.ndarray, x_test: np.ndarray, y_test: np.ndarray, where: str
) -> ImageData:
    """Check arrays at the door and count the classes.

    Args:
        x_train: uint8 ``[n, height, width, channels]``.
        y_train: integers ``[n]``.
        x_test: uint8 ``[m, height, width, channels]``.
        y_test: integers ``[m]``.
        where: the file or source, for the error's sake.

    Returns:
        The checked data.

    Raises:
        DataError: wrong type, rank, shape, length or labels.
    """
    _check_images(x_train, "x_train", where)
    _check_images(x_test, "x_test", where)
    if x_train.shape[1:] != x_test.shape[1:]:
        raise DataError(
            f"{where}: train images are {x_train.shape[1:]}, test images {x_test.shape[1:]}; "
            "expected one shape [height, width, channels]. Resize one part."
        )
    _check_labels(y_train, len(x_train), "y_train", where)
    _check_labels(y_test, len(x_test), "y_test", where)
    num_classes = _count_classes(y_train, where)
    if y_test.max() >= num_classes:
        raise DataError(
            f"{where}: y_test holds label {y_test.max()}, but y_train has classes "
            f"0..{num_classes - 1}. Drop those test images or use a train part with every class."
        )
    return ImageData(x_train, y_train, x_test, y_test, num_classes)


def checksum(data: ImageData) -> str:
    """SHA-256 over names, types, shapes and bytes of the four arrays.

    Labels are widened to int64 first, so that a copy with another integer type counts as equal.
    """
    digest = hashlib.sha256()
    for name in ("x_train", "y_train", "x_test", "y_test"):
        array = np.ascontiguousarray(getattr(data, name))
        array = array if array.dtype == np.uint8 and array.ndim == 4 else array.astype("<i8")
        digest.update(f"{name} {array.dtype.str} {array.shape};".encode())
        digest.update(array.data)
    return digest.hexdigest()


def _check_images(images: np.ndarray, name: str, where: str) -> None:
    if images.dtype != np.uint8:
        raise DataError(
            f"{where}: {name} has type {images.dtype}; expected uint8, 0 to 255. "
            "Store the raw pixels: standardisation happens later."
        )
    if images.ndim != 4 or 0 in images.shape:
        raise DataError(
            f"{where}: {name} has shape {images.shape}; expected [n, height, width, channels], "
            "none of them empty. Add a last axis of length 1 to grey images."
        )


def _check_labels(labels: np.ndarray, count: int, name: str, where: str) -> None:
    if not np.issubdtype(labels.dtype, np.integer):
        raise DataError(
            f"{where}: {name} has type {labels.dtype}; expected integers. "
            "Store class indices, not one-hot rows or floats."
        )
    if labels.shape != (count,):
        raise DataError(
            f"{where}: {name} has shape {labels.shape}; expected [{count}], a label for each image."
        )
    if labels.min() < 0:
        raise DataError(f"{where}: {name} holds label {labels.min()}; expected labels from 0.")


def _count_classes(labels: np.ndarray, where: str) -> int:
    """The number of classes, having seen each of 0..n-1 at least once."""
    present = np.unique(labels)
    if len(present) < 2:
        raise DataError(f"{where}: y_train has {len(present)} class; expected at least 2.")
    if present[-1] != len(present) - 1:
        absent = next(label for label, seen in enumerate(present) if label != seen)
        raise DataError(
            f"{where}: y_train goes up to label {present[-1]} but never holds {absent}; expected "
            "every class from 0 on. Re-number the labels, or drop the unused ones."
        )
    return len(present)
