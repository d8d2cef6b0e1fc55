"""The layout of a figure: panels over the picture in grey, numbers, colour bars, and what it shows in words."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from studio.frame import Box, on_preview, preview, shown_window
from studio.recipe import Recipe
from studio.render.captions import bar_text, caption_lines, heading, map_names
from studio.render.numbers import numbers_of
from studio.render.ramps import colours, stops_of
from studio.render.ranges import Shown
from studio.render.shapes import (
    Anchor,
    Bar,
    Cells,
    Clip,
    Drawn,
    Hatching,
    Lines,
    Outline,
    Photo,
    Place,
    Shape,
    Words,
    shortened,
    text_width,
    wrapped,
)

WIDTH = 510.0  # 180 mm, two columns of most journals
_MARGIN, _GAP = 10.0, 10.0
_MOST_HIGH = 250.0
_FINE = 8  # values between patch centres in the smooth drawing, per patch side
_HEAD, _FACT, _SMALL = 8.5, 6.2, 5.8
_INK, _SOFT = "#1f2933", "#55636f"


@dataclass(frozen=True)
class _Columns:
    """Where the panels stand: left edges, their width, and the size of the picture in each."""

    lefts: tuple[float, ...]
    width: float
    picture_width: float
    picture_height: float


def figure_of(recipe: Recipe, shown: Sequence[Shown], image: Image.Image, note: str = "") -> Drawn:
    """The figure of a recipe.

    Args:
        recipe: what is drawn, for the words.
        shown: its panels.
        image: the picture, upright RGB.
        note: a further sentence for the caption.
    """
    window = shown_window((image.height, image.width), [panel.reading.look.geometry.seen_box for panel in shown])
    grey = grey_picture(preview(image, window))
    columns = _columns(len(shown), grey.height / grey.width)
    shapes: list[Shape] = []
    top = _MARGIN + 27
    for left, panel in zip(columns.lefts, shown, strict=True):
        shapes += _header(panel, left, columns.width)
        place = Place(left, top, columns.picture_width, columns.picture_height)
        shapes += _picture(recipe, panel, place, grey, window)
    bottom = top + columns.picture_height
    facts = [_facts(panel, left, bottom + 11, columns.width) for left, panel in zip(columns.lefts, shown, strict=True)]
    shapes += [shape for part, _ in facts for shape in part]
    bottom = max(end for _, end in facts)
    bars, bottom = _bars(recipe, shown, columns, bottom + 4)
    shapes += bars
    lines = caption_lines(recipe, shown, window, (image.height, image.width), note)
    baseline = bottom + 10
    for line in lines:
        for text in wrapped(line, WIDTH - 2 * _MARGIN, _SMALL):
            shapes.append(Words(_MARGIN, baseline, text, _SMALL, colour=_SOFT))
            baseline += _SMALL * 1.42
    title = f"{map_names(shown)} over {recipe.picture.name or 'a picture'}"
    return Drawn(WIDTH, baseline + _MARGIN - _SMALL, tuple(shapes), title, " ".join(lines))


def _columns(count: int, ratio: float) -> _Columns:
    """One panel is as wide as one of two, and no picture is higher than it should be."""
    slots = max(count, 2)
    width = (WIDTH - 2 * _MARGIN - _GAP * (slots - 1)) / slots
    height = min(width * ratio, _MOST_HIGH)
    lefts = tuple(_MARGIN + index * (width + _GAP) for index in range(count))
    return _Columns(lefts, width, height / ratio, height)


def _header(panel: Shown, left: float, width: float) -> list[Shape]:
    name, model, remark = heading(panel)
    return [
        Words(left, _MARGIN + 7, shortened(name, width, _HEAD, bold=True), _HEAD, bold=True, colour=_INK),
        Words(left, _MARGIN + 15, shortened(model, width, _FACT), _FACT, colour=_SOFT),
        Words(left, _MARGIN + 23, shortened(remark, width, _FACT), _FACT, colour=_SOFT),
    ]


def _picture(
    recipe: Recipe, panel: Shown, place: Place, grey: Image.Image, window: tuple[int, int, int, int]
) -> list[Shape]:
    reading = panel.reading
    box = on_preview(reading.look.geometry.seen_box, window)
    seen = _inside(place, box)
    parts: list[Shape] = [Photo(place, grey)]
    if not reading.message:
        parts.append(_cells(recipe, panel, seen))
        parts += _marks(panel, seen)
    parts += _unseen(place, seen)
    if reading.patch is not None:
        patch = reading.look.geometry.patch_box(*reading.patch, reading.grid)
        parts.append(Outline(_inside(place, on_preview(patch, window))))
    if reading.message:
        lines = wrapped(reading.message, place.w - 12, _FACT)
        start = place.y + place.h / 2 - (len(lines) - 1) * 4
        parts.append(Hatching((place,), "#ffffff", 9.0, 0.0, "#141a22", 0.62))
        parts += [
            Words(place.x + place.w / 2, start + 8 * index, line, _FACT, colour="#ffffff", anchor="middle")
            for index, line in enumerate(lines)
        ]
    return [Clip(place, tuple(parts))]


def _cells(recipe: Recipe, panel: Shown, seen: Place) -> Cells:
    """Exact zeros have no colour; so smooth a drawing cannot be that a zero gets one."""
    view, values = recipe.view, panel.values
    drawn = (values != 0) & ~panel.aside
    if view.drawing == "smooth":
        values = between(values)
        drawn = np.repeat(np.repeat(drawn, _FINE, axis=0), _FINE, axis=1)
    found = colours(values, panel.top, signed=panel.reading.signed, root=view.ramp == "root")
    return Cells(seen, found, drawn, view.opacity)


def between(values: np.ndarray) -> np.ndarray:
    """Values (R, C) at eight places a patch side, straight between patch centres, constant beyond the outer ones."""
    for axis in (0, 1):
        count = values.shape[axis]
        place = np.clip((np.arange(count * _FINE) + 0.5) / _FINE - 0.5, 0, count - 1)
        below = np.minimum(np.floor(place).astype(int), max(count - 2, 0))
        share = (place - below).reshape((-1, 1) if axis == 0 else (1, -1))
        above = np.minimum(below + 1, count - 1)
        values = np.take(values, below, axis) * (1 - share) + np.take(values, above, axis) * share
    return values


def _marks(panel: Shown, seen: Place) -> list[Shape]:
    """Patch lines, hatching of exact zeros and of what is set aside."""
    rows, cols = panel.values.shape
    height, width = seen.h / rows, seen.w / cols

    def places(where: np.ndarray) -> tuple[Place, ...]:
        found = np.argwhere(where)
        return tuple(Place(seen.x + c * width, seen.y + r * height, width, height) for r, c in found.tolist())

    down = tuple((seen.x + c * width, seen.y, seen.x + c * width, seen.y + seen.h) for c in range(1, cols))
    across = tuple((seen.x, seen.y + r * height, seen.x + seen.w, seen.y + r * height) for r in range(1, rows))
    parts: list[Shape] = [Lines(down + across, "#808080", 0.25, 0.45)]
    zeros, aside = (panel.values == 0) & ~panel.aside, panel.aside
    if zeros.any():
        parts.append(Hatching(places(zeros), "#e4e8ed", 3.0, 0.3))
    if aside.any():
        parts.append(Hatching(places(aside), "#101820", 2.2, 0.7, "#ffffff", 0.35))
    return parts


def _unseen(place: Place, seen: Place) -> list[Shape]:
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


def _inside(place: Place, box: Box) -> Place:
    """A box in fractions of a place (top, left, bottom, right)."""
    top, left, bottom, right = box
    return Place(place.x + left * place.w, place.y + top * place.h, (right - left) * place.w, (bottom - top) * place.h)


def _facts(panel: Shown, left: float, baseline: float, width: float) -> tuple[list[Shape], float]:
    """Numbers line by line, with a column for the control; and the baseline of the line after them."""
    numbers = numbers_of(panel.reading)
    controlled = any(number.control_written for number in numbers)
    right, first = left + width, left + width - (38 if controlled and width > 150 else 28 if controlled else 0)
    shapes: list[Shape] = []
    # Every panel has this line, so that the numbers of all stand side by side.
    if controlled:
        shapes.append(Words(right, baseline, "A2 shuffled", _SMALL, colour=_SOFT, anchor="end"))
    baseline += 8.2
    for number in numbers:
        room = first - left - text_width(number.written, _FACT) - 3
        shapes.append(Words(left, baseline, shortened(number.label, room, _FACT), _FACT, colour=_SOFT))
        shapes.append(Words(first, baseline, number.written, _FACT, colour=_INK, anchor="end"))
        if number.control_written:
            shapes.append(Words(right, baseline, number.control_written, _FACT, colour=_SOFT, anchor="end"))
        baseline += 8.2
    return shapes, baseline


def _bars(recipe: Recipe, shown: Sequence[Shown], columns: _Columns, top: float) -> tuple[list[Shape], float]:
    """A colour bar for each range, under the first run of panels that share it; and where the lowest text ends."""
    shapes: list[Shape] = []
    lowest = top
    keys = [panel.range for panel in shown]
    for key in dict.fromkeys(keys):
        sharing = [index for index, other in enumerate(keys) if other == key and not shown[index].reading.message]
        if not sharing:
            continue
        last = first = sharing[0]
        while last + 1 in sharing:
            last += 1
        left, width = columns.lefts[first], columns.lefts[last] + columns.width - columns.lefts[first]
        panels = [shown[index] for index in sharing]
        (low, middle, high), words = bar_text(recipe.view, panels)
        shapes.append(Bar(Place(left, top, width, 6.0), stops_of(key[1])))
        ends: tuple[tuple[float, str, Anchor], ...] = (
            (left, low, "start"),
            (left + width / 2, middle, "middle"),
            (left + width, high, "end"),
        )
        shapes += [Words(x, top + 13, text, _SMALL, colour=_INK, anchor=anchor) for x, text, anchor in ends]
        baseline = top + 21
        for line in wrapped(words, width, _SMALL):
            shapes.append(Words(left + width / 2, baseline, line, _SMALL, colour=_SOFT, anchor="middle"))
            baseline += 7.4
        lowest = max(lowest, baseline)
    return shapes, lowest


def grey_picture(image: Image.Image) -> Image.Image:
    """The picture in grey with little contrast, so that the colours over it stay near those of the colour bar."""
    red, green, blue = (np.asarray(image, dtype=np.float64)[..., channel] for channel in range(3))
    grey = 40 + (0.299 * red + 0.587 * green + 0.114 * blue) * 0.8
    return Image.fromarray(np.rint(grey).astype(np.uint8))
