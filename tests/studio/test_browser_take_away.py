"""Take away in a real Chromium: what the page saves is what the command draws from its recipe, byte for byte."""

import io
from pathlib import Path

import numpy as np
import pytest
from browsing import Studio, row_of, set_value
from PIL import Image
from playwright.sync_api import expect
from saved_files import FILES, drawn_again, saved_by

from models import load_model, open_picture
from studio.examples import load_examples, picture_token
from studio.recipe import read_recipe
from studio.redraw import recipe_file
from studio.service import vision_grid
from studio.sparsity import RULES
from studio.tab_recipe import SparsitySettings, Style, TabRecipe

MODEL = "diffclip-scenes"


def test_a_view_that_was_set_by_hand_is_saved_and_drawn_again_to_the_same_bytes(studio: Studio, tmp_path: Path) -> None:
    model = load_model(MODEL)
    grid, image = vision_grid(model), open_picture(load_examples()[0].picture)
    studio.slide("layer", 2)
    studio.slide("alpha", 1.5)
    studio.wait_shown(layer=2, alpha=1.5)
    studio.click(1, 3.5 / grid.rows, 5.5 / grid.cols)
    expect(studio.viewer.locator(".line")).to_contain_text("query patch (3, 5)")
    studio.choose(0, "kind", "relevance")
    expect(studio.viewer.locator(".relevance-note")).to_contain_text(load_examples()[0].caption)
    files = saved_by(studio.page, studio.viewer.locator(".take"))
    assert list(files) == FILES
    view = read_recipe(files["recipe.json"]).view
    assert (view.layer, view.alpha, list(view.query or ())) == (2, 1.5, [3, 5, MODEL])
    assert [panel.kind for panel in view.panels] == ["relevance", "a1", "subtracted", "weights"]
    assert Image.open(io.BytesIO(files["figure.png"])).width > 300
    assert b"<svg" in files["figure.svg"][:300]
    row = row_of(model, image, 2, grid.token(3, 5), 1.5)["difference"].numpy()
    with np.load(io.BytesIO(files["arrays.npz"]), allow_pickle=False) as arrays:
        assert arrays["panel3_row"] == pytest.approx(row, abs=1e-6)
        assert (arrays["model1_a1"] == 0).any(), "zeros of α-entmax are exact in the file too"
    again = drawn_again(files["recipe.json"], tmp_path)
    assert {name: again[name] == files[name] for name in FILES} == dict.fromkeys(FILES, True)


def test_a_picture_of_ones_own_is_given_to_the_command_and_gives_the_same_bytes(studio: Studio, tmp_path: Path) -> None:
    noise = np.random.default_rng(8).integers(0, 256, (90, 160, 3), dtype=np.uint8)
    Image.fromarray(noise).resize((480, 270)).save(tmp_path / "mine.png")
    studio.upload(tmp_path / "mine.png")
    studio.wait_shown(token=picture_token(open_picture(tmp_path / "mine.png")))
    studio.viewer.locator(".remove").last.click()
    expect(studio.viewer.locator(".panel")).to_have_count(3)
    files = saved_by(studio.page, studio.viewer.locator(".take"))
    recipe = read_recipe(files["recipe.json"])
    assert recipe.picture.name == "mine.png"
    assert len(recipe.view.panels) == 3
    again = drawn_again(files["recipe.json"], tmp_path, f"--picture={tmp_path / 'mine.png'}")
    assert {name: again[name] == files[name] for name in FILES} == dict.fromkeys(FILES, True)


def test_the_maps_of_another_tab_are_saved_as_drawn_and_draw_again_to_the_same_bytes(
    studio: Studio, tmp_path: Path
) -> None:
    studio.page.get_by_role("tab", name="Sparsity", exact=True).click()
    strip = studio.page.locator("#sparsity-maps")
    expect(strip.locator(".panel")).to_have_count(4)
    strip.locator(".ramp label", has_text="linear").click()
    strip.locator(".drawing label", has_text="smooth").click()
    set_value(strip.locator(".opacity"), 0.5)
    studio.page.locator("#sparsity-mode").get_by_label("intervention", exact=True).check()
    expect(studio.page.locator("#sparsity-answers table")).to_have_count(2)
    expect(studio.page.locator("#sparsity-answering")).to_have_text("")
    files = saved_by(studio.page, strip.locator(".take"))
    expect(strip.locator(".said")).to_contain_text("Saved as sparsity-")
    names = [*FILES[:4], "grids.csv", "answers.csv", FILES[4]]
    assert list(files) == names
    (tmp_path / "recipe.json").write_bytes(files["recipe.json"])
    recipe = recipe_file(tmp_path / "recipe.json")
    assert isinstance(recipe, TabRecipe)
    assert isinstance(recipe.settings, SparsitySettings)
    assert (recipe.settings.mode, recipe.settings.answers) == ("intervention", 2 * len(RULES))
    assert recipe.style == Style("smooth", "linear", 0.5)
    assert recipe.picture.sha256 == load_examples()[0].token
    with np.load(io.BytesIO(files["arrays.npz"]), allow_pickle=False) as arrays:
        assert [f"panel{at}" in arrays for at in range(5)] == [True] * 4 + [False]
    again = drawn_again(files["recipe.json"], tmp_path)
    assert {name: again[name] == files[name] for name in names} == dict.fromkeys(names, True)
