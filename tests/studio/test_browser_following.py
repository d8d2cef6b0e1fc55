"""Another picture or model on an open tab, in a real Chromium: what is quick is drawn again, what is old says so."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browsing import WAIT, Studio, slowed
from PIL import Image
from playwright.sync_api import BrowserContext, Locator, expect

from studio.examples import load_examples, picture_token
from studio.sparsity_view import show_sparsity
from studio.tabs import compare, sparsity
from studio.tabs.following import OUTDATED


def open_tab(studio: Studio, name: str) -> None:
    studio.page.get_by_role("tab", name=name, exact=True).click()


def choose_scene(studio: Studio, index: int) -> None:
    """Choose an example and wait until it is the picture."""
    picture = studio.page.locator("#picture img")
    before = picture.first.get_attribute("src") if picture.count() else ""
    studio.page.locator("#scenes button").nth(index).click()
    expect(picture.first).not_to_have_attribute("src", before or "")


def choose_model(studio: Studio, side: str, title: str) -> None:
    studio.page.locator(f"#{side} input").click()
    studio.page.locator(f"li[role=option][aria-label={title!r}]").click()


def take_picture_away(studio: Studio) -> None:
    picture = studio.page.locator("#picture")
    picture.get_by_label("Clear").or_(picture.get_by_label("Remove")).first.click()
    expect(picture.locator("img")).to_have_count(0)


def facts_of(strip: Locator) -> Locator:
    """The numbers under the first map."""
    return strip.locator(".facts").first


def test_an_explanation_is_called_old_when_the_picture_changes_and_new_when_it_is_made_again(studio: Studio) -> None:
    open_tab(studio, "Explain")
    line, words = studio.page.locator("#explain-outdated"), studio.page.locator("#explain-words")
    choose_scene(studio, 2)
    expect(line).to_have_text("")
    studio.page.locator("#explain-run").click()
    expect(words).to_contain_text("volcano")
    expect(line).to_have_text("")
    choose_scene(studio, 1)
    expect(line).to_have_text(OUTDATED)
    expect(words).to_contain_text("volcano")
    studio.page.locator("#explain-run").click()
    expect(words).to_contain_text("car")
    expect(line).to_have_text("")
    choose_model(studio, "left", "DiffCLIP, scenes")
    expect(line).to_have_text(OUTDATED)
    take_picture_away(studio)
    studio.page.locator("#explain-run").click()
    expect(studio.page.get_by_text("There is no picture")).to_be_visible()
    expect(line).to_have_text(OUTDATED)


def test_an_open_intervention_is_run_on_the_picture_and_the_models_that_are_chosen(studio: Studio) -> None:
    open_tab(studio, "Intervene")
    strip, outcome = studio.page.locator("#intervene-maps"), studio.page.locator("#intervene-outcome")
    expect(strip.locator("figure")).to_have_count(6)
    before = facts_of(strip).inner_text()
    choose_scene(studio, 2)
    expect(facts_of(strip)).not_to_have_text(before)
    choose_model(studio, "left", "DiffCLIP, scenes")
    expect(outcome.locator(".oc-card h4")).to_have_text(["DiffCLIP, scenes", "DiffCLIP, scenes"])


def test_each_change_is_shown_once_and_a_picture_that_is_taken_away_leaves_the_maps_and_asks_for_nothing(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[str, Any, Any]] = []

    def noted(service: Any, picture: Any, names: Any, controls: Any) -> Any:
        shown.append((picture.token, names, controls))
        return show_sparsity(service, picture, names, controls)

    monkeypatch.setattr(sparsity, "show_sparsity", noted)
    page, strip, count = studio.page, studio.page.locator("#sparsity-maps"), 1

    def after(change: Callable[[], Any]) -> None:
        nonlocal count
        change()
        count += 1
        for _ in range(WAIT // 50):
            if len(shown) >= count:
                break
            page.wait_for_timeout(50)
        assert len(shown) == count

    open_tab(studio, "Sparsity")
    expect(page.locator("#sparsity-grids table").first).to_be_visible()
    before = facts_of(strip).inner_text()
    take_picture_away(studio)
    after(lambda: choose_scene(studio, 2))
    expect(facts_of(strip)).not_to_have_text(before)
    expect(page.get_by_text("There is no picture")).to_have_count(0)

    def choose_head() -> None:
        page.locator("#sparsity-head-left input").click()
        page.locator("li[role=option][aria-label='1']").click()

    after(lambda: page.locator("#sparsity-alpha input[type=range]").press("End"))
    after(choose_head)
    # Left as it is.
    page.locator("#sparsity-head-left input").focus()
    page.locator("#sparsity-query input, #sparsity-query textarea").first.fill("2, 3")
    after(lambda: page.keyboard.press("Enter"))
    after(lambda: page.locator("#sparsity-layer input[type=range]").press("ArrowLeft"))
    after(lambda: page.locator("#sparsity-source input[value=qq]").check(force=True))
    after(lambda: choose_model(studio, "left", "DiffCLIP, scenes"))
    after(lambda: choose_model(studio, "right", "CLIP, scenes"))
    expect(strip.locator(".note")).to_contain_text("CLIP, scenes α = 2.")
    page.wait_for_timeout(700)  # in which it would be shown once more
    assert len(shown) == count


def test_open_text_maps_are_those_of_the_models_that_are_chosen(studio: Studio) -> None:
    open_tab(studio, "Text")
    maps = studio.page.locator("#text-maps .model")
    expect(maps.nth(1)).to_contain_text("DiffCLIP, scenes")
    choose_model(studio, "right", "CLIP, scenes")
    expect(maps.nth(1)).not_to_contain_text("DiffCLIP, scenes")


SWAPPED = "?left=diffclip-scenes&right=clip-scenes"


def test_a_page_that_opens_with_two_other_models_runs_what_is_asked_for_at_once_and_comes_to_rest(
    context: BrowserContext, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare._Bench, "compared", slowed(compare._Bench.compared, 1.5))
    studio = Studio(context.new_page())
    asked: list[str] = []
    studio.page.on("request", lambda request: asked.append(request.url))
    studio.page.goto(f"{address}{SWAPPED}")
    open_tab(studio, "Explain")
    studio.page.locator("#explain-run").click()
    expect(studio.viewer.locator("[data-shown]")).to_have_count(0, timeout=1)
    expect(studio.page.locator("#explain-status")).to_contain_text(re.compile(r"passes in \d"))
    expect(studio.page.locator("#explain-strip figcaption").first).to_contain_text("DiffCLIP, scenes")
    studio.wait_shown(left="diffclip-scenes", right="clip-scenes")
    for _ in range(20):
        before = len(asked)
        studio.page.wait_for_timeout(2000)
        if len(asked) == before:
            break
    else:
        pytest.fail(f"it asked on and on: {asked[-3:]}")
    expect(studio.page.locator("#explain-outdated")).to_have_text("")
    studio.page.close()


def test_a_scene_that_is_chosen_before_the_page_has_its_first_maps_is_shown_with_the_models_of_the_address(
    context: BrowserContext, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare._Bench, "compared", slowed(compare._Bench.compared, 1.2))
    studio = Studio(context.new_page())
    studio.page.goto(f"{address}{SWAPPED}")
    scene = studio.page.locator("#scenes button").nth(1)
    scene.click()
    expect(studio.viewer.locator("[data-shown]")).to_have_count(0, timeout=1)
    studio.wait_shown(token=load_examples()[1].token, left="diffclip-scenes", right="clip-scenes")
    expect(scene).to_have_attribute("aria-pressed", "true")
    expect(studio.page.locator("#left input")).to_have_value("DiffCLIP, scenes")
    studio.page.close()


def test_of_a_scene_and_a_file_that_are_chosen_one_right_after_the_other_the_last_is_shown(
    studio: Studio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare._Bench, "compared", slowed(compare._Bench.compared, 0.6))
    own = Image.effect_noise((48, 40), 60).convert("RGB")
    own.save(tmp_path / "own.png")
    scene, picture = studio.page.locator("#scenes button").nth(1), studio.page.locator("#picture img").first
    scene.click()
    expect(picture).to_have_attribute("src", re.compile("scene-1.png"))
    studio.upload(tmp_path / "own.png")
    studio.wait_shown(token=picture_token(own))
    expect(picture).to_have_attribute("src", re.compile("own.png"))
    expect(scene).to_have_attribute("aria-pressed", "false")
    scene.click()
    studio.wait_shown(token=load_examples()[1].token)
    studio.upload(tmp_path / "own.png")
    expect(picture).to_have_attribute("src", re.compile("own.png"))
    scene.click()
    studio.wait_shown(token=load_examples()[1].token)
    expect(picture).to_have_attribute("src", re.compile("scene-1.png"))
    expect(scene).to_have_attribute("aria-pressed", "true")
