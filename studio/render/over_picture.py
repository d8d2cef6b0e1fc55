"""Cells over the picture in grey: how every panel of every figure is drawn at the true grid of its values."""

from itertools import pairwise

import numpy as np
from PIL import Image

from studio.frame import Box
from studio.render.layout import FACT
from studio.render.shapes import Hatching, Lines, Outline, Place, Shape, Words, wrapped

FINE = 8  # values between patch centres in the smooth drawing, per patch side
_NARROWEST_LINED = 3.0  # points; smaller cells than this are seen better without lines between them


def inside(place: Place, box: Box) -> Place:
    """A box in fractions of a place (top, left, bottom, right)."""
    top, left, bottom, right = box
    return Place(place.x + left * place.w, place.y + top * place.h, (right - left) * place.w, (bottom - top) * place.h)


def between(values: np.ndarray) -> np.ndarray:
    """Values (R, C) at eight places a patch side, straight between patch centres, constant beyond the outer ones.

    NaN where any of the patches about a place is NaN.
    """
    for axis in (0, 1):
        count = values.shape[axis]
        place = np.clip((np.arange(count * FINE) + 0.5) / FINE - 0.5, 0, count - 1)
        below = np.minimum(np.floor(place).astype(int), max(count - 2, 0))
        share = (place - below).reshape((-1, 1) if axis == 0 else (1, -1))
        above = np.minimum(below + 1, count - 1)
        values = np.take(values, below, axis) * (1 - share) + np.take(values, above, axis) * share
    return values


def between_kept(values: np.ndarray, left_out: np.ndarray) -> np.ndarray:
    """`between` of the values that are not left out (R, C): beside those it goes straight between what remains.

    0 where nothing remains.
    """
    if not left_out.any():
        return between(values)
    share = between((~left_out).astype(values.dtype))
    return between(np.where(left_out, 0, values)) / np.where(share > 0, share, 1)


def finer(values: np.ndarray) -> np.ndarray:
    """Values (R, C) repeated at the places of `between`."""
    return np.repeat(np.repeat(values, FINE, axis=0), FINE, axis=1)


def cell_lines(seen: Place, rows: int, cols: int) -> list[Shape]:
    """Lines between cells."""
    height, width = seen.h / rows, seen.w / cols
    if min(height, width) < _NARROWEST_LINED:
        return []
    down = tuple((seen.x + c * width, seen.y, seen.x + c * width, seen.y + seen.h) for c in range(1, cols))
    across = tuple((seen.x, seen.y + r * height, seen.x + seen.w, seen.y + r * height) for r in range(1, rows))
    return [Lines(down + across, "#808080", 0.25, 0.45)]


def hatched_zeros(seen: Place, where: np.ndarray) -> list[Shape]:
    """Fine hatching of the cells (R, C) that are exactly 0."""
    return [Hatching(_places(seen, where), "#e4e8ed", 3.0, 0.3)] if where.any() else []


def hatched_aside(seen: Place, where: np.ndarray) -> list[Shape]:
    """Dark hatching on light of the cells (R, C) that the range leaves out."""
    return [Hatching(_places(seen, where), "#101820", 2.2, 0.7, "#ffffff", 0.35)] if where.any() else []


def hatched_missing(seen: Place, where: np.ndarray) -> list[Shape]:
    """Hatching on dark of the cells (R, C) that have no value."""
    return [Hatching(_places(seen, where), "#aeb6bf", 4.0, 0.4, "#141a22", 0.62)] if where.any() else []


def _places(seen: Place, where: np.ndarray) -> tuple[Place, ...]:
    """The chosen cells; neighbours in a row are one place, since a map of pixels has many."""
    rows, cols = where.shape
    height, width = seen.h / rows, seen.w / cols
    found = []
    for row in np.flatnonzero(where.any(1)).tolist():
        edges = np.flatnonzero(np.diff(np.concatenate([[False], where[row], [False]]).astype(np.int8)))
        found += [
            Place(seen.x + first * width, seen.y + row * height, (last - first) * width, height)
            for first, last in list(pairwise(edges.tolist()))[::2]
        ]
    return tuple(found)


def unseen(place: Place, seen: Place) -> list[Shape]:
    """What the crop cut away, dark and hatched."""
    right, bottom = seen.x + seen.w, seen.y + seen.h
    sides = (
        Place(place.x, place.y, place.w, seen.y - place.y),
        Place(place.x, bottom, place.w, place.y + place.h - bottom),
        Place(place.x, seen.y, seen.x - place.x, seen.h),
        Place(right, seen.y, place.x + place.w - right, seen.h),
    )
    left_out = tuple(side for side in sides if side.w > 0.05 and side.h > 0.05)
    return [Hatching(left_out, "#aeb6bf", 4.0, 0.4, "#141a22", 0.62)] if left_out else []


def outlined(seen: Place, row: int, col: int, rows: int, cols: int) -> list[Shape]:
    """The edge of one cell of a map of `rows` x `cols`."""
    height, width = seen.h / rows, seen.w / cols
    return [Outline(Place(seen.x + col * width, seen.y + row * height, width, height))]


def refusal(place: Place, message: str) -> list[Shape]:
    """A sentence in the place of a map."""
    lines = wrapped(message, place.w - 12, FACT)
    start = place.y + place.h / 2 - (len(lines) - 1) * 4
    return [
        Hatching((place,), "#ffffff", 9.0, 0.0, "#141a22", 0.62),
        *(
            Words(place.x + place.w / 2, start + 8 * index, line, FACT, colour="#ffffff", anchor="middle")
            for index, line in enumerate(lines)
        ),
    ]


def grey_picture(image: Image.Image) -> Image.Image:
    """The picture in grey with little contrast, so that the colours over it stay near those of the colour bar."""
    red, green, blue = (np.asarray(image, dtype=np.float64)[..., channel] for channel in range(3))
    grey = 40 + (0.299 * red + 0.587 * green + 0.114 * blue) * 0.8
    return Image.fromarray(np.rint(grey).astype(np.uint8))
