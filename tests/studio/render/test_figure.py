"""A figure shows the values at the true patch grid, on one range, in both outputs, and says what it shows."""

import io
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest
import torch
from drawn_figures import drawn, look_of, picture, recipe_with, view_of, with_tower
from families import family_of
from PIL import Image, ImageDraw

from models import LoadedModel
from studio.recipe import OPACITY, Panel, View
from studio.render import shapes
from studio.render.figure import figure_of
from studio.render.over_picture import between, between_kept, finer, grey_picture
from studio.render.ramps import colours
from studio.render.raster import DPI, png_bytes, raster
from studio.render.readings import Spoken
from studio.render.shapes import (
    Cells,
    Clip,
    Drawn,
    Hatching,
    Outline,
    Photo,
    Words,
    font,
    shortened,
    text_width,
    wrapped,
)
from studio.render.vector import svg_text
from studio.service import Look

KINDS = (("a", "weights"), ("b", "a1"), ("b", "subtracted"), ("b", "weights"))


@pytest.fixture(scope="module")
def looks(clip: LoadedModel, diffclip: LoadedModel) -> dict[str, Look]:
    image = picture(48, 48)
    return {"a": look_of(clip, image, objects=True), "b": look_of(diffclip, image, objects=True)}


def cells_of(figure: Drawn) -> list[Cells]:
    clips = [shape for shape in figure.shapes if isinstance(shape, Clip)]
    return [part for clip in clips for part in clip.shapes if isinstance(part, Cells)]


def pixels_of(sign: str) -> bytes:
    image = Image.new("L", (60, 60))
    ImageDraw.Draw(image).text((5, 5), sign, 255, font(30, False))
    return image.tobytes()


def words_of(figure: Drawn) -> list[str]:
    flat = [part for shape in figure.shapes for part in (shape.shapes if isinstance(shape, Clip) else [shape])]
    return [part.text for part in flat if isinstance(part, Words)]


@pytest.mark.parametrize("scale", ["raw", "uniform", "row"])
def test_all_unsigned_panels_share_one_range_and_the_signed_one_has_its_own(looks: dict[str, Look], scale: str) -> None:
    shown, _ = drawn(view_of(*KINDS, scale=scale), looks, picture(48, 48))
    unsigned = max(float(np.abs(panel.values).max()) for panel in shown[:3])
    assert [panel.top for panel in shown[:3]] == pytest.approx([unsigned] * 3)
    assert shown[3].top == pytest.approx(float(np.abs(shown[3].values).max()))
    factors = {"raw": 1.0, "uniform": 17.0, "row": 1.0}
    raw = shown[0].reading.patches.numpy()
    assert shown[0].values == pytest.approx(raw * factors[scale], rel=1e-5)
    if scale == "row":
        magnitude = float(shown[3].reading.row.abs().sum())
        assert shown[3].values == pytest.approx(shown[3].reading.patches.numpy() / magnitude, rel=1e-5)


def test_a_range_covers_all_tokens_or_patches_or_all_but_sinks_as_asked(looks: dict[str, Look]) -> None:
    row = drawn(view_of(*KINDS, scale="raw"), looks, picture(48, 48))[0][0].reading.row
    tops = {
        aside: drawn(view_of(("a", "weights"), scale="raw", set_aside=aside), looks, picture(48, 48))[0][0].top
        for aside in ("none", "prefix")
    }
    assert tops["none"] == pytest.approx(float(row.max()))
    assert tops["prefix"] == pytest.approx(float(row[1:].max()))
    shown = drawn(view_of(("a", "weights"), scale="raw", set_aside="sinks"), looks, picture(48, 48))[0][0]
    sinks = shown.reading.sinks
    assert shown.top == pytest.approx(float(row[~sinks].max()))
    assert shown.left_out == int(sinks.sum())


def test_what_is_left_out_of_ranges_and_of_relevance_is_said(looks: dict[str, Look]) -> None:
    _, figure = drawn(view_of(*KINDS), looks, picture(48, 48))
    assert "How much lies on CLS and registers is the number “on CLS”." in figure.description
    assert "relevance" not in figure.description
    view = view_of(("a", "relevance"), ("b", "relevance"), text="a cat")
    _, figure = drawn(view, looks, picture(48, 48), {name: Spoken(torch.arange(16.0)) for name in looks})
    assert "what fell on CLS and registers is left out" in figure.description
    assert "ranges cover" not in figure.description
    for set_aside in ("none", "sinks"):
        view = view_of(("a", "relevance"), ("b", "relevance"), text="a cat", set_aside=set_aside)
        _, figure = drawn(view, looks, picture(48, 48), {name: Spoken(torch.arange(16.0)) for name in looks})
        assert not any(word in figure.description for word in ("ranges cover", "inks", "with 0 % of the row"))
    mixed = view_of(("a", "weights"), ("b", "relevance"), text="a cat", set_aside="sinks")
    _, figure = drawn(mixed, looks, picture(48, 48), {"b": Spoken(torch.arange(16.0))})
    assert figure.description.count("% of the row") == 1


def test_a_panel_with_its_own_range_leaves_that_of_the_others(looks: dict[str, Look]) -> None:
    view = View((Panel("a", "weights"), Panel("b", "a1", own=True)), 1)
    shown, figure = drawn(view, looks, picture(48, 48))
    assert shown[0].top != shown[1].top
    assert any("own range" in text for text in words_of(figure))


def test_the_png_has_the_colour_of_each_value_at_each_patch(looks: dict[str, Look]) -> None:
    shown, figure = drawn(view_of(*KINDS, ramp="linear"), looks, Image.new("RGB", (48, 48), (128, 128, 128)))
    pixels = np.asarray(raster(figure)).astype(float)
    ground = np.asarray(grey_picture(Image.new("RGB", (1, 1), (128, 128, 128))), dtype=float)[0, 0]
    for panel, cells in zip(shown, cells_of(figure), strict=True):
        rows, cols = panel.values.shape
        place, scale = cells.place, DPI / 72
        y = ((np.arange(rows) + 0.5) / rows * place.h + place.y) * scale
        x = ((np.arange(cols) + 0.5) / cols * place.w + place.x) * scale
        seen = pixels[np.ix_(y.astype(int), x.astype(int))]
        wanted = colours(panel.values, panel.top, signed=panel.reading.signed, root=False)
        assert np.abs(seen - (OPACITY * wanted + (1 - OPACITY) * ground)).max() <= 1.5


@pytest.mark.parametrize("opacity", [0.0, 0.3, 1.0])
def test_colours_lie_over_the_picture_with_the_opacity_of_the_view(looks: dict[str, Look], opacity: float) -> None:
    _, figure = drawn(view_of(("a", "weights"), opacity=opacity), looks, picture(48, 48))
    assert [cells.opacity for cells in cells_of(figure)] == [opacity]
    assert f"colours at {100 * opacity:.0f} % over the picture" in figure.description


def test_the_svg_is_xml_with_the_same_colours_and_neither_script_nor_link(looks: dict[str, Look]) -> None:
    shown, figure = drawn(view_of(*KINDS), looks, picture(48, 48))
    root = ElementTree.fromstring(svg_text(figure))
    names = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert not {"script", "foreignObject", "a", "style"} & set(names)
    hrefs = [element.get("href") or "" for element in root.iter() if "href" in element.keys()]  # noqa: SIM118
    assert hrefs
    assert all(href.startswith("data:image/png;base64,") for href in hrefs)
    groups = [e for e in root.iter() if e.get("fill-opacity") == str(OPACITY) and e.tag.endswith("}g")]
    assert len(groups) == len(shown)
    for panel, group in zip(shown, groups, strict=True):
        wanted = colours(panel.values, panel.top, signed=panel.reading.signed, root=True).reshape(-1, 3)
        fills = {path.get("fill") for path in group}
        assert fills == {f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in wanted.tolist()}
        area = sum(
            abs(float(w) * float(h))
            for path in group
            for w, h in re.findall(r"h([\d.]+)v([\d.]+)", path.get("d") or "")
        )
        place = cells_of(figure)[0].place
        assert area == pytest.approx(place.w * place.h, rel=1e-3)


def test_words_of_people_are_escaped(looks: dict[str, Look]) -> None:
    text = '<script>alert(1)</script> & "quotes" \x07'
    known = {"a": Spoken(torch.rand(16)), "b": Spoken(torch.rand(16))}
    view = view_of(("a", "relevance"), ("b", "relevance"), text=text)
    _, figure = drawn(view, looks, picture(48, 48), known)
    source = svg_text(figure)
    assert "<script" not in source
    assert "&lt;script&gt;" in source
    ElementTree.fromstring(source)


def test_equal_figures_have_equal_bytes_and_a_png_of_300_dots_an_inch(looks: dict[str, Look]) -> None:
    first, second = (drawn(view_of(*KINDS), looks, picture(48, 48))[1] for _ in range(2))
    assert png_bytes(first) == png_bytes(second)
    assert svg_text(first) == svg_text(second)
    image = Image.open(io.BytesIO(png_bytes(first)))
    assert image.size[0] == round(first.width / 72 * 300)
    assert image.info["dpi"] == pytest.approx((300, 300), abs=0.1)


def test_exact_zeros_are_hatched_without_colour_and_a_query_is_outlined(looks: dict[str, Look]) -> None:
    view = view_of(*KINDS, alpha=2.0, query=(1, 2, "a"), source="kk")
    shown, figure = drawn(view, looks, picture(48, 48))
    zeros = [int((panel.values == 0).sum()) for panel in shown]
    assert sum(zeros) > 0
    clips = [shape for shape in figure.shapes if isinstance(shape, Clip)]
    for panel, cells, clip, count in zip(shown, cells_of(figure), clips, zeros, strict=True):
        assert (cells.drawn == (panel.values != 0)).all()
        cell = cells.place.w / panel.values.shape[1]
        hatched = [sum(p.w for p in part.places) / cell for part in clip.shapes if isinstance(part, Hatching)]
        assert hatched == pytest.approx([count] if count else [])
        assert sum(isinstance(part, Outline) for part in clip.shapes) == 1
    assert any("exactly 0" in text for text in words_of(figure))
    assert any("recomputed from the unmodified run" in text for text in words_of(figure))


@pytest.mark.parametrize("size", [(40, 120), (120, 40), (8, 300)])
def test_patches_lie_where_the_model_saw_them_and_the_rest_is_hatched(clip: LoadedModel, size: tuple[int, int]) -> None:
    image = picture(*size)
    looks = {"a": look_of(clip, image)}
    _, figure = drawn(view_of(("a", "weights")), looks, image)
    clipped = next(shape for shape in figure.shapes if isinstance(shape, Clip))
    photo = next(part for part in clipped.shapes if isinstance(part, Photo))
    cells = cells_of(figure)[0]
    assert cells.place.w == pytest.approx(cells.place.h, rel=0.03)
    centre = cells.place.x + cells.place.w / 2, cells.place.y + cells.place.h / 2
    whole = photo.place
    assert centre == pytest.approx((whole.x + whole.w / 2, whole.y + whole.h / 2), abs=1.0)
    assert any("never saw" in text for text in words_of(figure))
    ElementTree.fromstring(svg_text(figure))
    raster(figure)


def test_a_panel_without_a_map_says_why(looks: dict[str, Look]) -> None:
    _, figure = drawn(view_of(("a", "weights"), ("b", "relevance"), text="x"), looks, picture(48, 48))
    assert any("not at hand" in text for text in words_of(figure))
    assert len(cells_of(figure)) == 1


@pytest.mark.parametrize("values", [torch.zeros(16), torch.nn.functional.one_hot(torch.tensor(3), 16).float()])
def test_blank_and_single_patch_maps_are_drawn(looks: dict[str, Look], values: torch.Tensor) -> None:
    shown, figure = drawn(view_of(("a", "relevance"), text="a cat"), looks, picture(48, 48), {"a": Spoken(values)})
    assert np.isfinite(shown[0].values).all()
    assert cells_of(figure)[0].drawn.sum() == int((values != 0).sum())
    raster(figure)


@pytest.mark.parametrize("name", ["timm SigLIP", "timm ViT with registers", "ours, DIFF V2"])
def test_models_of_other_kinds_are_drawn(clip: LoadedModel, name: str) -> None:
    image = picture(48, 48)
    look = with_tower(clip, family_of(name), image)
    for kind in ("weights", "value"):
        shown, figure = drawn(view_of(("x", kind)), {"x": look}, image)
        assert len(cells_of(figure)) == 1
        assert np.isfinite(shown[0].values).all()


def test_a_smooth_drawing_meets_the_values_at_patch_centres_and_says_what_it_is(looks: dict[str, Look]) -> None:
    values = np.random.default_rng(0).random((4, 6))
    fine = between(values)
    middle = (fine[3::8] + fine[4::8]) / 2
    assert (middle[:, 3::8] + middle[:, 4::8]) / 2 == pytest.approx(values, abs=0.12)
    assert between(np.full((1, 1), 3.0)) == pytest.approx(3.0)
    _, figure = drawn(view_of(*KINDS, drawing="smooth"), looks, picture(48, 48))
    assert cells_of(figure)[0].colours.shape[:2] == (32, 32)
    assert any("interpolated" in text for text in words_of(figure))


def test_a_smooth_drawing_takes_no_colour_from_what_is_set_aside(looks: dict[str, Look]) -> None:
    view = view_of(("a", "weights"), drawing="smooth", set_aside="sinks", scale="raw", ramp="linear")
    shown, _ = drawn(view, looks, picture(48, 48))
    aside = np.zeros((4, 4), dtype=bool)
    aside[1, 2] = True
    values = np.where(aside, 100.0, 1.0)
    assert between(values).max() > 50
    kept = ~finer(aside)
    assert between_kept(values, aside)[kept] == pytest.approx(1)
    assert between_kept(values, ~aside & False) == pytest.approx(between(values))
    assert between_kept(values, np.ones((4, 4), dtype=bool)) == pytest.approx(0)
    sunk = replace(shown[0], values=values, aside=aside, top=2.0)
    cells = cells_of(figure_of(recipe_with(view, looks, picture(48, 48)), (sunk,), picture(48, 48), ""))[0]
    half = colours(np.ones((1, 1)), 2.0, signed=False, root=False)[0, 0]
    assert (cells.drawn == kept).all()
    assert (cells.colours[kept] == half).all()


def test_the_caption_says_where_everything_comes_from(looks: dict[str, Look]) -> None:
    shown, figure = drawn(view_of(*KINDS), looks, picture(48, 48))
    said = figure.description
    parts = ("Layer 1", "CLS", "Readout", "softmax", "× uniform", "ab" * 6, "input 32 × 32", "λ of layer 1")
    for part in (*parts, "noise.png"):
        assert part in said
    recipe = recipe_with(view_of(*KINDS), looks, picture(48, 48))
    assert "Another picture." in figure_of(recipe, shown, picture(48, 48), "Another picture.").description


def test_no_line_is_wider_than_its_place_and_the_font_has_every_sign() -> None:
    long = "averylongwordwithoutanyspaceinit " * 3 + "λ"
    assert all(text_width(line, 6) <= 60 for line in wrapped(long, 60, 6))
    assert text_width(shortened("W" * 50, 40, 6), 6) <= 40
    for sign in "λα−×·Σ√“”…≥–":
        assert pixels_of(sign) != pixels_of("\U0001f600"), "the font has no emoji, and shows a box for it"


def test_a_text_is_cut_where_one_more_letter_would_not_fit_and_a_long_one_is_not_measured_letter_by_letter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text, measured = "Wide and narrow: WWW ill λA2 " * 80, []
    monkeypatch.setattr(shapes, "text_width", lambda *given: measured.append(given) or text_width(*given))
    for width in (3, 40, 41, 200):
        cut = shortened(text, width, 6)
        fitting = [at for at in range(120) if text_width(text[:at] + "…", 6) <= width]
        assert cut == text[: max(fitting, default=0)].rstrip() + "…"
    assert shortened("short", 40, 6) == "short"
    assert len(measured) < 60


def test_titles_of_any_length_stay_in_their_column(looks: dict[str, Look]) -> None:
    long = {name: replace(look, model=replace(look.model, title="Model " * 40)) for name, look in looks.items()}
    _, figure = drawn(view_of(*KINDS), long, picture(48, 48))
    for shape in figure.shapes:
        if isinstance(shape, Words) and shape.anchor == "start":
            assert shape.x + text_width(shape.text, shape.size, shape.bold) <= figure.width
