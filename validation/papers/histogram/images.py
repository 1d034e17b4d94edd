"""The images of the case study: the paper's two, solid colours that meet on fewer banks, drawn photographs,
and files.

An image is bytes of shape ``(pixels, 4)``: R, G, B, A. The drawn ones are nearly square at any size, so that
the same picture comes in all sizes. They are opaque (A = 255), as photographs are; the paper's *uniform*
images are random in all channels.
"""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng
from numpy.typing import NDArray

from smlab.hw_bench.arrays import load_array
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import read_bytes
from smlab.sim.workloads.histogram import BINS, GREY, MAX_PIXELS, solid_image, uniform_image
from smlab.sim.workloads.histogram_code import CHANNELS

Bytes = NDArray[np.uint8]
_MAX_PNG_BYTES: Final = 2**28
Floats = NDArray[np.float64]

OPAQUE_GREY = (128, 128, 128, 255)
"""Three channels on one bank, alpha on another."""
TWO_AND_TWO = (128, 128, 255, 255)
"""Two channels on one bank, two on another."""
COLOURED = (200, 120, 37, 255)
"""Four channels on four banks: 8, 24, 5 and 31."""


def _square(pixels: int) -> tuple[int, int]:
    """Rows and columns of a picture of at least so many pixels, nearly square."""
    columns = max(1, round(math.sqrt(pixels)))
    return -(-pixels // columns), columns


def _places(pixels: int) -> tuple[Floats, Floats]:
    """Where each pixel lies in the unit square: (down, across), each ``(pixels,)``."""
    rows, columns = _square(pixels)
    place = np.arange(pixels)
    return (place // columns) / rows, (place % columns) / columns


def _opaque(red: Floats, green: Floats, blue: Floats) -> Bytes:
    image = np.empty((len(red), CHANNELS), dtype=np.uint8)
    for channel, values in enumerate((red, green, blue)):
        image[:, channel] = np.clip(np.rint(values), 0, BINS - 1)
    image[:, 3] = BINS - 1
    return image


def _gradient(pixels: int, rng: Generator) -> Bytes:
    """A smooth sky: neighbours are nearly alike."""
    down, across = _places(pixels)
    return _opaque(90 + 120 * down, 140 + 90 * down, 200 + 50 * across)


def _noise(width: float) -> Callable[[int, Generator], Bytes]:
    """Grey with independent normal noise of this standard deviation in each channel, as of a sensor."""

    def draw(pixels: int, rng: Generator) -> Bytes:
        return _opaque(*(128 + width * rng.standard_normal(pixels) for _ in range(3)))

    return draw


def _scene(pixels: int, rng: Generator) -> Bytes:
    """Sky, hills and a field of rectangles with texture, and a little noise everywhere: alike in patches."""
    down, across = _places(pixels)
    horizon = 0.45 + 0.08 * np.sin(9 * across) + 0.04 * np.sin(31 * across)
    sky = down < horizon
    tile = np.floor(11 * across) + 17 * np.floor(13 * down)
    shade = 40 * np.sin(12.9898 * tile)
    texture = 12 * np.sin(240 * across) * np.sin(200 * down)
    ground = 70 + shade + texture
    red = np.where(sky, 120 + 60 * down, ground + 20)
    green = np.where(sky, 160 + 60 * down, ground + 45)
    blue = np.where(sky, 225 + 10 * down, ground - 10)
    noise = 3 * rng.standard_normal((3, pixels))
    return _opaque(red + noise[0], green + noise[1], blue + noise[2])


PHOTOGRAPHS: dict[str, Callable[[int, Generator], Bytes]] = {
    "gradient": _gradient,
    "scene": _scene,
    "noise-2": _noise(2),
    "noise-8": _noise(8),
    "noise-32": _noise(32),
}
"""Drawn images between the paper's extremes."""

SOLIDS = {"solid": GREY, "solid-opaque": OPAQUE_GREY, "solid-two": TWO_AND_TWO, "solid-coloured": COLOURED}
"""Solid colours by name; they differ in how many banks their four bins lie on, and how many bins lie on
the fullest."""

PAPERS = ("solid", "uniform")
NAMES = (*SOLIDS, *PHOTOGRAPHS, "uniform")


@lru_cache(maxsize=4)
def image(name: str, pixels: int, seed: int = 0) -> Bytes:
    """The image of this name (one of `NAMES`) or file, of ``pixels`` pixels; a file is cut or repeated to
    that size."""
    if name in SOLIDS:
        return solid_image(pixels, SOLIDS[name])
    if name == "uniform":
        return uniform_image(pixels, seed)
    if name in PHOTOGRAPHS:
        stream = SeedSequence(seed, spawn_key=(list(PHOTOGRAPHS).index(name),))
        return PHOTOGRAPHS[name](pixels, default_rng(stream))
    own = read_image(Path(name))
    return np.resize(own, (pixels, CHANNELS))


def check_name(name: str) -> None:
    """Refuse what is neither an image's name nor a readable image file."""
    if name not in NAMES:
        if not Path(name).exists():
            raise SmlabError.at(
                "--image",
                "neither a drawn image nor a file",
                name,
                "a .png or .npy, or one of " + ", ".join(NAMES),
            )
        read_image(Path(name))


@lru_cache(maxsize=4)
def read_image(path: Path) -> Bytes:
    """The pixels of a PNG or .npy, ``(pixels, 4)``; grey becomes R = G = B, and A is 255 where the file has
    none.

    `SmlabError` naming the file on what is not an image of 8-bit channels.
    """
    if path.suffix.lower() not in (".png", ".npy"):
        raise SmlabError.at(str(path), "not an image's name", path.suffix, ".png or .npy")
    values = _read_npy(path) if path.suffix.lower() == ".npy" else _read_png(path)
    if values.dtype != np.uint8:
        raise SmlabError.at(str(path), "not 8-bit channels", str(values.dtype), "uint8")
    if values.ndim == 3:
        values = values.reshape(-1, values.shape[2])
    elif values.ndim == 2 and values.shape[1] not in (3, 4):
        values = values.reshape(-1, 1)
    elif values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or values.shape[1] not in (1, 3, 4) or not 1 <= len(values) <= MAX_PIXELS:
        expected = f"(rows, columns, 4), (..., 3) or grey, 1 to {MAX_PIXELS} pixels"
        raise SmlabError.at(str(path), "not an image's shape", values.shape, expected)
    if values.shape[1] == 1:
        values = np.repeat(values, 3, axis=1)
    if values.shape[1] == 3:
        values = np.column_stack([values, np.full(len(values), BINS - 1, dtype=np.uint8)])
    return np.ascontiguousarray(values)


def _read_npy(path: Path) -> Bytes:
    return load_array(path)


def _read_png(path: Path) -> Bytes:
    from PIL import Image, UnidentifiedImageError

    content = read_bytes(path, "an image (PNG)", max_bytes=_MAX_PNG_BYTES)
    try:
        with Image.open(io.BytesIO(content), formats=["PNG"]) as opened:
            if opened.width * opened.height > MAX_PIXELS:  # before it is unpacked
                expected = f"at most {MAX_PIXELS} pixels"
                raise SmlabError.at(str(path), "is too large an image", opened.size, expected)
            return np.asarray(opened.convert("RGBA"), dtype=np.uint8)
    except (OSError, UnidentifiedImageError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise SmlabError(f"{path}: cannot be read as a PNG: {error}") from error


def digest(name: str) -> str:
    """What tells an image apart from another of the same name: a digest of a file's pixels, nothing for
    drawn ones."""
    if name in NAMES:
        return ""
    return hashlib.sha256(read_image(Path(name)).tobytes()).hexdigest()[:16]
