"""What a figure is put together from; `raster` and `vector` each draw these few shapes.

Lengths are in points, 1/72 inch, from the top left; colours are hexadecimal as "#1f2933".
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image, ImageDraw, ImageFont

FONTS = Path(__file__).resolve().parent / "fonts"
# Text is measured at this size and scaled, so that both outputs break lines at the same words.
_MEASURED_AT = 100
_NO_SIGN = "\U0010ffff"  # no font has it

Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True)
class Place:
    """A rectangle: left, top, width, height."""

    x: float
    y: float
    w: float
    h: float


@dataclass(frozen=True)
class Words:
    """One line of text; `y` is its baseline. Turned text reads upwards from (x, y), and `x` is its baseline."""

    x: float
    y: float
    text: str
    size: float
    bold: bool = False
    colour: str = "#1f2933"
    anchor: Anchor = "start"
    turned: bool = False


@dataclass(frozen=True)
class Photo:
    """A picture in grey that fills a place."""

    place: Place
    image: Image.Image


@dataclass(frozen=True)
class Cells:
    """Colours (R, C, 3) in 8 bits, one rectangle each, where `drawn` (R, C) is true; `opacity` is that of all."""

    place: Place
    colours: np.ndarray
    drawn: np.ndarray
    opacity: float


@dataclass(frozen=True)
class Hatching:
    """Slanted lines over places, `gap` points apart, over a tint of `opacity`; no lines where `width` is 0."""

    places: tuple[Place, ...]
    colour: str
    gap: float
    width: float
    tint: str = "#000000"
    opacity: float = 0.0


@dataclass(frozen=True)
class Lines:
    """Straight lines (x0, y0, x1, y1)."""

    ends: tuple[tuple[float, float, float, float], ...]
    colour: str
    width: float
    opacity: float = 1.0


@dataclass(frozen=True)
class Polyline:
    """A line through points (x, y), with rounded joints; `dash` are lengths drawn and left out, () for none."""

    points: tuple[tuple[float, float], ...]
    colour: str
    width: float
    dash: tuple[float, ...] = ()
    opacity: float = 1.0


@dataclass(frozen=True)
class Area:
    """A polygon that is filled; its edge is not drawn."""

    points: tuple[tuple[float, float], ...]
    colour: str
    opacity: float = 1.0


@dataclass(frozen=True)
class Disc:
    """A filled circle."""

    x: float
    y: float
    radius: float
    colour: str


@dataclass(frozen=True)
class Outline:
    """The edge of a place: a light line on a dark one, to be seen on every ground."""

    place: Place


@dataclass(frozen=True)
class Bar:
    """A colour bar, with colours straight between evenly spaced stops."""

    place: Place
    stops: tuple[str, ...]


@dataclass(frozen=True)
class Clip:
    """Shapes of which only what lies inside of a place is seen."""

    place: Place
    shapes: tuple["Shape", ...] = field(default_factory=tuple)


Shape = Words | Photo | Cells | Hatching | Lines | Polyline | Area | Disc | Outline | Bar | Clip


@dataclass(frozen=True)
class Drawn:
    """A whole figure on white: its size in points and its shapes, later ones over earlier ones."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    title: str
    description: str


@lru_cache(maxsize=64)
def font(pixels: float, bold: bool) -> ImageFont.FreeTypeFont:
    """The font that comes with the project, which has Greek letters and mathematical signs."""
    path = FONTS / ("DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf")
    return ImageFont.truetype(str(path), pixels, layout_engine=ImageFont.Layout.BASIC)


def text_width(text: str, size: float, bold: bool = False) -> float:
    """Width of one line in points."""
    return font(_MEASURED_AT, bold).getlength(text) * size / _MEASURED_AT


@lru_cache(maxsize=4096)
def _is_box(sign: str, bold: bool) -> bool:
    """Whether the font has no shape for a sign, and draws a box in its place."""
    return _inked(sign, bold) == _inked(_NO_SIGN, bold)


def _inked(sign: str, bold: bool) -> bytes:
    canvas = Image.new("L", (2 * _MEASURED_AT, 2 * _MEASURED_AT))
    ImageDraw.Draw(canvas).text((_MEASURED_AT // 2, _MEASURED_AT // 2), sign, 255, font(_MEASURED_AT, bold))
    return canvas.tobytes()


def lacking(shapes: Sequence[Shape]) -> list[str]:
    """The signs of all words that the font does not have, as often as they stand there; they are drawn as boxes."""
    found: list[str] = []
    for shape in shapes:
        if isinstance(shape, Words):
            found += [sign for sign in shape.text if _is_box(sign, shape.bold)]
        elif isinstance(shape, Clip):
            found += lacking(shape.shapes)
    return found


def wrapped(text: str, width: float, size: float, bold: bool = False) -> list[str]:
    """The text in lines of at most `width` points; a word that is too long alone is cut."""
    lines: list[str] = []
    for word in text.split():
        joined = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(joined, size, bold) <= width:
            lines[-1] = joined
        else:
            lines.append(shortened(word, width, size, bold))
    return lines


def shortened(text: str, width: float, size: float, bold: bool = False) -> str:
    """The text, cut with an ellipsis where it is wider than `width` points."""
    text = " ".join(text.split())
    if text_width(text, size, bold) <= width:
        return text
    # Searched by halves: to measure a text takes as long as it is, and people may write very long ones.
    fitting = bisect_right(range(len(text)), width, key=lambda kept: text_width(text[:kept] + "…", size, bold))
    return text[: max(0, fitting - 1)].rstrip() + "…"
