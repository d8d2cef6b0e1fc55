"""The figure of a chart: plots in rows with axes, curves, bands and signs, a legend with dashes, numbers, words."""

from itertools import groupby

import numpy as np

from studio.chart import BAND, Chart, Curve, Mark, Plot
from studio.recipe import Picture
from studio.render.chart_axes import Frame, spans_of, tick_text, ticks_of
from studio.render.chart_ends import end_labels, end_room
from studio.render.layout import FACT, HEAD, INK, MARGIN, SMALL, SOFT, WIDTH, text_lines
from studio.render.shapes import (
    Area,
    Clip,
    Disc,
    Drawn,
    Lines,
    Place,
    Polyline,
    Shape,
    Words,
    shortened,
    text_width,
    wrapped,
)
from studio.render.sources import model_line, picture_line, text_model_line
from studio.render.strip_words import TITLES
from studio.tab_recipe import TabRecipe

_GAP, _HIGH = 20.0, 158.0  # between plots; between the ends of a y axis
_GRID, _AXIS, _SHADE = "#dde3e8", "#8a959f", "#84909c"
_PIXEL = 0.62  # points for one pixel of the page
_DASHES: dict[str, tuple[float, ...]] = {
    "solid": (),
    "dash": (5.0, 2.6),
    "dot": (1.3, 1.7),
    "dashdot": (5.0, 2.2, 1.3, 2.2),
    "longdash": (9.5, 3.2),
    "longdashdot": (8.5, 2.2, 1.3, 2.2),
}
_SAMPLE = 20.0  # length of a line in the legend


def chart_figure(chart: Chart, recipe: TabRecipe, note: str = "") -> Drawn:
    """The figure of a chart.

    Args:
        chart: what is drawn.
        recipe: what the words below name.
        note: a further sentence for the caption.
    """
    shapes, top = _heading(chart.heading)
    # A plot alone takes the width.
    columns = min(chart.columns, len(chart.plots))
    width = (WIDTH - 2 * MARGIN - _GAP * (columns - 1)) / columns
    told = [plot for plot in chart.plots if _entries(plot)]
    shared = len({_entries(plot) for plot in told}) == 1
    for start in range(0, len(chart.plots), columns):
        row = chart.plots[start : start + columns]
        over = max(_head_height(plot, width) for plot in row)
        bottom = top
        for at, plot in enumerate(row):
            parts, end = _plot(plot, MARGIN + at * (width + _GAP), top + over, width, legend=not shared)
            shapes += parts
            bottom = max(bottom, end)
        top = bottom + 6
    if shared:
        legend, top = _legend(told[0], MARGIN, top - 6, WIDTH - 2 * MARGIN)
        shapes += legend
    lines = caption_of(chart, recipe, note)
    words, bottom = text_lines(lines, top + 6)
    title = f"{TITLES[recipe.tab]}{_of(recipe.picture)}"
    return Drawn(WIDTH, bottom + MARGIN - SMALL, (*shapes, *words), title, " ".join(lines))


def caption_of(chart: Chart, recipe: TabRecipe, note: str) -> list[str]:
    """The lines below the plots, `note` last."""
    line = text_model_line if recipe.picture is None else model_line
    lines = [*chart.notes, *(line(found) for found in recipe.models if found.name in recipe.settings.shown)]
    if recipe.picture is not None:
        lines.append(picture_line(recipe.picture, (0, 0, recipe.picture.height, recipe.picture.width)))
    return [line for line in (text.strip() for text in (*lines, note)) if line]


def _of(picture: Picture | None) -> str:
    return "" if picture is None else f" of {picture.name or 'a picture'}"


def _heading(text: str) -> tuple[list[Shape], float]:
    shapes: list[Shape] = []
    top = MARGIN
    for line in wrapped(text, WIDTH - 2 * MARGIN, HEAD + 1, bold=True):
        top += 11.5
        shapes.append(Words(MARGIN, top - 2, line, HEAD + 1, bold=True, colour=INK))
    return shapes, top + 2


def _titles(plot: Plot, width: float) -> tuple[list[str], list[str]]:
    return wrapped(plot.title, width, HEAD, bold=True)[:2], wrapped(plot.subtitle, width, FACT)[:2]


def _head_height(plot: Plot, width: float) -> float:
    """How high what stands over the axes is: titles, and what the y axis counts."""
    title, subtitle = _titles(plot, width)
    return 10.5 * len(title) + 8 * len(subtitle) + (16 if _counted(plot) else 6)


def _counted(plot: Plot) -> str:
    """What the y axis counts, "" where the title says it already."""
    return "" if plot.y.label.lower() == plot.title.lower() else plot.y.label


def _plot(plot: Plot, left: float, top: float, width: float, *, legend: bool) -> tuple[list[Shape], float]:
    """One plot whose axes begin at `top`; and where it ends, with its legend and its numbers."""
    x_span, y_span = spans_of(plot)
    rises, step = ticks_of(y_span, 6)
    labels = [tick_text(value, step) for value in rises]
    room = max((text_width(label, SMALL) for label in labels), default=0) + 4
    frame = Frame(Place(left + room, top, width - room - max(4, end_room(plot)), _HIGH), x_span, y_span)
    x, right, bottom = frame.place.x, frame.place.x + frame.place.w, top + _HIGH
    runs, stride = ticks_of(x_span, 7 if width > 200 else 5)
    heights, places = [frame.y(value) for value in rises], [frame.x(value) for value in runs]
    grid = [(x, y, right, y) for y in heights] + [(at, top, at, bottom) for at in places]
    shapes = [
        *_words_over(plot, left, top, width),
        *_shaded(plot, frame),
        Lines(tuple(grid), _GRID, 0.5),
        Lines(tuple((at, bottom, at, bottom + 2.5) for at in places), _AXIS, 0.6),
    ]
    for y, label in zip(heights, labels, strict=True):
        shapes.append(Words(x - 3, y + 2, label, SMALL, colour=SOFT, anchor="end"))
    for at, value in zip(places, runs, strict=True):
        shapes.append(Words(at, bottom + 9, tick_text(value, stride), SMALL, colour=SOFT, anchor="middle"))
    shapes.append(Clip(frame.place, tuple(_curves(plot, frame))))
    shapes.append(Lines(((x, top, x, bottom), (x, bottom, right, bottom)), _AXIS, 0.6))
    ends, step = end_labels(plot, frame)
    shapes += ends
    if step > 1:
        said = f"one line in {step} has its number"
        shapes.append(Words(left + width, top - 5, said, SMALL, colour=SOFT, anchor="end"))
    shapes += [_sign(mark, frame) for mark in plot.marks if np.isfinite([mark.x, mark.y]).all()]
    label = shortened(plot.x.label, frame.place.w, FACT)
    shapes.append(Words((x + right) / 2, bottom + 18, label, FACT, colour=INK, anchor="middle"))
    end = bottom + 22
    if legend:
        parts, end = _legend(plot, left, end, width)
        shapes += parts
    facts, end = _facts(plot, left, end, width)
    return [*shapes, *facts], end


def _words_over(plot: Plot, left: float, top: float, width: float) -> list[Shape]:
    title, subtitle = _titles(plot, width)
    counted = _counted(plot)
    shapes: list[Shape] = [Words(left, top - 5, shortened(counted, width, FACT), FACT, colour=INK)] if counted else []
    y = top - (16 if counted else 6)
    for line in reversed(subtitle):
        shapes.append(Words(left, y, line, FACT, colour=SOFT))
        y -= 8
    for line in reversed(title):
        shapes.append(Words(left, y - 0.5, line, HEAD, bold=True, colour=INK))
        y -= 10.5
    return shapes


def _shaded(plot: Plot, frame: Frame) -> list[Shape]:
    found: list[Shape] = []
    for low, high in plot.spans:
        left, right = (min(max(frame.x(end), frame.place.x), frame.place.x + frame.place.w) for end in (low, high))
        top, bottom = frame.place.y, frame.place.y + frame.place.h
        found.append(Area(((left, top), (right, top), (right, bottom), (left, bottom)), _SHADE, 0.13))
    return found


def _curves(plot: Plot, frame: Frame) -> list[Shape]:
    """Bands below all lines, then the lines, each in the parts between places without a value."""
    bands: list[Shape] = []
    lines: list[Shape] = []
    for curve in plot.curves:
        there = np.isfinite(curve.x) & np.isfinite(curve.y)
        for part in _runs(there):
            x, y = curve.x[part], curve.y[part]
            points = frame.points(x, y)
            if curve.spread is not None:
                spread = np.nan_to_num(curve.spread[part])
                edge = (*frame.points(x, y + spread), *frame.points(x[::-1], (y - spread)[::-1]))
                bands.append(Area(edge, curve.colour, BAND))
            lines.append(_line(curve, points))
            if curve.dots or len(points) == 1:
                lines += [Disc(*point, 1.5, curve.colour) for point in points]
    return [*bands, *lines]


def _line(curve: Curve, points: tuple[tuple[float, float], ...]) -> Polyline:
    return Polyline(points, curve.colour, curve.width * _PIXEL, _DASHES[curve.dash], curve.opacity)


def _runs(there: np.ndarray) -> list[list[int]]:
    """Neighbouring places that are there, together."""
    return [[at for at, _ in group] for known, group in groupby(enumerate(there), key=lambda pair: pair[1]) if known]


def _sign(mark: Mark, frame: Frame) -> Shape:
    x, y, r = frame.x(mark.x), frame.y(mark.y), 3.4
    if mark.sign == "dot":
        return Disc(x, y, 2.2, mark.colour)
    if mark.sign == "triangle":
        return Area(((x, y - 4.8), (x + 3.1, y), (x - 3.1, y)), mark.colour)
    return Area(((x, y - r), (x + r, y), (x, y + r), (x - r, y)), mark.colour)


def _entries(plot: Plot) -> tuple[tuple[str, str, str], ...]:
    """What the legend says, each once, and how it looks."""
    return tuple(dict.fromkeys((curve.entry, curve.colour, curve.dash) for curve in plot.curves if curve.entry))


def _legend(plot: Plot, left: float, top: float, width: float) -> tuple[list[Shape], float]:
    """A piece of each line with what it is called, in as many columns as there is room for."""
    listed: dict[tuple[str, str, str], Curve] = {}
    for curve in plot.curves:
        if curve.entry:
            listed.setdefault((curve.entry, curve.colour, curve.dash), curve)
    if not listed:
        return [], top
    room = width - _SAMPLE - 4
    texts = [shortened(curve.entry, room, FACT) for curve in listed.values()]
    cell = max(text_width(text, FACT) for text in texts) + _SAMPLE + 14
    columns = max(1, int((width + 10) // cell))
    rows = -(-len(texts) // columns)
    shapes: list[Shape] = []
    for at, (curve, text) in enumerate(zip(listed.values(), texts, strict=True)):
        # Down the columns: the curves of one model stand below each other.
        x, y = left + (at // rows) * cell, top + 8 + (at % rows) * 9
        shapes.append(_line(curve, ((x, y - 2), (x + _SAMPLE, y - 2))))
        shapes.append(Words(x + _SAMPLE + 4, y, text, FACT, colour=INK))
    return shapes, top + 8 + rows * 9 - 3


def _facts(plot: Plot, left: float, top: float, width: float) -> tuple[list[Shape], float]:
    """Numbers with those of their controls in columns of their own."""
    if not plot.facts:
        return [], top
    used = [at for at, _ in enumerate(plot.controls) if any(fact.controls[at : at + 1] for fact in plot.facts)]
    columns = [[fact.value for fact in plot.facts]]
    columns += [[fact.controls[at] if fact.controls else "" for fact in plot.facts] for at in used]
    heads = ["", *(plot.controls[at] for at in used)]
    wide = [
        max(text_width(text, FACT) for text in [head, *texts]) + 8 for head, texts in zip(heads, columns, strict=True)
    ]
    rights = [left + width - sum(wide[at + 1 :]) for at in range(len(wide))]
    y = top + 8
    shapes: list[Shape] = [
        Words(right, y, head, SMALL, colour=SOFT, anchor="end")
        for right, head in zip(rights, heads, strict=True)
        if head
    ]
    shapes.append(Words(left, y, shortened(plot.measured, width - sum(wide[1:]), FACT), FACT, bold=True, colour=INK))
    for at, fact in enumerate(plot.facts):
        y += 8.4
        shapes.append(Words(left, y, shortened(fact.label, width - sum(wide), FACT), FACT, colour=SOFT))
        for right, texts, colour in zip(rights, columns, [INK, *[SOFT] * len(used)], strict=True):
            shapes.append(Words(right, y, texts[at], FACT, colour=colour, anchor="end"))
    return shapes, y + 4
