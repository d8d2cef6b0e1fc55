"""What lies behind the objects: six kinds of ground, and small shapes without a name that clutter it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import cos, sin

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Colour = tuple[int, int, int]

GROUND_KINDS = ("plain", "gradient", "checker", "stripes", "noise", "blur")

GROUND_COLOURS: dict[str, Colour] = {
    "white": (246, 246, 242),
    "gray": (186, 188, 192),
    "red": (228, 128, 120),
    "orange": (246, 190, 130),
    "yellow": (246, 230, 150),
    "green": (160, 208, 158),
    "blue": (150, 190, 236),
    "purple": (192, 168, 222),
    "pink": (244, 194, 212),
    "brown": (172, 138, 108),
}

CLUTTER_SHAPES = ("disc", "square", "triangle", "ring", "cross", "line")


@dataclass(frozen=True)
class Ground:
    """A ground that looks the same at every size.

    `colours` are its RGB colours (two or more except for "plain"). `names` are their words. `cells` is how
    many checks, stripes or grains go across the picture, `angle` the direction in radians, and `grain` the
    seed of what is random in it.
    """

    kind: str
    names: tuple[str, ...]
    colours: tuple[Colour, ...]
    cells: int
    angle: float
    grain: int


@dataclass(frozen=True)
class Clutter:
    """A shape without a name: `centre` (y, x) and `side` in shares of the picture, `angle` in degrees."""

    shape: str
    centre: tuple[float, float]
    side: float
    angle: int
    colour: Colour


@lru_cache(maxsize=16)
def _grid(size: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """y as (size, 1) and x as (1, size): pixel centres, 0 to 1."""
    line = ((np.arange(size) + 0.5) / size).astype(np.float32)
    return line[:, None], line[None, :]


def _mixed(ground: Ground, share: NDArray[np.float32]) -> NDArray[np.uint8]:
    first, second = (np.asarray(colour, dtype=np.float32) for colour in ground.colours[:2])
    return (first + (second - first) * share[..., None] + 0.5).astype(np.uint8)


def _along(ground: Ground, size: int) -> NDArray[np.float32]:
    """How far each pixel lies along the ground's angle, 0 at the centre."""
    y, x = _grid(size)
    slanted = (x - 0.5) * cos(ground.angle) + (y - 0.5) * sin(ground.angle)
    return np.asarray(slanted, dtype=np.float32)


def _sharp(wave: NDArray[np.float32], slope: float) -> NDArray[np.float32]:
    """A wave in -1..1 made into two flat levels, 0 and 1, with edges one pixel wide."""
    return np.clip(wave * np.float32(slope) + np.float32(0.5), np.float32(0), np.float32(1))


def _triangle_wave(phase: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.float32(1) - np.float32(4) * np.abs(phase - np.floor(phase) - np.float32(0.5))


def _plain(ground: Ground, size: int) -> NDArray[np.uint8]:
    return np.full((size, size, 3), ground.colours[0], dtype=np.uint8)


def _gradient(ground: Ground, size: int) -> NDArray[np.uint8]:
    reach = abs(cos(ground.angle)) + abs(sin(ground.angle))
    return _mixed(ground, _along(ground, size) / np.float32(reach) + np.float32(0.5))


def _checker(ground: Ground, size: int) -> NDArray[np.uint8]:
    y, x = _grid(size)
    slope = size / (2.0 * ground.cells)
    rows, columns = (_sharp(_triangle_wave(line * (ground.cells / 2)), slope) for line in (y, x))
    odd = np.asarray(rows + columns - 2 * rows * columns, dtype=np.float32)
    return _mixed(ground, odd)


def _stripes(ground: Ground, size: int) -> NDArray[np.uint8]:
    wave = _triangle_wave(_along(ground, size) * (ground.cells / 2))
    return _mixed(ground, _sharp(wave, size / (2.0 * ground.cells)))


def _tile(ground: Ground, cells: int) -> NDArray[np.float32]:
    return np.random.Generator(np.random.Philox(ground.grain)).random((cells, cells), dtype=np.float32)


def _noise(ground: Ground, size: int) -> NDArray[np.uint8]:
    tile = Image.fromarray(_mixed(ground, _tile(ground, ground.cells)))
    return np.array(tile.resize((size, size), Image.Resampling.BILINEAR))


def _blur(ground: Ground, size: int) -> NDArray[np.uint8]:
    picks = (_tile(ground, ground.cells) * len(ground.colours)).astype(np.intp)
    tile = Image.fromarray(np.asarray(ground.colours, dtype=np.uint8)[picks])
    return np.array(tile.resize((size, size), Image.Resampling.BICUBIC))


_PAINTERS = {
    "plain": _plain,
    "gradient": _gradient,
    "checker": _checker,
    "stripes": _stripes,
    "noise": _noise,
    "blur": _blur,
}


def paint_ground(ground: Ground, size: int) -> NDArray[np.uint8]:
    """The ground alone as a new (size, size, 3) array."""
    return _PAINTERS[ground.kind](ground, size)


@lru_cache(maxsize=64)
def _stencil(shape: str, angle: int) -> Image.Image:
    stencil = Image.new("L", (96, 96), 0)
    draw = ImageDraw.Draw(stencil)
    if shape == "disc":
        draw.ellipse((6, 6, 89, 89), fill=255)
    elif shape == "square":
        draw.rectangle((16, 16, 79, 79), fill=255)
    elif shape == "triangle":
        draw.polygon(((48, 8), (86, 76), (10, 76)), fill=255)
    elif shape == "ring":
        draw.ellipse((6, 6, 89, 89), outline=255, width=16)
    elif shape == "cross":
        draw.rectangle((38, 8, 57, 87), fill=255)
        draw.rectangle((8, 38, 87, 57), fill=255)
    else:
        draw.rectangle((4, 40, 91, 55), fill=255)
    return stencil.rotate(angle, resample=Image.Resampling.BILINEAR)


def add_clutter(picture: Image.Image, clutter: tuple[Clutter, ...]) -> None:
    """Draws the shapes of `clutter` onto `picture`, in place."""
    size = picture.width
    for item in clutter:
        side = max(2, round(item.side * size))
        top, left = (round(middle * size - side / 2) for middle in item.centre)
        stencil = _stencil(item.shape, item.angle).resize((side, side), Image.Resampling.BILINEAR, reducing_gap=2.0)
        picture.paste(item.colour, (left, top, left + side, top + side), stencil)
