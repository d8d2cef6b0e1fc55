"""Text in a real Chromium: numbers are the tower's own, masked cells say so, keys move from cell to cell."""

import json
import re
from pathlib import Path

import pytest
from browsing import Studio
from playwright.sync_api import Locator, expect
from saved_files import drawn_again, saved_by

from models import LoadedModel, attention_maps, load_model, record
from studio.tab_recipe import read_tab_recipe
from studio.text_recipe import TextSettings, TokenStyle

PROMPT = "a photo of a teddy bear"


@pytest.fixture(scope="module")
def studio(shared_studio: Studio) -> Studio:
    """One page for all tests; they leave prompts and maps as they found them, but for the last."""
    return shared_studio


@pytest.fixture(scope="module")
def models() -> tuple[LoadedModel, LoadedModel]:
    return load_model("clip-scenes"), load_model("diffclip-scenes")


def opened(studio: Studio) -> Locator:
    studio.page.get_by_role("tab", name="Text", exact=True).click()
    expect(studio.page.locator("#text-maps canvas").first).to_be_visible()
    return studio.page.locator("#text-maps")


def test_the_readout_row_is_listed_with_the_towers_own_numbers(
    studio: Studio, models: tuple[LoadedModel, LoadedModel]
) -> None:
    maps = opened(studio)
    for row, model in enumerate(models):
        ids = model.tokenize(PROMPT)
        with record(model.text) as recording:
            model.encode_text(ids)
        end = int(ids.argmax())
        weights = attention_maps(recording[model.text.layers - 1]).weights[0].mean(0)[end, : end + 1]
        listed = maps.locator(".model").nth(row).locator("figure").first.locator("td.value").all_inner_texts()
        shown = [float(text.split()[0].replace("−", "-")) for text in listed]
        assert shown == pytest.approx(weights.tolist(), abs=6e-5)


def test_what_is_shown_is_saved_and_the_command_draws_the_same_bytes(studio: Studio, tmp_path: Path) -> None:
    maps = opened(studio)
    maps.locator(".which label").nth(1).click()
    maps.locator(".head").nth(1).locator("label").nth(2).click()
    maps.locator(".scale label").first.click()
    files = saved_by(studio.page, maps.locator(".take"))
    expect(maps.locator(".saved")).to_have_text("Saved as text.zip.")
    recipe = read_tab_recipe(json.loads(files["recipe.json"]))
    assert isinstance(recipe.settings, TextSettings)
    assert recipe.settings.texts[0] == PROMPT
    assert recipe.style == TokenStyle("first", (0, 2), "raw")
    assert drawn_again(files["recipe.json"], tmp_path) == files
    for group, place in ((maps.locator(".which"), 0), (maps.locator(".head").nth(1), 0), (maps.locator(".scale"), 1)):
        group.locator("label").nth(place).click()


def test_keys_move_from_cell_to_cell_and_a_masked_cell_is_named(studio: Studio) -> None:
    maps = opened(studio)
    canvas, line = maps.locator(".frame canvas").first, maps.locator(".line")
    canvas.focus()
    studio.page.keyboard.press("ArrowRight")
    expect(line).to_contain_text("“<end>” reads “<start>”")
    expect(line).to_contain_text("DiffCLIP, scenes: A1 − λA2")
    studio.page.keyboard.press("ArrowUp")
    for _ in range(7):
        studio.page.keyboard.press("ArrowRight")
    expect(line).to_contain_text(re.compile("“bear” reads “<end>” · CLIP, scenes: A masked"))
    expect(maps.locator("figure caption").first).to_contain_text("“bear” reads")
    studio.page.keyboard.press("Escape")
    expect(maps.locator("figure caption").first).to_contain_text("read out")


def test_a_standard_model_has_no_second_map(studio: Studio) -> None:
    maps = opened(studio)
    maps.locator(".which label").nth(2).click()
    first = maps.locator(".model").first
    expect(first.locator(".message").first).to_contain_text("subtracts nothing")
    expect(first.locator("canvas:visible")).to_have_count(0)
    expect(maps.locator(".model").nth(1).locator("canvas:visible")).to_have_count(2)
    maps.locator(".which label").first.click()
    expect(first.locator("canvas:visible")).to_have_count(2)


def test_prompts_stand_side_by_side_and_what_is_wrong_with_them_is_said(studio: Studio) -> None:
    maps = opened(studio)
    studio.page.locator("#text-prompts textarea").fill(f"a zorb\n{'a small red apple ' * 20}\n<b>a</b> car")
    studio.page.locator("#text-run").click()
    expect(maps.locator(".frame canvas")).to_have_count(6)
    expect(maps.locator(".model").first).to_contain_text("Never seen in training: zorb.")
    expect(maps.locator(".model").first).to_contain_text("Too long for 32 positions, not read: “")
    # A word that stands in a long prompt more than once is told apart by its position.
    listed = maps.locator("figure").nth(1).locator(".bars th")
    expect(listed).to_have_count(16)
    expect(listed.nth(0)).to_have_text(re.compile(r"^\d+ · \S+"))
    expect(listed.nth(15)).to_have_text("17 others")
    expect(maps.locator("figcaption .said").nth(2)).to_have_text("“<b>a</b> car”")
    assert maps.locator("figcaption b b").count() == 0
