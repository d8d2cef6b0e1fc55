"""Words with their scores, below the maps of a figure: a box for each token, coloured on one scale over all texts."""

import math
from collections.abc import Sequence
from itertools import groupby

from studio.render.layout import FACT, GAP, INK, MARGIN, SMALL, SOFT, WIDTH
from studio.render.shapes import Hatching, Lines, Place, Shape, Words, shortened, text_width, wrapped
from studio.scored_texts import ScoredText, WordScale, word_scale

# The page's colours and its share of the full one, from viewer/explained.css.
FOR, AGAINST, FULL = "#e08214", "#8064b5", 0.62
_TITLE, _TOKEN = 7.5, 6.8
_OF = 100.0  # points that a model's name takes
_LEFT = MARGIN + _OF + GAP
_BOX, _ROW, _PAD, _APART = 10.4, 20.6, 3.4, 3.0
_DASH, _GAP = 1.7, 1.3


def words_shapes(texts: Sequence[ScoredText], top: float) -> tuple[list[Shape], float]:
    """The words of each text for each model; and where the lowest ends."""
    if not texts:
        return [], top
    scale = word_scale(texts)
    shapes: list[Shape] = []
    y = top + 14
    for text, group in groupby(texts, key=lambda each: each.text):
        for line in wrapped(f"“{text}”", WIDTH - 2 * MARGIN, _TITLE, bold=True):
            shapes.append(Words(MARGIN, y, line, _TITLE, bold=True, colour=INK))
            y += 9.0
        y -= 4.0
        for each in group:
            line, y = _line(each, scale, y)
            shapes += line
        y += 9.0
    legend, y = _legend(texts[0].unit, scale, y)
    return [*shapes, *legend], y


def _line(each: ScoredText, scale: WordScale, top: float) -> tuple[list[Shape], float]:
    """One model's tokens beside its name; and where the line ends."""
    shapes: list[Shape] = []
    y = top + 7.0
    for text, size in ((each.of, FACT), (each.layers, SMALL)):
        for line in wrapped(text, _OF, size):
            shapes.append(Words(MARGIN, y, line, size, colour=INK if size == FACT else SOFT))
            y += size + 1.6
    bottom = y - 4.0
    y = top
    if each.values is not None:
        tokens, y = _tokens(each, scale, top)
        shapes += tokens
    for line in [part for said in each.told for part in wrapped(said, WIDTH - MARGIN - _LEFT, SMALL)]:
        y += 7.4
        shapes.append(Words(_LEFT, y, line, SMALL, colour=SOFT))
    return shapes, max(y + 3.0, bottom) + 2.0


def _tokens(each: ScoredText, scale: WordScale, top: float) -> tuple[list[Shape], float]:
    assert each.values is not None
    shapes: list[Shape] = []
    x, y = _LEFT, top
    for piece, value in zip(each.pieces, each.values.tolist(), strict=True):
        word = math.isfinite(value)
        text = shortened(piece, WIDTH - MARGIN - _LEFT - 2 * _PAD, _TOKEN)
        figure = scale.written(value) if word else ""
        width = max(text_width(text, _TOKEN) + 2 * _PAD, text_width(figure, SMALL) + 1.0)
        if x > _LEFT and x + width > WIDTH - MARGIN:
            x, y = _LEFT, y + _ROW
        box, middle = Place(x, y, width, _BOX), x + width / 2
        if word:
            hue, weight = AGAINST if value < 0 else FOR, round(FULL * scale.share(value), 3)
            shapes += [Hatching((box,), "#ffffff", 9.0, 0.0, hue, weight)] if weight else []
            shapes.append(Lines(_edge(box), "#808080", 0.35, 0.5))
        else:
            shapes.append(Lines(tuple(dash for side in _edge(box) for dash in _dashes(*side)), "#808080", 0.35, 0.8))
        shapes.append(Words(middle, y + 7.5, text, _TOKEN, colour=INK if word else SOFT, anchor="middle"))
        shapes.append(Words(middle, y + _BOX + 6.4, figure, SMALL, colour=SOFT, anchor="middle"))
        x += width + _APART
    return shapes, y + _BOX + 7.0


def _edge(box: Place) -> tuple[tuple[float, float, float, float], ...]:
    right, bottom = box.x + box.w, box.y + box.h
    return (
        (box.x, box.y, right, box.y),
        (box.x, bottom, right, bottom),
        (box.x, box.y, box.x, bottom),
        (right, box.y, right, bottom),
    )


def _dashes(x0: float, y0: float, x1: float, y1: float) -> list[tuple[float, float, float, float]]:
    """A line in dashes: tokens that are no words have no score."""
    length = math.hypot(x1 - x0, y1 - y0)
    count = max(1, round(length / (_DASH + _GAP)))
    step, share = 1.0 / count, _DASH / (_DASH + _GAP)
    ends = [(at * step, (at + share) * step) for at in range(count)]
    return [(x0 + a * (x1 - x0), y0 + a * (y1 - y0), x0 + b * (x1 - x0), y0 + b * (y1 - y0)) for a, b in ends]


def _legend(unit: str, scale: WordScale, top: float) -> tuple[list[Shape], float]:
    """What the numbers are and what the two colours say."""
    y = top + 4.0
    power = f", in 10{_raised(scale.power)}" if scale.power else ""
    text = f"Words: {unit}{power}; one scale for all words. Dashed: no word, no score."
    shapes: list[Shape] = [Words(MARGIN, y, text, SMALL, colour=SOFT)]
    x = MARGIN + text_width(text, SMALL) + 10
    for hue, said in ((FOR, "speaks for the match"), (AGAINST, "against it")):
        shapes.append(Hatching((Place(x, y - 4.6, 5.5, 5.5),), "#ffffff", 9.0, 0.0, hue, FULL))
        shapes.append(Words(x + 8, y, said, SMALL, colour=SOFT))
        x += 8 + text_width(said, SMALL) + 10
    return shapes, y + 4.0


def _raised(power: int) -> str:
    return str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
