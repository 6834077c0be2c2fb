"""Embedded image data: letters drawn from the fonts that Matplotlib bundles.

Every letter is rendered once a font at high resolution. An image is one of these masters under a
random affine map, averaged down to 8, 12 or 16 pixels, with random contrast, background and pixel
noise. Neither network nor files are needed, and the bytes depend on nothing but the versions of
NumPy and Matplotlib: one fixed seed a data set, and only exactly rounded arithmetic (no
sine, no BLAS) on the way from the random numbers to the pixels.
"""

import zlib
from functools import cache, lru_cache
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.ft2font import FT2Font, LoadFlags

from tasks.images import ImageData

LETTERS: dict[str, str] = {
    "latin-upper": "ABEGJKMRSX",
    "latin-lower": "abdgikmswx",
    "greek-upper": "ΓΔΘΛΞΠΣΦΨΩ",
    "greek-lower": "αβγδζηλξφψ",
    "cyrillic": "БДЖИЦЧШЭЮЯ",
}
"""Ten letters a set, in label order. No digits: those are held out for judging transfer."""

SIZES = (8, 12, 16)
"""Edge lengths in pixels."""

TRAIN, TEST = 5_000, 1_000
"""Images a part. A fifth of the train part is 1,000, the least that a meta-loss is judged on."""

FONTS = (
    "DejaVuSans",
    "DejaVuSans-Bold",
    "DejaVuSans-Oblique",
    "DejaVuSans-BoldOblique",
    "DejaVuSansMono",
    "DejaVuSansMono-Bold",
    "DejaVuSerif",
    "DejaVuSerif-Bold",
    "DejaVuSerif-Italic",
    "STIXGeneral",
    "STIXGeneralBol",
    "STIXGeneralItalic",
)
MASTER = 48  # edge of a master in pixels; letters fill about 32 of them
SAMPLES = 32  # about so many sample points an edge, averaged down to the image
TURN, SHEAR, STRETCH, SHIFT = 0.14, 0.24, 0.18, 0.15  # half-widths of the affine map's uniforms
NOISE = 0.014  # half-width of the pixel noise per pixel of edge, as a share of full scale


@lru_cache(maxsize=len(LETTERS) * len(SIZES))
def glyphs(letters: str, size: int) -> ImageData:
    """Draw one letter set.

    Args:
        letters: a key of `LETTERS`.
        size: edge length in pixels, one of `SIZES`.

    Returns:
        Images ``[5000 | 1000, size, size, 1]`` uint8 in ten balanced, shuffled classes. Kept for
        the next call: do not write to them.
    """
    rng = np.random.default_rng(zlib.crc32(f"{letters}-{size}".encode()))
    masters = _masters(LETTERS[letters])
    x_train, y_train = _draw(rng, masters, size, TRAIN)
    x_test, y_test = _draw(rng, masters, size, TEST)
    return ImageData(x_train, y_train, x_test, y_test, len(LETTERS[letters]))


@cache
def _masters(alphabet: str) -> np.ndarray:
    """Render every letter in every font: ``[fonts, letters, MASTER, MASTER]`` float32 in 0..1."""
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    fonts = [FT2Font(str(folder / f"{name}.ttf")) for name in FONTS]
    return np.stack([[_render(font, letter) for letter in alphabet] for font in fonts])


def _render(font: FT2Font, letter: str) -> np.ndarray:
    """Render one letter, centred by its bounding box: ``[MASTER, MASTER]`` float32 in 0..1."""
    font.set_size(0.9 * MASTER, 72)
    font.set_text(letter, 0.0, flags=LoadFlags.NO_HINTING)
    font.draw_glyphs_to_bitmap(antialiased=True)
    ink = np.asarray(font.get_image())
    rows, columns = np.flatnonzero(ink.any(1)), np.flatnonzero(ink.any(0))
    ink = ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1][:MASTER, :MASTER]
    canvas = np.zeros((MASTER, MASTER), np.float32)
    top, left = ((MASTER - edge) // 2 for edge in ink.shape)
    canvas[top : top + ink.shape[0], left : left + ink.shape[1]] = ink / np.float32(255)
    return canvas


def _draw(
    rng: np.random.Generator, masters: np.ndarray, size: int, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw ``count`` images ``[count, size, size, 1]`` and their labels ``[count]``."""
    fonts, classes = masters.shape[:2]
    labels = rng.permutation(np.arange(count) % classes)
    chosen = rng.integers(fonts, size=count)
    shade = _resample(masters[chosen, labels], _affine(rng, count), size)
    paper = rng.uniform(0.05, 0.3, (count, 1, 1))
    contrast = rng.uniform(0.35, 0.7, (count, 1, 1))
    noise = NOISE * size * rng.uniform(-1, 1, shade.shape)
    pixels = np.clip(paper + contrast * shade + noise, 0, 1)
    return np.rint(255 * pixels).astype(np.uint8)[..., None], labels


def _affine(rng: np.random.Generator, count: int) -> np.ndarray:
    """Random maps from image to master coordinates, both in -1..1: ``[count, 2, 3]``.

    The rotation is written in the tangent of the half angle, which needs no sine.
    """
    turn = TURN * rng.uniform(-1, 1, count)
    cosine, sine = (1 - turn**2) / (1 + turn**2), 2 * turn / (1 + turn**2)
    shear = SHEAR * rng.uniform(-1, 1, count)
    tall, wide = 1 + STRETCH * rng.uniform(-1, 1, (2, count))
    down, right = SHIFT * rng.uniform(-1, 1, (2, count))
    first = np.stack([tall * cosine, tall * (shear * cosine - sine), down], -1)
    second = np.stack([wide * sine, wide * (shear * sine + cosine), right], -1)
    return np.stack([first, second], 1)


def _resample(masters: np.ndarray, maps: np.ndarray, size: int) -> np.ndarray:
    """Look masters ``[n, M, M]`` up bilinearly, average to ``[n, size, size]``."""
    fold = round(SAMPLES / size)
    grid = (2 * np.arange(size * fold) + 1) / (size * fold) - 1
    rows, columns = grid[None, :, None], grid[None, None, :]
    centre = (MASTER - 1) / 2
    spots = (
        centre * (1 + 0.8 * (m[:, 0] * rows + m[:, 1] * columns + m[:, 2]))
        for m in (maps[:, axis, :, None, None] for axis in (0, 1))
    )
    down, right = (np.clip(spot, 0, MASTER - 1.001).astype(np.float32) for spot in spots)
    fine = _bilinear(masters, down, right)
    parts = (fine[:, i::fold, j::fold] for i in range(fold) for j in range(fold))
    return sum(parts, start=np.zeros((len(masters), size, size), np.float32)) / fold**2


def _bilinear(masters: np.ndarray, down: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Values of masters ``[n, M, M]`` at fractional coordinates ``[n, s, s]`` each."""
    top, left = down.astype(np.int32), right.astype(np.int32)
    below, beside = down - top, right - left
    flat = masters.reshape(-1)
    corner = np.arange(len(masters), dtype=np.int32)[:, None, None] * MASTER**2
    corner = corner + top * MASTER + left
    upper = flat[corner] * (1 - beside) + flat[corner + 1] * beside
    lower = flat[corner + MASTER] * (1 - beside) + flat[corner + MASTER + 1] * beside
    return upper * (1 - below) + lower * below
