"""The figure of a chart: axes with round numbers, curves where their values are, dashes and bands in both outputs."""

import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from models import StudioError
from studio.chart import Axis, Chart, Curve, Mark, Plot, Table
from studio.chart_recipe import DuelSettings
from studio.recipe import VERSION, Found, Picture
from studio.render.chart_axes import spans_of, tick_text, ticks_of
from studio.render.chart_figure import chart_figure
from studio.render.raster import dashed, raster
from studio.render.shapes import Area, Clip, Disc, Drawn, Polyline, Words
from studio.render.vector import svg_text
from studio.tab_recipe import TabRecipe

X = np.array([0.0, 1.0, 2.0, 3.0])
PLOT = Plot(
    "Title",
    Axis("steps, %", 0),
    Axis("height", 3, (0.0, 1.0)),
    (
        Curve("a <b>", X, np.array([0.0, 0.5, np.nan, 1.0]), "#ff0000", "dash"),
        Curve("control", X, np.full(4, 0.5), "#0000ff", spread=np.full(4, 0.25), legend=""),
    ),
    (Mark(1.5, 0.25, "#00ff00", "learned"),),
    ((0.5, 1.0),),
)


def recipe(model: Found) -> TabRecipe:
    settings = DuelSettings("a cat", (model.name, model.name), "last layer", "black", 4)
    return TabRecipe(VERSION, "duel", Picture("0" * 32, 64, 48, "cat.png"), settings, None, (model,), {})


@pytest.fixture
def found(service: object) -> Found:
    from studio.provenance import model_found

    model = service.model("clip-scenes")  # type: ignore[attr-defined]
    return model_found("clip-scenes", model, "ab" * 32)


def drawn(found: Found, *plots: Plot, note: str = "") -> Drawn:
    chart = Chart("Heading", plots, ("A note.",), {"x": X}, Table(("a",), ()))
    return chart_figure(chart, recipe(found), note)


def inside(figure: Drawn, kind: type) -> list:
    clips = [shape for shape in figure.shapes if isinstance(shape, Clip)]
    return [part for clip in clips for part in clip.shapes if isinstance(part, kind)]


def test_curves_lie_where_their_values_are_and_stop_where_there_is_none(found: Found) -> None:
    figure = drawn(found, PLOT)
    (clip,) = [shape for shape in figure.shapes if isinstance(shape, Clip)]
    place = clip.place
    first, second, control = inside(figure, Polyline)
    wanted = np.array([(place.x, place.y + place.h), (place.x + place.w / 3, place.y + place.h / 2)])
    assert np.array(first.points) == pytest.approx(wanted)
    assert np.array(second.points) == pytest.approx(np.array([(place.x + place.w, place.y)]))
    assert len(inside(figure, Disc)) == 1, "a value without neighbours is a dot"
    assert len(control.points) == 4
    (band,) = inside(figure, Area)
    assert {round((place.y + place.h - y) / place.h, 6) for _, y in band.points} == {0.25, 0.75}


def test_the_figure_says_what_was_drawn_of_which_models_and_picture(found: Found) -> None:
    figure = drawn(found, PLOT, note="Drawn with others.")
    said = [shape.text for shape in figure.shapes if isinstance(shape, Words)]
    for text in ("Heading", "Title", "steps, %", "height", "a <b>", "A note.", "Drawn with others."):
        assert text in said
    assert "control" not in said, "the legend leaves out what has no entry"
    assert any(found.title in text and "weights sha256 abababababab" in text for text in said)
    assert any("cat.png" in text for text in said)
    assert figure.title == "A duel of maps of cat.png"


def test_plots_with_one_legend_have_it_once_and_others_their_own(found: Found) -> None:
    def legends(figure: Drawn, text: str) -> int:
        return sum(isinstance(shape, Words) and shape.text == text for shape in figure.shapes)

    other = replace(PLOT, curves=(replace(PLOT.curves[0], name="another"),))
    assert legends(drawn(found, PLOT, PLOT), "a <b>") == 1
    two = drawn(found, PLOT, other)
    assert (legends(two, "a <b>"), legends(two, "another")) == (1, 1)


def test_svg_and_png_have_the_same_dashes_bands_and_signs(found: Found) -> None:
    figure = drawn(found, PLOT)
    svg = svg_text(figure)
    ElementTree.fromstring(svg)
    assert "a &lt;b&gt;" in svg
    assert len(re.findall(r'<polyline [^>]*stroke="#ff0000"[^>]*stroke-dasharray="5 2.6"', svg)) == 3
    assert 'fill="#0000ff" fill-opacity="0.13"' in svg
    pixels = np.asarray(raster(figure)).reshape(-1, 3).astype(int)
    for colour in ([255, 0, 0], [0, 0, 255], [0, 255, 0]):
        assert (np.abs(pixels - colour).max(1) < 8).any(), colour
    assert raster(figure).tobytes() == raster(drawn(found, PLOT)).tobytes()


def test_a_dashed_line_is_drawn_and_left_out_by_length_around_corners() -> None:
    assert dashed([(0, 0), (10, 0)], ()) == [[(0, 0), (10, 0)]]
    parts = dashed([(0, 0), (3, 0), (3, 7)], (4, 2))
    assert parts == [[(0, 0), (3, 0), (3, 1)], [(3, 3), (3, 7)]]
    length = sum(math.dist(a, b) for part in parts for a, b in pairwise(part))
    assert length == 8


@pytest.mark.parametrize(
    ("span", "most", "written"),
    [
        ((0.0, 1.0), 6, ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        ((-0.24, 0.51), 6, ["−0.2", "0", "0.2", "0.4"]),
        ((0.0, 12_800_000.0), 5, ["0", "5M", "10M"]),
        ((0.0, 40_000.0), 5, ["0", "10k", "20k", "30k", "40k"]),
        ((0.8, 0.81), 5, ["0.800", "0.802", "0.804", "0.806", "0.808", "0.810"]),
        ((0.0, 1500.0), 5, ["0", "500", "1000", "1500"]),
    ],
    ids=str,
)
def test_ticks_are_round_and_written_with_the_decimals_they_need(
    span: tuple[float, float], most: int, written: list[str]
) -> None:
    values, step = ticks_of(span, most)
    assert [tick_text(value, step) for value in values] == written


def test_an_axis_has_a_range_also_where_all_values_are_one_or_none_is_there() -> None:
    flat = replace(PLOT, y=Axis("height"), curves=(replace(PLOT.curves[1], spread=None),), marks=(), spans=())
    low, high = spans_of(flat)[1]
    assert low < 0.5 < high
    nothing = replace(flat, curves=(replace(flat.curves[0], y=np.full(4, np.nan)),))
    low, high = spans_of(nothing)[1]
    assert (low, high) == (-0.04, 1.04)


def test_what_cannot_be_drawn_is_refused(found: Found) -> None:
    with pytest.raises(StudioError, match=r"has x \(4,\) and y \(3,\)"):
        replace(PLOT.curves[0], y=np.zeros(3))
    with pytest.raises(StudioError, match="at least one plot"):
        drawn(found)
