"""Texts at the ends of lines: beside their lines, apart, within the axes; what finds no room is left out and told."""

import numpy as np
import pytest

from studio.chart import Axis, Curve, Plot
from studio.render.chart_axes import Frame, spans_of
from studio.render.chart_ends import end_labels, end_room
from studio.render.shapes import Place, Polyline, Words


def curve(name: str, end: float, group: str = "a", last: float = 1.0) -> Curve:
    return Curve(name, np.array([0, last, 2]), np.array([0, end, np.nan]), "#112233", group=group, end=name)


def labels(*curves: Curve) -> tuple[dict[str, list[Words]], list[Polyline], int]:
    plot = Plot("", Axis("x", 0, (0, 1)), Axis("y", 2, (0, 1)), curves)
    frame = Frame(Place(100, 100, 100, 100), *spans_of(plot))
    shapes, step = end_labels(plot, frame)
    found: dict[str, list[Words]] = {}
    for shape in shapes:
        if isinstance(shape, Words):
            found.setdefault(shape.text, []).append(shape)
    return found, [shape for shape in shapes if isinstance(shape, Polyline)], step


def test_a_text_stands_beside_the_last_value_of_its_line() -> None:
    found, leads, step = labels(curve("0", 0.25), curve("1", 0.75, last=0.5))
    assert (len(leads), step) == (0, 1)
    assert found["0"][0].y == pytest.approx(175, abs=2.5)
    assert found["1"][0].y == pytest.approx(125, abs=2.5)
    assert found["0"][0].x > 200
    assert 150 < found["1"][0].x < 165, "a line that ends early has its text there"


def test_texts_that_would_touch_are_moved_apart_and_led_to() -> None:
    found, leads, step = labels(*(curve(str(at), 0.99 + 0.001 * at) for at in range(5)))
    heights = sorted(each.y for texts in found.values() for each in texts)
    assert step == 1
    assert len(heights) == 5
    assert min(np.diff(heights)) > 6
    assert heights[0] >= 100
    assert leads


def test_where_there_is_no_room_every_second_line_has_its_text_within_the_axes() -> None:
    found, _, step = labels(*(curve(str(at), 0.02 + 0.0001 * at) for at in range(24)))
    assert step == 2
    assert sorted(map(int, found)) == list(range(0, 24, 2))
    assert all(100 <= each.y <= 203 for texts in found.values() for each in texts)


def test_a_further_run_has_its_text_where_there_is_room_and_not_where_the_same_stands() -> None:
    found, _, _ = labels(curve("0", 0.5), curve("1", 0.9), curve("0", 0.505, "b"), curve("1", 0.2, "b"))
    assert {name: len(texts) for name, texts in found.items()} == {"0": 1, "1": 2}


def test_lines_without_a_text_take_no_room() -> None:
    bare = Curve("x", np.zeros(2), np.zeros(2), "#112233")
    plot = Plot("", Axis("x"), Axis("y"), (bare,))
    assert end_room(plot) == 0
    assert end_labels(plot, Frame(Place(0, 0, 10, 10), *spans_of(plot))) == ([], 1)
