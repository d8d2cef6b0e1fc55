"""The figure of token maps: one range for all panels, masked cells without colour, tokens named, readout marked."""

import numpy as np
import pytest

from studio.recipe import VERSION
from studio.render.layout import INK, MARGIN, SMALL, WIDTH
from studio.render.raster import raster
from studio.render.shapes import Area, Cells, Clip, Drawn, Hatching, Lines, Place, Words, lacking, text_width
from studio.render.token_figure import columns_of, token_figure, tops_of
from studio.render.vector import svg_text
from studio.tab_recipe import TabRecipe
from studio.text_recipe import TextSettings, TokenStyle
from studio.token_maps import TokenMaps, TokenPanel, TokenRow


def panel(n: int, *, differential: bool = False, prompt: int = 0, scale: float = 1.0) -> TokenPanel:
    """A causal map whose rows are uniform over what they can read, times `scale`, of a mean and two heads."""
    masked = np.triu(np.ones((n, n), bool), 1)
    first = np.where(masked, 0, scale / np.arange(1, n + 1)[:, None]).astype(np.float32)
    heads = np.stack([first, first, 2 * first])
    tokens = ("<start>", *(f"word{at}" for at in range(n - 2)), "<end>")
    second = heads / 4 if differential else None
    return TokenPanel("A model", prompt, "a <b> text", tokens, n - 1, heads, second, masked)


def drawn(maps: TokenMaps, style: TokenStyle = TokenStyle()) -> Drawn:  # noqa: B008
    recipe = TabRecipe(VERSION, "text", None, TextSettings(maps.prompts, (), 0), style, (), {})
    return token_figure(maps, recipe)


def rows(*panels: TokenPanel) -> TokenMaps:
    return TokenMaps(0, ("a",) * len(panels), (TokenRow("A model", "read out at the end", panels),))


def test_all_panels_without_signs_share_one_range_and_those_with_signs_another() -> None:
    maps = rows(panel(4), panel(4, scale=0.5), panel(4, differential=True))
    style = TokenStyle()
    assert tops_of(maps, style) == {False: pytest.approx(1.0), True: pytest.approx(0.75)}
    assert tops_of(maps, TokenStyle(heads=(2,)))[False] == pytest.approx(2.0)
    assert tops_of(maps, TokenStyle("subtracted")) == {False: pytest.approx(0.25)}
    raw = tops_of(rows(panel(4)), TokenStyle(scale="raw", start="aside"))
    assert raw == {False: pytest.approx(0.5)}, "the first token reads itself alone and is set aside"
    cells = [shape for shape in drawn(maps).shapes if isinstance(shape, Cells)]
    assert [len(np.unique(each.colours[each.drawn], axis=0)) for each in cells] == [1, 1, 1]
    assert not np.array_equal(cells[0].colours[0, 0], cells[1].colours[0, 0]), "half of the range has another colour"


def test_masked_cells_have_hatching_and_no_colour() -> None:
    shapes = drawn(rows(panel(5))).shapes
    (cells,) = [shape for shape in shapes if isinstance(shape, Cells)]
    assert np.array_equal(cells.drawn, np.tril(np.ones((5, 5), bool)))
    (hatched,) = [shape for shape in shapes if isinstance(shape, Hatching)]
    side = cells.place.w / 5
    assert sum(place.w * place.h for place in hatched.places) == pytest.approx(10 * side * side)


def test_every_token_is_named_twice_and_the_readout_is_marked() -> None:
    figure = drawn(rows(panel(6)))
    words = [shape for shape in figure.shapes if isinstance(shape, Words)]
    for token in panel(6).tokens:
        assert sorted(word.turned for word in words if word.text == token) == [False, True]
    (bold,) = [word for word in words if word.text == "<end>" and word.bold]
    (sign,) = [shape for shape in figure.shapes if isinstance(shape, Area)]
    assert abs(np.mean([y for _, y in sign.points]) - bold.y) < 3
    assert any(isinstance(shape, Lines) and shape.colour == sign.colour for shape in figure.shapes)
    svg = svg_text(figure)
    assert svg.count("rotate(-90") == 6
    assert "“a &lt;b&gt; text”" in svg


@pytest.mark.parametrize(("tokens", "columns"), [(8, 3), (32, 3), (77, 2), (200, 1)])
def test_long_prompts_have_fewer_columns_and_nothing_leaves_the_page(tokens: int, columns: int) -> None:
    maps = rows(*(panel(tokens, prompt=at) for at in range(3)))
    assert columns_of(maps) == columns
    figure = drawn(maps)
    for shape in figure.shapes:
        if isinstance(shape, Cells):
            assert shape.place.x >= MARGIN
            assert shape.place.x + shape.place.w <= WIDTH - MARGIN + 1e-6
            assert shape.place.y + shape.place.h < figure.height
    assert ("too many to be named" in figure.description) is (tokens == 200)


def test_turned_text_stands_where_the_vector_puts_it() -> None:
    """It reads upwards from its place: ink lies left of the baseline and above the start."""
    turned = Drawn(40, 40, (Words(20, 30, "HHHH", 8, turned=True),), "", "")
    ink = np.argwhere(np.asarray(raster(turned).convert("L")) < 128) / 300 * 72
    (top, left), (bottom, right) = ink.min(0), ink.max(0)
    assert bottom == pytest.approx(30, abs=1)
    assert right == pytest.approx(20, abs=1)
    assert right - left == pytest.approx(8 * 0.73, abs=1)
    assert bottom - top == pytest.approx(text_width("HHHH", 8), abs=3)


def test_a_picture_says_below_how_many_signs_are_boxes_in_it_and_the_vector_has_them() -> None:
    words = Words(10, 20, "λ 水 cat", 8), Clip(Place(0, 0, 510, 40), (Words(10, 30, "水😀", 8, bold=True),))
    assert lacking(words) == ["水", "水", "😀"]
    bare = Drawn(WIDTH, 60, words, "", "")
    plain = raster(Drawn(WIDTH, 60, (Words(10, 20, "λ cat", 8),), "", ""))
    taller = raster(bare)
    assert taller.height > plain.height
    below = np.asarray(taller.convert("L"))[plain.height :]
    said = "Boxes in this PNG stand for signs that its font does not have, 3 in all: U+6C34, U+1F600."
    remark = Words(MARGIN, 60, f"{said} The SVG and the tables of the same figure hold them.", SMALL, colour=INK)
    wanted = np.asarray(raster(Drawn(WIDTH, taller.height * 72 / 300, (remark,), "", "")).convert("L"))
    assert np.array_equal(wanted[plain.height :], below)
    assert "水" in svg_text(bare)
    assert "Boxes" not in svg_text(bare)
