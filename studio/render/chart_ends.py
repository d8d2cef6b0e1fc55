"""Texts at the ends of lines: beside each, moved apart where they would touch; what finds no room is left out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

import numpy as np

from studio.chart import Curve, Plot, faded
from studio.render.chart_axes import Frame
from studio.render.layout import SMALL
from studio.render.shapes import Polyline, Shape, Words, text_width

_APART = 6.4  # from one text to the next below it
_LEAD = 6.0  # from the end of a line to its text
_MOVED = 1.8  # a text that was moved further than this is led to
_TRIES = (0.0, 3.6, -3.6, 7.2, -7.2)


@dataclass(frozen=True)
class _Label:
    """The text of one curve: where its line ends, and where the text stands."""

    curve: Curve
    end: float
    place: float
    left: float
    y: float


def end_room(plot: Plot) -> float:
    """How wide the texts at the right edge are; 0 where there is none."""
    texts = [curve.end for curve in plot.curves if curve.end]
    return _LEAD + 2 + max(text_width(text, SMALL) for text in texts) if texts else 0.0


def end_labels(plot: Plot, frame: Frame) -> tuple[list[Shape], int]:
    """The texts; and of how many curves one has its text, 1 where all have.

    Those of the first group of curves are moved apart within the axes; where there is no room for all, only every
    second, third ... has its text. Those of further groups stand where there is room beside their ends, and where the
    same text stands there already they need none.
    """
    ended = [_label(curve, frame) for curve in plot.curves if curve.end and np.isfinite(curve.y).any()]
    groups = [list(group) for _, group in groupby(ended, key=lambda label: label.curve.group)]
    if not groups:
        return [], 1
    top, bottom = frame.place.y, frame.place.y + frame.place.h
    room = int((bottom - top) / _APART) + 1
    step = -(-max(len(group) for group in groups) // room)
    shown = _spread(groups[0][::step], top, bottom)
    for label in [each for group in groups[1:] for each in group[::step]]:
        found = _beside(label, shown, top, bottom)
        shown += [found] if found else []
    return [shape for label in shown for shape in _shapes(label)], step


def _label(curve: Curve, frame: Frame) -> _Label:
    last = int(np.flatnonzero(np.isfinite(curve.y))[-1])
    right = frame.place.x + frame.place.w
    end, place = frame.x(float(curve.x[last])), frame.y(float(curve.y[last]))
    return _Label(curve, end, place, (end if end < right - 2 * _LEAD else right) + _LEAD, place)


def _spread(labels: Sequence[_Label], top: float, bottom: float) -> list[_Label]:
    """In the order of their places, moved apart, all between top and bottom."""
    ordered = sorted(labels, key=lambda label: label.place)
    at: list[float] = []
    for label in ordered:
        at.append(min(bottom, max(top, label.place, at[-1] + _APART if at else top)))
    for below, above in pairwise(range(len(at) - 1, -1, -1)):
        at[above] = min(at[above], at[below] - _APART)
    return [replace(label, y=y) for label, y in zip(ordered, at, strict=True)]


def _beside(label: _Label, shown: Sequence[_Label], top: float, bottom: float) -> _Label | None:
    """The text where there is room beside its line's end; None where there is none, or where it stands already."""

    def near(y: float) -> list[_Label]:
        return [other for other in shown if abs(other.y - y) < _APART and abs(other.left - label.left) < 2 * _LEAD]

    if any(other.curve.end == label.curve.end for other in near(label.place)):
        return None
    free = [y for y in (label.place + off for off in _TRIES) if top <= y <= bottom and not near(y)]
    return replace(label, y=free[0]) if free else None


def _shapes(label: _Label) -> list[Shape]:
    curve = label.curve
    # Text has no opacity: a pale line has a pale text by a lighter colour.
    text = Words(label.left, label.y + 0.35 * SMALL, curve.end, SMALL, colour=faded(curve.colour, curve.opacity))
    if abs(label.y - label.place) <= _MOVED:
        return [text]
    ends = ((label.end + 1, label.place), (label.left - 0.8, label.y))
    return [Polyline(ends, curve.colour, 0.5, (), curve.opacity), text]
