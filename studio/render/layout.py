"""The layout that all figures share, in points: columns, numbers with their controls, colour bars, lines of text."""

from collections.abc import Sequence
from dataclasses import dataclass

from studio.render.shapes import Anchor, Bar, Place, Shape, Words, shortened, text_width, wrapped

WIDTH = 510.0  # 180 mm, two columns of most journals
MARGIN, GAP = 10.0, 10.0
HEAD, FACT, SMALL = 8.5, 6.2, 5.8
INK, SOFT = "#1f2933", "#55636f"
_MOST_HIGH = 250.0
_LINE, _HEAD_LINE = 8.2, 6.4  # from one number to the next, from one line of a head to the next


@dataclass(frozen=True)
class Columns:
    """Where the panels of a row stand: left edges, their width, and the size of the picture in each."""

    lefts: tuple[float, ...]
    width: float
    picture_width: float
    picture_height: float


def columns_of(count: int, ratio: float) -> Columns:
    """Columns for pictures of height / width `ratio`.

    One panel is as wide as one of two, and no picture is higher than it should be.
    """
    slots = max(count, 2)
    width = (WIDTH - 2 * MARGIN - GAP * (slots - 1)) / slots
    height = min(width * ratio, _MOST_HIGH)
    lefts = tuple(MARGIN + index * (width + GAP) for index in range(count))
    return Columns(lefts, width, height / ratio, height)


@dataclass(frozen=True)
class Line:
    """One number under a panel as it is written, and those of the controls beside it, "" for none."""

    label: str
    value: str
    controls: tuple[str, ...] = ()

    def has(self, at: int) -> bool:
        """Whether there is a number of the control at that place."""
        return self.controls[at : at + 1] not in ((), ("",))


def head_rows(lines: Sequence[Line], controls: Sequence[str], width: float) -> int:
    """How many lines the heads over the controls' columns take, 0 where no number has a control."""
    return max((len(head) for head in _heads(_used(lines, len(controls)), controls, width)), default=0)


def number_lines(
    lines: Sequence[Line], controls: Sequence[str], left: float, baseline: float, width: float
) -> tuple[list[Shape], float]:
    """Numbers line by line, a column for each control that has any; and the baseline of the line after them.

    Args:
        lines: from top to bottom.
        controls: what stands over the controls' columns, in the order of `Line.controls`.
        left, width: of the panel.
        baseline: of the last line of the heads. Panels side by side have it in common, whether they have heads or not,
            so that their numbers stand side by side too.
    """
    used = _used(lines, len(controls))
    column = _column(len(used), width)
    first = left + width - column * len(used)
    rights = {at: first + column * (place + 1) for place, at in enumerate(used)}
    shapes: list[Shape] = []
    for at, head in zip(used, _heads(used, controls, width), strict=True):
        start = baseline - _HEAD_LINE * (len(head) - 1)
        shapes += [
            Words(rights[at], start + _HEAD_LINE * place, part, SMALL, colour=SOFT, anchor="end")
            for place, part in enumerate(head)
        ]
    baseline += _LINE
    for line in lines:
        value = shortened(line.value, 0.75 * (first - left), FACT)
        shapes.append(Words(first, baseline, value, FACT, colour=INK, anchor="end"))
        shapes += [
            Words(rights[at], baseline, line.controls[at], FACT, colour=SOFT, anchor="end")
            for at in used
            if line.has(at)
        ]
        for label in wrapped(line.label, first - left - text_width(value, FACT) - 3, FACT) or [""]:
            shapes.append(Words(left, baseline, label, FACT, colour=SOFT))
            baseline += _LINE
    return shapes, baseline


def _used(lines: Sequence[Line], controls: int) -> list[int]:
    return [at for at in range(controls) if any(line.has(at) for line in lines)]


def _column(used: int, width: float) -> float:
    return 38.0 if width > 150 else 28.0 if used < 2 else 26.5


def _heads(used: Sequence[int], controls: Sequence[str], width: float) -> list[list[str]]:
    """The heads in lines; one alone has the room of the numbers too."""
    room = _column(len(used), width) - 1 if len(used) > 1 else 2 * _column(1, width)
    return [wrapped(controls[at], room, SMALL) for at in used]


def colour_bar(
    left: float, top: float, width: float, stops: tuple[str, ...], ends: tuple[str, str, str], words: str
) -> tuple[list[Shape], float]:
    """A colour bar over what stands at its low end, middle and high end, and what it counts; and where that ends."""
    shapes: list[Shape] = [Bar(Place(left, top, width, 6.0), stops)]
    anchors: tuple[tuple[float, Anchor], ...] = (
        (left, "start"),
        (left + width / 2, "middle"),
        (left + width, "end"),
    )
    shapes += [
        Words(x, top + 13, text, SMALL, colour=INK, anchor=anchor)
        for (x, anchor), text in zip(anchors, ends, strict=True)
    ]
    baseline = top + 21
    for line in wrapped(words, width, SMALL):
        shapes.append(Words(left + width / 2, baseline, line, SMALL, colour=SOFT, anchor="middle"))
        baseline += 7.4
    return shapes, baseline


def text_lines(lines: Sequence[str], baseline: float) -> tuple[list[Shape], float]:
    """Sentences over the whole width, each on lines of its own; and the baseline of the line after them."""
    shapes: list[Shape] = []
    for line in lines:
        for text in wrapped(line, WIDTH - 2 * MARGIN, SMALL):
            shapes.append(Words(MARGIN, baseline, text, SMALL, colour=SOFT))
            baseline += SMALL * 1.42
    return shapes, baseline
