import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tasks.glyphs import LETTERS, SIZES, TEST, TRAIN, glyphs
from tasks.images import checksum, image_data

CHECKOUT = Path(__file__).parents[2]


def nearest_centroid(data):
    x, z = (a.reshape(len(a), -1).astype(np.float64) for a in (data.x_train, data.x_test))
    centroids = np.stack([x[data.y_train == label].mean(0) for label in range(data.num_classes)])
    distances = (centroids**2).sum(1) - 2 * z @ centroids.T
    return np.mean(distances.argmin(1) == data.y_test)


@pytest.mark.parametrize("letters", LETTERS)
def test_set_is_well_formed_and_balanced(letters):
    data = glyphs(letters, 8)
    assert data.x_train.shape == (TRAIN, 8, 8, 1)
    assert data.x_test.shape == (TEST, 8, 8, 1)
    assert image_data(*data[:4], where=letters).num_classes == 10
    assert np.ptp(np.bincount(data.y_train)) == 0


@pytest.mark.parametrize("size", SIZES)
def test_letters_are_legible_but_not_trivial(size):
    accuracy = nearest_centroid(glyphs("cyrillic", size))
    assert 0.55 < accuracy < 0.95


def test_logistic_regression_finds_it_about_as_hard_as_digits():
    from sklearn.linear_model import LogisticRegression

    data = glyphs("latin-lower", 8)
    x, z = (a.reshape(len(a), -1) / 64 - 2 for a in (data.x_train[:2000], data.x_test))
    model = LogisticRegression(C=0.02, tol=1e-2).fit(x, data.y_train[:2000])
    assert 0.75 < model.score(z, data.y_test) < 0.93


def test_another_process_draws_the_same_bytes():
    code = (
        "from tasks.glyphs import glyphs; from tasks.images import checksum;"
        "print(checksum(glyphs('greek-upper', 8)))"
    )
    here = checksum(glyphs("greek-upper", 8))
    there = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    assert there.stdout.strip() == here


def test_sets_and_parts_differ():
    sets = [glyphs(letters, 8) for letters in LETTERS]
    images = np.concatenate([x for data in sets for x in (data.x_train, data.x_test)])
    assert len({hashlib.sha256(image).digest() for image in images}) == len(images)


def test_no_letter_set_holds_digits_or_doubles():
    for letters in LETTERS.values():
        assert letters.isalpha()
        assert len(set(letters)) == len(letters) == 10
