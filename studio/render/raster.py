"""A figure as PNG, by Pillow: 300 pixels an inch, one colour a patch, edges where the patch grid has them."""

import io
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from studio.render.layout import INK, MARGIN, SMALL, text_lines
from studio.render.ramps import table
from studio.render.shapes import (
    Area,
    Bar,
    Cells,
    Clip,
    Disc,
    Drawn,
    Hatching,
    Lines,
    Outline,
    Photo,
    Place,
    Polyline,
    Shape,
    Words,
    font,
    lacking,
)

DPI = 300
_SCALE = DPI / 72
_LISTED = 8  # signs that the font lacks
_FINE = 4  # slanted lines are drawn this much larger and made small again, so that their edges are smooth


def png_bytes(drawn: Drawn) -> bytes:
    """The figure as a PNG file; equal figures give equal bytes."""
    stream = io.BytesIO()
    # Level 3 takes half of the time that the usual level takes, and a fifth more room.
    raster(drawn).save(stream, "PNG", dpi=(DPI, DPI), compress_level=3)
    return stream.getvalue()


def raster(drawn: Drawn) -> Image.Image:
    """The figure as a picture in RGB; where its font lacks signs, a line below says so."""
    drawn = _with_remark(drawn)
    canvas = Image.new("RGB", (_px(drawn.width), _px(drawn.height)), "white")
    for shape in drawn.shapes:
        _draw(canvas, shape)
    return canvas


def _with_remark(drawn: Drawn) -> Drawn:
    """The figure, and below it how many signs are boxes in this picture, which a reader cannot know of a box."""
    boxes = lacking(drawn.shapes)
    if not boxes:
        return drawn
    which = [f"U+{ord(sign):04X}" for sign in dict.fromkeys(boxes)]
    listed = ", ".join([*which[:_LISTED], *(["and others"] if len(which) > _LISTED else [])])
    said = (
        f"Boxes in this PNG stand for signs that its font does not have, {len(boxes)} in all: {listed}. The SVG and "
        "the tables of the same figure hold them."
    )
    words, bottom = text_lines([said], drawn.height)
    dark = [replace(line, colour=INK) for line in words if isinstance(line, Words)]
    return replace(drawn, height=bottom + MARGIN - SMALL, shapes=(*drawn.shapes, *dark))


def _draw(canvas: Image.Image, shape: Shape) -> None:
    pen = ImageDraw.Draw(canvas)
    match shape:
        case Words():
            letters = font(round(shape.size * _SCALE, 2), shape.bold)
            anchor = {"start": "ls", "middle": "ms", "end": "rs"}[shape.anchor]
            if shape.turned:
                _turned(canvas, shape, letters, anchor)
            else:
                pen.text((shape.x * _SCALE, shape.y * _SCALE), shape.text, shape.colour, letters, anchor)
        case Photo():
            left, top, right, bottom = _edges(shape.place)
            size = max(1, right - left), max(1, bottom - top)
            canvas.paste(shape.image.convert("RGB").resize(size, Image.Resampling.BICUBIC), (left, top))
        case Cells():
            _cells(canvas, shape)
        case Hatching():
            _hatching(canvas, shape)
        case Lines():
            ends = [tuple(_SCALE * value for value in line) for line in shape.ends]
            _lines(canvas, ends, shape.colour, max(1, round(shape.width * _SCALE)), shape.opacity)
        case Polyline():
            _smooth(canvas, shape.points, shape.width, shape.colour, shape.opacity, partial(_stroke, shape=shape))
        case Area():
            _smooth(canvas, shape.points, 0.0, shape.colour, shape.opacity, _fill)
        case Disc():
            ends = ((shape.x, shape.y),)
            _smooth(canvas, ends, 2 * shape.radius, shape.colour, 1.0, partial(_disc, radius=shape.radius))
        case Outline():
            left, top, right, bottom = _edges(shape.place)
            pen.rectangle((left - 4, top - 4, right + 3, bottom + 3), outline="#101820", width=8)
            pen.rectangle((left - 2, top - 2, right + 1, bottom + 1), outline="#ffffff", width=4)
        case Bar():
            left, top, right, bottom = _edges(shape.place)
            entries = np.rint(np.linspace(0, len(table(shape.stops)) - 1, right - left)).astype(int)
            line = table(shape.stops)[entries][None]
            canvas.paste(Image.fromarray(np.repeat(line, bottom - top, axis=0)), (left, top))
        case Clip():
            layer = canvas.copy()
            for part in shape.shapes:
                _draw(layer, part)
            left, top, right, bottom = _edges(shape.place)
            canvas.paste(layer.crop((left, top, right, bottom)), (left, top))


def _turned(canvas: Image.Image, shape: Words, letters: ImageFont.FreeTypeFont, anchor: str) -> None:
    """Text that reads upwards: drawn level on a mask about its anchor, turned, and laid on the anchor's place."""
    left, top, right, bottom = (round(edge) for edge in letters.getbbox(shape.text, anchor=anchor))
    mask = Image.new("L", (right - left + 2, bottom - top + 2), 0)
    ImageDraw.Draw(mask).text((1 - left, 1 - top), shape.text, 255, letters, anchor)
    mask = mask.transpose(Image.Transpose.ROTATE_90)
    place = _px(shape.x) + top - 1, _px(shape.y) - right - 1
    canvas.paste(Image.new("RGB", mask.size, shape.colour), place, mask)


def _cells(canvas: Image.Image, shape: Cells) -> None:
    """Each pixel gets the colour of the patch under its centre."""
    left, top, right, bottom = _edges(shape.place)
    rows, cols = shape.drawn.shape
    row = np.minimum(((np.arange(bottom - top) + 0.5) / (bottom - top) * rows).astype(int), rows - 1)
    col = np.minimum(((np.arange(right - left) + 0.5) / (right - left) * cols).astype(int), cols - 1)
    at = np.ix_(row, col)
    alpha = np.where(shape.drawn[at], round(255 * shape.opacity), 0).astype(np.uint8)
    canvas.paste(Image.fromarray(shape.colours[at]), (left, top), Image.fromarray(alpha))


def _hatching(canvas: Image.Image, shape: Hatching) -> None:
    gap, width = shape.gap * _SCALE, shape.width * _SCALE
    for place in shape.places:
        left, top, right, bottom = _edges(place)
        if right <= left or bottom <= top:
            continue
        y, x = np.mgrid[top:bottom, left:right]
        # Distance along the normal of lines that rise at 45 degrees.
        on = ((x + y) / np.sqrt(2)) % gap < width
        if shape.opacity:
            tint = Image.new("L", (right - left, bottom - top), round(255 * shape.opacity))
            canvas.paste(Image.new("RGB", tint.size, shape.tint), (left, top), tint)
        if not width:
            continue
        mask = Image.fromarray((on * 255).astype(np.uint8))
        canvas.paste(Image.new("RGB", mask.size, shape.colour), (left, top), mask)


def _lines(canvas: Image.Image, ends: Iterable[Any], colour: str, width: int, opacity: float) -> None:
    mask = Image.new("L", canvas.size, 0)
    pen = ImageDraw.Draw(mask)
    for line in ends:
        pen.line([round(value) for value in line], fill=round(255 * opacity), width=width)
    canvas.paste(Image.new("RGB", canvas.size, colour), (0, 0), mask)


_Pen = Callable[[ImageDraw.ImageDraw, "list[tuple[float, float]]"], None]


def _smooth(
    canvas: Image.Image,
    points: Sequence[tuple[float, float]],
    width: float,
    colour: str,
    opacity: float,
    draw: _Pen,
) -> None:
    """Colour what `draw` fills on a mask of the points' box, `_FINE` times as fine as the picture."""
    if not points:
        return
    box = np.array(points) * _SCALE
    room = 1 + math.ceil(width * _SCALE)
    left, top = (int(value) - room for value in np.floor(box.min(0)))
    right, bottom = (int(value) + room for value in np.ceil(box.max(0)))
    left, top, right, bottom = max(left, 0), max(top, 0), min(right, canvas.width), min(bottom, canvas.height)
    if right <= left or bottom <= top:
        return
    mask = Image.new("L", (_FINE * (right - left), _FINE * (bottom - top)), 0)
    draw(ImageDraw.Draw(mask), [((x - left) * _FINE, (y - top) * _FINE) for x, y in box.tolist()])
    small = mask.reduce(_FINE).point([round(opacity * value) for value in range(256)])
    canvas.paste(Image.new("RGB", small.size, colour), (left, top), small)


def _stroke(pen: ImageDraw.ImageDraw, points: list[tuple[float, float]], *, shape: Polyline) -> None:
    width = max(1, round(shape.width * _SCALE * _FINE))
    for part in dashed(points, [length * _SCALE * _FINE for length in shape.dash]):
        pen.line(part, fill=255, width=width, joint="curve")


def _fill(pen: ImageDraw.ImageDraw, points: list[tuple[float, float]]) -> None:
    pen.polygon(points, fill=255)


def _disc(pen: ImageDraw.ImageDraw, points: list[tuple[float, float]], *, radius: float) -> None:
    ((x, y),), r = points, radius * _SCALE * _FINE
    pen.ellipse((x - r, y - r, x + r, y + r), fill=255)


def dashed(points: Sequence[tuple[float, float]], dash: Sequence[float]) -> list[list[tuple[float, float]]]:
    """The parts of a line that are drawn: lengths that are drawn and left out follow each other, as in SVG."""
    if not dash:
        return [list(points)]
    parts: list[list[tuple[float, float]]] = [[points[0]]]
    at, left = 0, dash[0]
    for (x0, y0), (x1, y1) in pairwise(points):
        length, gone = math.hypot(x1 - x0, y1 - y0), 0.0
        while length - gone > left:
            gone += left
            here = (x0 + (x1 - x0) * gone / length, y0 + (y1 - y0) * gone / length)
            if at % 2:
                parts.append([here])
            else:
                parts[-1].append(here)
            at, left = at + 1, dash[(at + 1) % len(dash)]
        left -= length - gone
        if not at % 2:
            parts[-1].append((x1, y1))
    return [part for part in parts if len(part) > 1]


def _edges(place: Place) -> tuple[int, int, int, int]:
    """(left, top, right, bottom) in whole pixels."""
    return _px(place.x), _px(place.y), _px(place.x + place.w), _px(place.y + place.h)


def _px(points: float) -> int:
    return round(points * _SCALE)
