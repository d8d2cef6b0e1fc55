"""A figure as PNG, by Pillow: 300 pixels an inch, one colour a patch, edges where the patch grid has them."""

import io
from collections.abc import Iterable
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from studio.render.ramps import table
from studio.render.shapes import Bar, Cells, Clip, Drawn, Hatching, Lines, Outline, Photo, Place, Shape, Words, font

DPI = 300
_SCALE = DPI / 72


def png_bytes(drawn: Drawn) -> bytes:
    """The figure as a PNG file; equal figures give equal bytes."""
    stream = io.BytesIO()
    raster(drawn).save(stream, "PNG", dpi=(DPI, DPI))
    return stream.getvalue()


def raster(drawn: Drawn) -> Image.Image:
    """The figure as a picture in RGB."""
    canvas = Image.new("RGB", (_px(drawn.width), _px(drawn.height)), "white")
    for shape in drawn.shapes:
        _draw(canvas, shape)
    return canvas


def _draw(canvas: Image.Image, shape: Shape) -> None:
    pen = ImageDraw.Draw(canvas)
    match shape:
        case Words():
            letters = font(round(shape.size * _SCALE, 2), shape.bold)
            anchor = {"start": "ls", "middle": "ms", "end": "rs"}[shape.anchor]
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


def _edges(place: Place) -> tuple[int, int, int, int]:
    """(left, top, right, bottom) in whole pixels."""
    return _px(place.x), _px(place.y), _px(place.x + place.w), _px(place.y + place.h)


def _px(points: float) -> int:
    return round(points * _SCALE)
