"""The figure of token × token maps: a row of matrices for each model, tokens by name, the readout row marked."""

from collections.abc import Sequence
from dataclasses import dataclass

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
    colour_bar,
    text_lines,
)
from studio.render.over_picture import refusal
from studio.render.ramps import colours, stops_of
from studio.render.shapes import (
    Area,
    Cells,
    Drawn,
    Hatching,
    Lines,
    Place,
    Shape,
    Words,
    shortened,
    text_width,
    wrapped,
)
from studio.render.strip_words import TITLES
from studio.render.token_words import badges, bar_text, caption_of, model_words
from studio.tab_recipe import TabRecipe
from studio.text_recipe import TokenStyle
from studio.token_maps import TokenMaps, TokenPanel, drawn_values, is_signed, map_name, top_of, why_nothing

ACCENT = "#0b6e8a"
_MOST_CELL = 15.0
_LEAST_LABEL = 2.6  # points; smaller letters are no letters, also where a figure is made larger
_MOST_ROOM = 62.0  # for the longest token
_SIGN = 8.0  # for the sign of the row that is read out


@dataclass(frozen=True)
class _Matrix:
    """Where the cells of one map stand: corner, side of a cell, room for tokens, and the size of their letters."""

    cell: float
    room: float
    letters: float

    @property
    def labelled(self) -> bool:
        return self.letters >= _LEAST_LABEL


def token_figure(maps: TokenMaps, recipe: TabRecipe, note: str = "") -> Drawn:
    """The figure of the maps.

    Args:
        maps: what is shown.
        recipe: how it is drawn, and what the words below name.
        note: a further sentence for the caption.
    """
    style = recipe.style
    assert isinstance(style, TokenStyle)
    columns = columns_of(maps)
    width = (WIDTH - 2 * MARGIN - GAP * (columns - 1)) / columns
    tops = tops_of(maps, style)
    shapes: list[Shape] = []
    top = MARGIN
    for at, row in enumerate(maps.rows):
        words, top = _heading(row.title, model_words(maps, at, style), top)
        shapes += words
        if row.message:
            parts, top = text_lines([row.message], top + 6)
            shapes += parts
        for start in range(0, len(row.panels), columns):
            parts, top = _panels(row.panels[start : start + columns], style, style.head(at), tops, top, width)
            shapes += parts
        top += 6
    bars, bottom = _bars(maps, style, tops, top)
    named = all(_matrix(panel, width).labelled for row in maps.rows for panel in row.panels if panel.tokens)
    lines = caption_of(maps, recipe, note, named=named)
    words, bottom = text_lines(lines, bottom + 8)
    return Drawn(WIDTH, bottom + MARGIN - SMALL, (*shapes, *bars, *words), TITLES[recipe.tab], " ".join(lines))


def tops_of(maps: TokenMaps, style: TokenStyle) -> dict[bool, float]:
    """The end of the one range of all maps with signs (True) and of all without (False), where there are any."""
    tops: dict[bool, float] = {}
    for at, row in enumerate(maps.rows):
        for panel in row.panels:
            if not why_nothing(panel, style.which):
                signed = is_signed(panel, style.which)
                top = top_of(drawn_values(panel, style, style.head(at)), style)
                tops[signed] = max(tops.get(signed, 0.0), top)
    return tops


def columns_of(maps: TokenMaps) -> int:
    """As many maps in a row as leave all tokens readable, one at least."""
    panels = [panel for row in maps.rows for panel in row.panels if panel.tokens]
    for columns in range(max(len(maps.prompts), 1), 1, -1):
        width = (WIDTH - 2 * MARGIN - GAP * (columns - 1)) / columns
        if all(_matrix(panel, width).labelled for panel in panels):
            return columns
    return 1


def _matrix(panel: TokenPanel, width: float) -> _Matrix:
    longest = max(text_width(token, SMALL) for token in panel.tokens)
    room = min(_MOST_ROOM, longest) + _SIGN
    cell = min(_MOST_CELL, (width - room) / len(panel.tokens))
    # Letters are as high as cells allow, which takes less room, which leaves more for cells.
    letters = min(SMALL, 0.94 * (width - _SIGN) / (len(panel.tokens) + 0.94 * min(_MOST_ROOM, longest) / SMALL))
    if letters < SMALL:
        room = min(_MOST_ROOM, longest) * letters / SMALL + _SIGN
        cell = min(_MOST_CELL, (width - room) / len(panel.tokens))
    if letters < _LEAST_LABEL:
        return _Matrix((width - _SIGN) / len(panel.tokens), _SIGN, letters)
    return _Matrix(cell, room, letters)


def _heading(title: str, said: str, top: float) -> tuple[list[Shape], float]:
    """A model's name and what is said of its maps."""
    shapes: list[Shape] = [Words(MARGIN, top + 9, shortened(title, WIDTH - 2 * MARGIN, HEAD, True), HEAD, bold=True)]
    y = top + 9
    for line in wrapped(said, WIDTH - 2 * MARGIN, FACT):
        y += 8.4
        shapes.append(Words(MARGIN, y, line, FACT, colour=SOFT))
    return shapes, y + 3


def _panels(
    panels: Sequence[TokenPanel], style: TokenStyle, head: int, tops: dict[bool, float], top: float, width: float
) -> tuple[list[Shape], float]:
    """Maps side by side, their corners at one height; and where the lowest ends."""
    heads = [_header(panel, style, head, tops, width) for panel in panels]
    over = max(len(lines) for lines in heads)
    shapes: list[Shape] = []
    bottom = top
    for at, (panel, lines) in enumerate(zip(panels, heads, strict=True)):
        left = MARGIN + at * (width + GAP)
        for place, (text, bold) in enumerate(lines):
            y = top + 8.4 * (over - len(lines) + place + 1)
            shapes.append(Words(left, y, text, FACT, bold=bold, colour=INK if bold else SOFT))
        parts, end = _panel(panel, style, head, tops, Place(left, top + 8.4 * over + 3, width, 0))
        shapes += parts
        y = end + 2
        left_out = "" if why_nothing(panel, style.which) else panel.left
        for said in filter(None, (*panel.warnings, left_out)):
            for line in wrapped(said, width, SMALL):
                y += 7.4
                shapes.append(Words(left, y, line, SMALL, colour=SOFT))
        bottom = max(bottom, y)
    return shapes, bottom + 6


def _header(
    panel: TokenPanel, style: TokenStyle, head: int, tops: dict[bool, float], width: float
) -> list[tuple[str, bool]]:
    """(line, whether bold) over a map: the prompt, the map's name, what is special of it."""
    prompt = wrapped(f"“{panel.text}”", width, FACT, bold=True)
    if len(prompt) > 2:
        prompt = [prompt[0], shortened(" ".join(prompt[1:]), width, FACT, bold=True)]
    said = badges(panel, style, head, tops)
    name = "" if why_nothing(panel, style.which) else " · ".join([map_name(panel, style.which), *said])
    return [*((line, True) for line in prompt), *((line, False) for line in wrapped(name, width, FACT))]


def _panel(
    panel: TokenPanel, style: TokenStyle, head: int, tops: dict[bool, float], place: Place
) -> tuple[list[Shape], float]:
    """One map below its header; and where it ends."""
    why = why_nothing(panel, style.which)
    if why or panel.masked is None:
        box = Place(place.x, place.y, place.w, 36.0)
        return refusal(box, why), box.y + box.h
    at, count = _matrix(panel, place.w), len(panel.tokens)
    x, y, side = place.x + at.room, place.y + (at.room - _SIGN if at.labelled else 0) + 3, at.cell * count
    seen = Place(x, y, side, side)
    values, signed = drawn_values(panel, style, head), is_signed(panel, style.which)
    filled = np.where(panel.masked, 0.0, values)
    found = colours(filled, tops[signed], signed=signed, root=style.ramp == "root")
    shapes: list[Shape] = []
    if panel.masked.any():
        shapes.append(Hatching(_masked_places(panel.masked, seen), "#b4bdc6", 2.6, 0.35))
    shapes.append(Cells(seen, found, ~panel.masked, 1.0))
    if at.cell >= 4:
        shapes.append(_grid(seen, count))
    if at.labelled:
        shapes += _labels(panel, at, seen)
    return [*shapes, *_readout(panel, at, seen, place.x)], y + side


def _masked_places(masked: np.ndarray, seen: Place) -> tuple[Place, ...]:
    """The masked cells (N, N); neighbours in a row are one place."""
    side = seen.w / len(masked)
    found = []
    for row, line in enumerate(masked):
        edges = np.flatnonzero(np.diff(np.concatenate([[False], line, [False]]).astype(np.int8))).tolist()
        found += [
            Place(seen.x + first * side, seen.y + row * side, (last - first) * side, side)
            for first, last in zip(edges[::2], edges[1::2], strict=True)
        ]
    return tuple(found)


def _grid(seen: Place, count: int) -> Shape:
    side, right, bottom = seen.w / count, seen.x + seen.w, seen.y + seen.h
    down = tuple((seen.x + at * side, seen.y, seen.x + at * side, bottom) for at in range(count + 1))
    across = tuple((seen.x, seen.y + at * side, right, seen.y + at * side) for at in range(count + 1))
    return Lines(down + across, "#808080", 0.25, 0.4)


def _labels(panel: TokenPanel, at: _Matrix, seen: Place) -> list[Shape]:
    """Tokens that read at the left, tokens that are read above, from below to the top."""
    shapes: list[Shape] = []
    drop = 0.35 * at.letters  # half of what a small letter is high
    for place, token in enumerate(panel.tokens):
        centre = (place + 0.5) * at.cell
        text = shortened(token, at.room - _SIGN + 0.1, at.letters)
        own = place == panel.readout
        colour = ACCENT if own else SOFT
        shapes.append(Words(seen.x - 2.5, seen.y + centre + drop, text, at.letters, own, colour, "end"))
        shapes.append(Words(seen.x + centre + drop, seen.y - 2.5, text, at.letters, colour=SOFT, turned=True))
    return shapes


def _readout(panel: TokenPanel, at: _Matrix, seen: Place, left: float) -> list[Shape]:
    """The edge of the row that is read out, and a sign at its left."""
    y = seen.y + panel.readout * at.cell
    right, bottom, middle = seen.x + seen.w, y + at.cell, y + at.cell / 2
    edge = (
        (seen.x, y, right, y),
        (seen.x, bottom, right, bottom),
        (seen.x, y, seen.x, bottom),
        (right, y, right, bottom),
    )
    x = left if at.labelled else seen.x - 6
    sign = Area(((x, middle - 2.3), (x + 4.2, middle), (x, middle + 2.3)), ACCENT)
    return [Lines(edge, ACCENT, 1.0), sign]


def _bars(maps: TokenMaps, style: TokenStyle, tops: dict[bool, float], top: float) -> tuple[list[Shape], float]:
    """A colour bar for each range; and where the lowest text ends."""
    shapes: list[Shape] = []
    width = (WIDTH - 2 * MARGIN - GAP) / 2
    lowest = top
    for at, signed in enumerate(sorted(tops)):
        ends, words = bar_text(maps, style, signed, tops[signed])
        bar, bottom = colour_bar(MARGIN + at * (width + GAP), top + 2, width, stops_of(signed), ends, words)
        shapes += bar
        lowest = max(lowest, bottom)
    return shapes, lowest
