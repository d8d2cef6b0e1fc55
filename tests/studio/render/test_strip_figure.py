"""The figure of a strip: values at the true grid on shared ranges, classes in their colours, words that are safe."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from models.geometry import ImageGeometry
from models.preprocess import Preprocess
from studio.recipe import Found, Picture
from studio.render.over_picture import grey_picture
from studio.render.ramps import colours
from studio.render.raster import DPI, png_bytes, raster
from studio.render.shapes import Bar, Cells, Clip, Drawn, Hatching, Outline, Shape, Words
from studio.render.strip_figure import rows_of, strip_figure
from studio.render.strip_panel import CLASS_COLOURS, OTHER_COLOUR, class_colours
from studio.render.strip_words import short
from studio.render.vector import svg_text
from studio.strip import MapPanel, Strip, measured, no_map, strip_over
from studio.tab_recipe import SparsitySettings, Style, TabRecipe

SQUARE = ImageGeometry((64, 64), (32, 32), (0, 0), (32, 32))
GREY = Image.new("RGB", (64, 64), (128, 128, 128))
SETTINGS = SparsitySettings("readout", ("a", "a"), 1.5, "", None, "qk", True, 0, "mean", "mean", "CLS", "", "", "")


def recipe(style: Style | None = None, name: str = "picture.png", height: int = 64, width: int = 64) -> TabRecipe:
    found = Found("a", "Model <b>", "", "ours", "ab" * 32, Preprocess(32, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)), None)
    return TabRecipe(1, "sparsity", Picture("0" * 32, width, height, name), SETTINGS, style or Style(), (found,), {})


def panel(values: np.ndarray, kind: str = "sequential", **more: object) -> MapPanel:
    return MapPanel("A", "CLIP", np.asarray(values, float), SQUARE, kind, **more)  # type: ignore[arg-type]


def flat(shapes: tuple[Shape, ...]) -> list[Shape]:
    return [part for shape in shapes for part in (flat(shape.shapes) if isinstance(shape, Clip) else [shape])]


def of_kind(figure: Drawn, kind: type) -> list:
    return [shape for shape in flat(figure.shapes) if isinstance(shape, kind)]


def centres(figure: Drawn, cells: Cells, rows: int, cols: int) -> np.ndarray:
    """Pixels of the PNG at the centres of the cells of one panel, (rows, cols, 3)."""
    pixels, scale = np.asarray(raster(figure)).astype(float), DPI / 72
    y = ((np.arange(rows) + 0.5) / rows * cells.place.h + cells.place.y) * scale
    x = ((np.arange(cols) + 0.5) / cols * cells.place.w + cells.place.x) * scale
    return pixels[np.ix_(y.astype(int), x.astype(int))]


def ground() -> np.ndarray:
    return np.asarray(grey_picture(GREY), float)[0, 0]


@pytest.mark.parametrize("opacity", [0.3, 1.0])
@pytest.mark.parametrize("ramp", ["linear", "root"])
def test_the_png_has_the_colour_of_each_value_at_each_cell_on_shared_ranges(ramp: str, opacity: float) -> None:
    generator = np.random.default_rng(0)
    low, high = generator.random((3, 5)) + 0.1, 4 * generator.random((2, 2)) + 0.1
    signed = generator.standard_normal((4, 4))
    strip = strip_over(GREY, [panel(low / 9), panel(high), panel(low), panel(signed, "signed")])
    figure = strip_figure(strip, recipe(Style("patches", ramp, opacity)))  # type: ignore[arg-type]
    tops = [high.max()] * 3 + [np.abs(signed).max()]
    for cells, one, top in zip(of_kind(figure, Cells), strip.panels, tops, strict=True):
        wanted = colours(one.values, top, signed=one.kind == "signed", root=ramp == "root")
        seen = centres(figure, cells, *one.values.shape)
        assert np.abs(seen - (opacity * wanted + (1 - opacity) * ground())).max() <= 1.5
    assert len(of_kind(figure, Bar)) == 2, "a bar for each range"


def test_classes_have_the_colours_of_the_page_and_what_has_none_the_grey() -> None:
    source = (Path(__file__).parents[3] / "studio/viewer/strip_values.js").read_text(encoding="utf-8")
    listed = re.search(r"CLASS_COLOURS = \[(.*?)\]", source)
    assert listed is not None
    assert tuple(re.findall(r"'(\w+)'", listed[1])) == CLASS_COLOURS
    assert f"channels('{OTHER_COLOUR}')" in source
    names = [f"class {at}" for at in range(10)]
    values = np.array([[9.0, 9.0], [2.0, np.nan], [0.0, 1.0]])
    strip = strip_over(GREY, [panel(values, "classes")], classes=names, coloured=[9, 2])
    figure = strip_figure(strip, recipe(Style(opacity=1.0)))
    (cells,) = of_kind(figure, Cells)
    seen = centres(figure, cells, 3, 2)
    hexadecimal = [["".join(f"{round(part):02x}" for part in seen[row, col]) for col in range(2)] for row in range(3)]
    assert hexadecimal[0] == [CLASS_COLOURS[0]] * 2
    assert hexadecimal[1][0] == CLASS_COLOURS[1]
    assert hexadecimal[2] == [OTHER_COLOUR] * 2
    assert cells.drawn.tolist() == [[True, True], [True, False], [True, True]]
    words = [shape.text for shape in of_kind(figure, Words)]
    assert {"class 9", "class 2", "8 other classes"} <= set(words)
    assert "class 1" not in words
    assert class_colours(strip)[2] == CLASS_COLOURS[1]


def test_zeros_and_what_has_no_value_are_hatched_and_have_no_colour() -> None:
    values = np.array([[0.0, 0.0, 1.0], [np.nan, 2.0, np.nan]])
    for zeros in (True, False):
        figure = strip_figure(strip_over(GREY, [panel(values, zeros=zeros, marked=(1, 1))]), recipe())
        (cells,) = of_kind(figure, Cells)
        none = np.isnan(values) | (zeros & (values == 0))
        assert (cells.drawn == ~none).all()
        hatched = [shape for shape in of_kind(figure, Hatching) if shape.width]
        area = sum(place.w * place.h for shape in hatched for place in shape.places)
        assert area == pytest.approx(none.mean() * cells.place.w * cells.place.h)
        (outline,) = of_kind(figure, Outline)
        assert outline.place.x == pytest.approx(cells.place.x + cells.place.w / 3)
        said = " ".join(shape.text for shape in of_kind(figure, Words))
        assert ("exactly 0" in said) is zeros
        assert "no value there" in said


def test_what_was_cropped_away_is_dark_and_said() -> None:
    geometry = ImageGeometry((40, 80), (32, 64), (0, 16), (32, 32))
    one = replace(panel(np.ones((2, 2))), geometry=geometry)
    figure = strip_figure(strip_over(Image.new("RGB", (80, 40)), [one]), recipe(height=40, width=80))
    (cells,) = of_kind(figure, Cells)
    photo = next(shape for shape in figure.shapes if isinstance(shape, Clip)).place
    assert cells.place.w == pytest.approx(photo.w / 2)
    assert cells.place.x == pytest.approx(photo.x + photo.w / 4)
    sides = [place for shape in of_kind(figure, Hatching) for place in shape.places]
    assert sum(place.w for place in sides) == pytest.approx(photo.w / 2)
    assert "the model never saw it" in figure.description


def test_smooth_drawing_goes_between_values_only_and_is_said() -> None:
    values = np.array([[0.0, 4.0], [4.0, np.nan]])
    figure = strip_figure(strip_over(GREY, [panel(values, zeros=True)]), recipe(Style("smooth", "linear", 1.0)))
    (cells,) = of_kind(figure, Cells)
    assert cells.drawn.shape == (16, 16)
    assert not cells.drawn[:8, :8].any(), "a true zero keeps no colour"
    assert not cells.drawn[8:, 8:].any(), "and neither has what has no value"
    assert cells.drawn[:8, 8:].all()
    assert "interpolated" in figure.description
    many = strip_figure(strip_over(GREY, [panel(np.ones((65, 64)))]), recipe(Style("smooth")))
    assert of_kind(many, Cells)[0].drawn.shape == (65, 64)


@pytest.mark.parametrize(
    ("count", "together", "rows"),
    [
        (1, 1, [1]),
        (4, 1, [4]),
        (5, 1, [3, 2]),
        (7, 1, [4, 3]),
        (6, 3, [3, 3]),
        (6, 2, [4, 2]),
        (3, 3, [3]),
        (9, 1, [3] * 3),
    ],
)
def test_rows_are_of_about_equal_length_and_part_no_group(count: int, together: int, rows: list[int]) -> None:
    strip = strip_over(GREY, [panel(np.ones((2, 2)))] * count, together=together)
    assert [len(row) for row in rows_of(strip)] == rows
    figure = strip_figure(strip, recipe())
    places = [cells.place for cells in of_kind(figure, Cells)]
    assert len(places) == count
    assert len({round(place.w, 6) for place in places}) == 1
    assert all(place.x >= 0 and place.x + place.w <= figure.width for place in places)
    assert len({(round(place.x, 6), round(place.y, 6)) for place in places}) == count


def test_numbers_stand_beside_all_their_controls_and_below_the_pictures() -> None:
    facts = (measured("AUROC, signed", 0.9, "{:.2f}".format, (0.5, None)), measured("sum", 1.0, "{:.2f}".format))
    one = panel(np.ones((2, 2)), facts=facts, controls=("random keys", "A2 shuffled"))
    both = replace(one, facts=(measured("AUROC", 0.9, "{:.2f}".format, (0.25, 0.75)),))
    figure = strip_figure(strip_over(GREY, [one, both, both, both]), recipe())
    words = of_kind(figure, Words)
    texts = [shape.text for shape in words]
    assert texts.count("random keys") == 1, "a head that stands alone is one line"
    assert texts.count("shuffled") == 3, "a control without a number has no column"
    assert (texts.count("0.90"), texts.count("0.50"), texts.count("0.25"), texts.count("0.75")) == (4, 1, 3, 3)
    bottom = max(cells.place.y + cells.place.h for cells in of_kind(figure, Cells))
    numbers = [shape for shape in words if shape.text in ("random keys", "random", "keys", "A2", "0.90", "1.00")]
    assert all(shape.y - shape.size > bottom for shape in numbers)


def test_words_of_people_are_escaped_and_those_that_are_long_are_cut() -> None:
    text = '<script>alert(1)</script> & "quotes" \x07 ' + "word " * 300
    one = replace(panel(np.ones((2, 2))), title=text, of=text, badges=(text,), message="")
    refused = no_map(text, text, SQUARE, text)
    strip = strip_over(GREY, [one, refused], note=text, classes=[text])
    figure = strip_figure(strip, recipe(name="<svg onload=alert(1)>.png"), note=text)
    source = svg_text(figure)
    assert "<script" not in source
    assert "<svg onload" not in source
    assert "&lt;script&gt;" in source
    ElementTree.fromstring(source)
    assert figure.height < 2000
    assert png_bytes(figure)[:4] == b"\x89PNG"


def test_a_map_of_pixels_is_a_picture_in_the_svg_and_one_of_patches_rectangles() -> None:
    generator = np.random.default_rng(1)
    for side, pictures in ((160, 2), (16, 1)):
        strip = strip_over(GREY, [panel(generator.standard_normal((side, side)), "signed")])
        source = svg_text(strip_figure(strip, recipe()))
        images = re.findall(r"<image ", source)
        assert len(images) == pictures
        assert len(source) < 400_000
        ElementTree.fromstring(source)


@pytest.mark.parametrize("values", [np.zeros((2, 2)), np.full((2, 2), np.nan), np.full((1, 1), -3.0)], ids=str)
@pytest.mark.parametrize("kind", ["sequential", "signed"])
def test_maps_that_hold_little_are_drawn(values: np.ndarray, kind: str) -> None:
    strip: Strip = strip_over(GREY, [panel(values, kind, zeros=True)])
    figure = strip_figure(strip, recipe())
    assert png_bytes(figure) == png_bytes(strip_figure(strip, recipe()))
    said = [shape.text for shape in of_kind(figure, Words)]
    assert any("0 everywhere" in text for text in said) is not bool(np.nan_to_num(values).any())


@pytest.mark.parametrize(
    ("value", "written"),
    [(0, "0"), (3.2e-5, "3.2e−5"), (0.01234567, "0.0123"), (-1.239, "−1.24"), (24.94, "24.9"), (1234.5, "1234")],
)
def test_numbers_on_bars_are_written_as_on_the_page(value: float, written: str) -> None:
    assert short(value) == written
