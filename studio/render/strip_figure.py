"""The figure of a strip: its panels in rows of up to four, numbers, colour bars, classes, words."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from studio.render.layout import (
    FACT,
    GAP,
    HEAD,
    INK,
    MARGIN,
    SMALL,
    SOFT,
    WIDTH,
    Columns,
    Line,
    colour_bar,
    columns_of,
    head_rows,
    number_lines,
    text_lines,
)
from studio.render.over_picture import grey_picture
from studio.render.ramps import stops_of
from studio.render.shapes import Drawn, Hatching, Place, Shape, Words, shortened, text_width, wrapped
from studio.render.strip_panel import OTHER_COLOUR, class_colours, panel_picture, range_of, tops_of
from studio.render.strip_words import TITLES, bar_words, caption_of
from studio.render.words_figure import words_shapes
from studio.strip import MapPanel, Strip
from studio.tab_recipe import Style, TabRecipe

MOST_IN_ROW = 4
_BARS_IN_ROW = (2, 3)  # the fewest, which are no wider than that, and the most
_SWATCH = 6.0


def strip_figure(strip: Strip, recipe: TabRecipe, note: str = "") -> Drawn:
    """The figure of a strip.

    Args:
        strip: what is shown.
        recipe: how it is drawn, and what the words below name.
        note: a further sentence for the caption.
    """
    picture, style = recipe.over
    grey = grey_picture(strip.shown)
    tops = tops_of(strip.panels)
    shapes: list[Shape] = []
    bottom = MARGIN
    rows = rows_of(strip)
    for row in rows:
        columns = columns_of(len(rows[0]), grey.height / grey.width)
        header, top = _headers(row, columns, bottom)
        shapes += header
        for left, panel in zip(columns.lefts, row, strict=False):
            place = Place(left, top, columns.picture_width, columns.picture_height)
            shapes.append(panel_picture(strip, panel, tops.get(range_of(panel), 0.0), style, place, grey))
        numbers, bottom = _numbers(row, columns, top + columns.picture_height)
        shapes += numbers
    bars, bottom = _bars(strip.panels, tops, style, bottom)
    legend, bottom = _legend(strip, bottom)
    texts, bottom = words_shapes(strip.texts, bottom)
    lines = caption_of(strip, recipe, note)
    words, bottom = text_lines(lines, bottom + 8)
    title = f"{TITLES[recipe.tab]} over {picture.name or 'a picture'}"
    return Drawn(WIDTH, bottom + MARGIN - SMALL, (*shapes, *bars, *legend, *texts, *words), title, " ".join(lines))


def rows_of(strip: Strip) -> list[tuple[MapPanel, ...]]:
    """The panels in rows of about equal length; those that belong together are not parted."""
    together = min(strip.together, MOST_IN_ROW)
    groups = math.ceil(len(strip.panels) / together)
    rows = math.ceil(groups / (MOST_IN_ROW // together))
    long = math.ceil(groups / rows) * together
    return [strip.panels[start : start + long] for start in range(0, len(strip.panels), long)]


def _headers(row: Sequence[MapPanel], columns: Columns, top: float) -> tuple[list[Shape], float]:
    """Titles, models and badges, which stand on the pictures however many lines they have; and where pictures begin."""
    found = [_header(panel, columns.width) for panel in row]
    high = max(height for _, height in found)
    shapes: list[Shape] = []
    for left, (words, height) in zip(columns.lefts, found, strict=False):
        shapes += [replace(line, x=left, y=line.y + top + high - height) for line in words]
    return shapes, top + high


def _header(panel: MapPanel, width: float) -> tuple[list[Words], float]:
    """The words over a panel, from y = 0, and how high they are."""
    words, y = [], 0.0
    for line in _at_most(panel.title, width, HEAD, 3, bold=True):
        y += 9.6
        words.append(Words(0, y - 1.6, line, HEAD, bold=True, colour=INK))
    for text in (panel.of, " · ".join(panel.badges)):
        for line in _at_most(text, width, FACT, 3):
            y += 8.0
            words.append(Words(0, y - 1.0, line, FACT, colour=SOFT))
    return words, y + 3.0


def _at_most(text: str, width: float, size: float, most: int, bold: bool = False) -> list[str]:
    """The text in at most so many lines, of which the last is cut."""
    lines = wrapped(text, width, size, bold)
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], shortened(" ".join(lines[most - 1 :]), width, size, bold)]


def _numbers(row: Sequence[MapPanel], columns: Columns, top: float) -> tuple[list[Shape], float]:
    """The numbers under a row of pictures; and where the next row begins."""
    found = [[Line(fact.label, fact.value, fact.controls) for fact in panel.facts] for panel in row]
    heads = max(head_rows(lines, panel.controls, columns.width) for lines, panel in zip(found, row, strict=True))
    baseline = top + 2 + 6.8 * heads
    shapes: list[Shape] = []
    bottom = top
    for left, panel, lines in zip(columns.lefts, row, found, strict=False):
        if lines:
            parts, end = number_lines(lines, panel.controls, left, baseline, columns.width)
            shapes += parts
            bottom = max(bottom, end)
    return shapes, bottom + 6


def _bars(
    panels: Sequence[MapPanel], tops: Mapping[tuple[str, str], float], style: Style, top: float
) -> tuple[list[Shape], float]:
    """A colour bar for each range; and where the lowest text ends."""
    shapes: list[Shape] = []
    in_row = min(max(len(tops), _BARS_IN_ROW[0]), _BARS_IN_ROW[1])
    width = (WIDTH - 2 * MARGIN - GAP * (in_row - 1)) / in_row
    lowest = top
    for at, (key, end) in enumerate(tops.items()):
        column = at % in_row
        if not column:
            top = lowest
        panel = next(panel for panel in panels if range_of(panel) == key and not panel.message)
        ends, words = bar_words(panel, end, style)
        stops = stops_of(panel.kind == "signed")
        bar, bottom = colour_bar(MARGIN + column * (width + GAP), top + 2, width, stops, ends, words)
        shapes += bar
        lowest = max(lowest, bottom)
    return shapes, lowest


def _legend(strip: Strip, top: float) -> tuple[list[Shape], float]:
    """A swatch and a name for each class that has a colour of its own, one swatch for all others that are there."""
    areas = [panel.values for panel in strip.panels if panel.kind == "classes" and not panel.message]
    if not areas:
        return [], top
    palette = class_colours(strip)
    entries = [(palette[at], strip.classes[at]) for at in range(len(palette)) if palette[at] != OTHER_COLOUR]
    there = {int(at) for values in areas for at in np.unique(values[~np.isnan(values)])}
    if any(palette[at] == OTHER_COLOUR for at in there):
        entries.append((OTHER_COLOUR, f"{len(palette) - len(entries)} other classes"))
    shapes: list[Shape] = []
    x, y = MARGIN, top + 9
    for colour, name in entries:
        text = shortened(name, WIDTH / 2, FACT)
        width = _SWATCH + 3 + text_width(text, FACT)
        if x > MARGIN and x + width > WIDTH - MARGIN:
            x, y = MARGIN, y + 10
        shapes.append(Hatching((Place(x, y - 5.2, _SWATCH, _SWATCH),), "#ffffff", 9.0, 0.0, f"#{colour}", 1.0))
        shapes.append(Words(x + _SWATCH + 3, y, text, FACT, colour=INK))
        x += width + 10
    return shapes, y + 4
