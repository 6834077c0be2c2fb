"""Small mock data for the tests of `tasks`."""

import numpy as np
import pytest

from tasks.images import ImageData


def noise_images(
    seed: int = 0, size: int = 8, channels: int = 1, classes: int = 3, train: int = 60
) -> ImageData:
    """Noise images with every class present."""
    rng = np.random.default_rng(seed)
    shape = (size, size, channels)
    return ImageData(
        rng.integers(0, 256, (train, *shape), dtype=np.uint8),
        np.arange(train) % classes,
        rng.integers(0, 256, (20, *shape), dtype=np.uint8),
        np.arange(20) % classes,
        classes,
    )


@pytest.fixture
def mock_data():
    return noise_images


@pytest.fixture
def arrays():
    """The four arrays by name, as an npz file holds them."""
    data = noise_images()._asdict()
    del data["num_classes"]
    return data
