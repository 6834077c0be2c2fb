"""TFDS directories, prepared here without TensorFlow: images go in as encoded PNG files."""

import io
import json
import struct
import sys

import numpy as np
import pytest

from tasks import prepared
from tasks.datasets import load
from tasks.images import DataError, NotFoundError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

tfds = pytest.importorskip("tensorflow_datasets", reason="needs the extra: l2e[data]")


def png(image):
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(image[..., 0]).save(file, "png")
    file.seek(0)
    return file


def features(classes):
    image = tfds.features.Image(shape=(8, 8, 1))
    label = tfds.features.ClassLabel(num_classes=classes)
    return tfds.features.FeaturesDict({"image": image, "label": label})


def prepare(folder, dataset, data, shift=0, version="3.0.1"):
    """Write a TFDS directory in the array_record format."""
    parts = {"train": (data.x_train, data.y_train), "test": (data.x_test, data.y_test)}
    name, *config = dataset.split("/")
    builder = tfds.dataset_builders.store_as_tfds_dataset
    del builder
    info_parts = {
        split: [{"image": png(x), "label": int(y) + shift} for x, y in zip(*part, strict=True)]
        for split, part in parts.items()
    }
    return info_parts, name, config, version
