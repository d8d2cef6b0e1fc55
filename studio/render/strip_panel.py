"""One panel of a strip over the picture in grey: the colours of its cells, hatching, and the range it shares."""

from collections.abc import Sequence

import numpy as np
from PIL import Image

from studio.frame import on_preview
from studio.render.over_picture import (
    between,
    cell_lines,
    finer,
    hatched_missing,
    hatched_zeros,
    inside,
    outlined,
    refusal,
    unseen,
)
from studio.render.ramps import colours
from studio.render.shapes import Cells, Clip, Photo, Place, Shape
from studio.strip import MapPanel, Strip
from studio.tab_recipe import Style

# Okabe and Ito's colours, and black; what is beyond them shares the grey. As in the page's viewer/strip_values.js.
CLASS_COLOURS = ("e69f00", "56b4e9", "009e73", "f0e442", "0072b2", "d55e00", "cc79a7", "15181c")
OTHER_COLOUR = "a9b2bb"
_MOST_FINE = 4096  # values that a smooth drawing goes between; more are smooth enough


def class_colours(strip: Strip) -> tuple[str, ...]:
    """A colour for each class, the same on all panels; those without one of their own share the grey."""
    found = [OTHER_COLOUR] * len(strip.classes)
    for at, chosen in enumerate(strip.coloured):
        found[chosen] = CLASS_COLOURS[at % len(CLASS_COLOURS)]
    return tuple(found)


def range_of(panel: MapPanel) -> tuple[str, str]:
    """Panels for which it is the same share a range."""
    return panel.kind, panel.scale


def tops_of(panels: Sequence[MapPanel]) -> dict[tuple[str, str], float]:
    """Where each range ends, in the order of the panels; classes have none."""
    tops: dict[tuple[str, str], float] = {}
    for panel in panels:
        if not panel.message and panel.kind != "classes":
            own = np.abs(panel.values[~np.isnan(panel.values)]).max(initial=0.0)
            tops[range_of(panel)] = max(tops.get(range_of(panel), 0.0), float(own))
    return tops


def panel_picture(strip: Strip, panel: MapPanel, top: float, style: Style, place: Place, grey: Image.Image) -> Clip:
    """A panel in its place.

    Args:
        strip: the panel's.
        panel: what is drawn.
        top: the end of its range.
        style: how it is drawn.
        place: of the picture that is shown.
        grey: that picture.
    """
    seen = inside(place, on_preview(panel.geometry.seen_box, strip.window))
    parts: list[Shape] = [Photo(place, grey)]
    if not panel.message:
        rows, cols = panel.values.shape
        missing = np.isnan(panel.values)
        parts += [_cells(strip, panel, top, style, seen), *cell_lines(seen, rows, cols)]
        parts += hatched_zeros(seen, panel.zeros & (panel.values == 0))
        parts += hatched_missing(seen, missing)
        if panel.marked is not None:
            parts += outlined(seen, *panel.marked, rows, cols)
    parts += unseen(place, seen)
    if panel.message:
        parts += refusal(place, panel.message)
    return Clip(place, tuple(parts))


def _cells(strip: Strip, panel: MapPanel, top: float, style: Style, seen: Place) -> Cells:
    """Exact zeros have no colour where they mean "none at all", and what has no value has none."""
    values = np.asarray(panel.values, np.float64)
    missing = np.isnan(values)
    if panel.kind == "classes":
        table = [[int(colour[at : at + 2], 16) for at in (0, 2, 4)] for colour in class_colours(strip)]
        return Cells(seen, np.array(table, np.uint8)[np.where(missing, 0, values).astype(int)], ~missing, style.opacity)
    drawn = ~missing & ~(panel.zeros & (values == 0))
    if style.drawing == "smooth" and values.size <= _MOST_FINE:
        # Between places where one has no value, a cell has its own value up to its edge.
        own, fine = finer(values), between(values)
        values, drawn = np.where(np.isnan(fine), own, fine), finer(drawn)
    filled = np.where(np.isnan(values), 0.0, values)
    found = colours(filled, top, signed=panel.kind == "signed", root=style.ramp == "root")
    return Cells(seen, found, drawn, style.opacity)
