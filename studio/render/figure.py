"""The layout of a figure: panels over the picture in grey, numbers, colour bars, and what it shows in words."""

from collections.abc import Sequence

from PIL import Image

from studio.frame import on_preview, preview, shown_window
from studio.recipe import Recipe
from studio.render.captions import bar_text, caption_lines, heading, map_names
from studio.render.layout import (
    FACT,
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
    number_lines,
    text_lines,
)
from studio.render.numbers import numbers_of
from studio.render.over_picture import (
    between_kept,
    cell_lines,
    finer,
    grey_picture,
    hatched_aside,
    hatched_zeros,
    inside,
    outlined,
    refusal,
    unseen,
)
from studio.render.ramps import colours, stops_of
from studio.render.ranges import Shown
from studio.render.shapes import Cells, Clip, Drawn, Photo, Place, Shape, Words, shortened


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
    columns = columns_of(len(shown), grey.height / grey.width)
    shapes: list[Shape] = []
    top = MARGIN + 27
    for left, panel in zip(columns.lefts, shown, strict=True):
        shapes += _header(panel, left, columns.width)
        place = Place(left, top, columns.picture_width, columns.picture_height)
        shapes += _picture(recipe, panel, place, grey, window)
    bottom = top + columns.picture_height
    facts = [_facts(panel, left, bottom + 11, columns.width) for left, panel in zip(columns.lefts, shown, strict=True)]
    shapes += [shape for part, _ in facts for shape in part]
    bottom = max(end for _, end in facts)
    bars, bottom = _bars(recipe, shown, columns, bottom + 4)
    lines = caption_lines(recipe, shown, window, note)
    words, baseline = text_lines(lines, bottom + 10)
    title = f"{map_names(shown)} over {recipe.picture.name or 'a picture'}"
    return Drawn(WIDTH, baseline + MARGIN - SMALL, (*shapes, *bars, *words), title, " ".join(lines))


def _header(panel: Shown, left: float, width: float) -> list[Shape]:
    name, model, remark = heading(panel)
    return [
        Words(left, MARGIN + 7, shortened(name, width, HEAD, bold=True), HEAD, bold=True, colour=INK),
        Words(left, MARGIN + 15, shortened(model, width, FACT), FACT, colour=SOFT),
        Words(left, MARGIN + 23, shortened(remark, width, FACT), FACT, colour=SOFT),
    ]


def _picture(
    recipe: Recipe, panel: Shown, place: Place, grey: Image.Image, window: tuple[int, int, int, int]
) -> list[Shape]:
    reading = panel.reading
    seen = inside(place, on_preview(reading.look.geometry.seen_box, window))
    parts: list[Shape] = [Photo(place, grey)]
    if not reading.message:
        parts += [_cells(recipe, panel, seen), *cell_lines(seen, *panel.values.shape)]
        parts += hatched_zeros(seen, (panel.values == 0) & ~panel.aside)
        parts += hatched_aside(seen, panel.aside)
    parts += unseen(place, seen)
    if reading.patch is not None:
        parts += outlined(seen, *reading.patch, reading.grid.rows, reading.grid.cols)
    if reading.message:
        parts += refusal(place, reading.message)
    return [Clip(place, tuple(parts))]


def _cells(recipe: Recipe, panel: Shown, seen: Place) -> Cells:
    """Exact zeros have no colour; so smooth a drawing cannot be that a zero gets one, or that a sink lends one."""
    view, values = recipe.view, panel.values
    drawn = (values != 0) & ~panel.aside
    if view.drawing == "smooth":
        values, drawn = between_kept(values, panel.aside), finer(drawn)
    found = colours(values, panel.top, signed=panel.reading.signed, root=view.ramp == "root")
    return Cells(seen, found, drawn, view.opacity)


def _facts(panel: Shown, left: float, baseline: float, width: float) -> tuple[list[Shape], float]:
    """The numbers of a panel; and the baseline of the line after them."""
    lines = [
        Line(number.label, number.written, (number.control_written,) if number.control_written else ())
        for number in numbers_of(panel.reading)
    ]
    return number_lines(lines, ("A2 shuffled",), left, baseline, width)


def _bars(recipe: Recipe, shown: Sequence[Shown], columns: Columns, top: float) -> tuple[list[Shape], float]:
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
        ends, words = bar_text(recipe.view, [shown[index] for index in sharing])
        bar, bottom = colour_bar(left, top, width, stops_of(key[1]), ends, words)
        shapes += bar
        lowest = max(lowest, bottom)
    return shapes, lowest
