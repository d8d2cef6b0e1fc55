"""Intervene in a real Chromium: an edit in the table changes what is shown, and is taken back as easily."""

import re

import pytest
from browsing import WAIT, Studio
from playwright.sync_api import Locator, expect
from saved_files import FILES, recipe_in, saved_by

from models import LoadedModel, load_model, open_picture
from models.intervention import SetLambda, intervene
from studio.chart_recipe import LambdaSweepSettings
from studio.examples import load_examples
from studio.intervening import cosines


@pytest.fixture(scope="module")
def studio(shared_studio: Studio) -> Studio:
    """One page for all tests; each begins with the models as they are."""
    return shared_studio


@pytest.fixture(scope="module")
def diffclip() -> LoadedModel:
    return load_model("diffclip-scenes")


def opened(studio: Studio) -> tuple[Locator, Locator]:
    """The right model's table and its result, when the tab was opened and ran without edits."""
    studio.page.get_by_role("tab", name="Intervene", exact=True).click()
    expect(studio.page.locator("#bench-right .title")).to_have_text("DiffCLIP, scenes")
    cards = studio.page.locator("#intervene-outcome .oc-card")
    for side, bench in enumerate(("left", "right")):
        if studio.page.locator(f"#bench-{bench} .reset").is_enabled():
            studio.page.locator(f"#bench-{bench} .reset").click()
        expect(cards.nth(side)).to_contain_text("after is before")
    card = cards.nth(1)
    return studio.page.locator("#bench-right"), card


def slide(slider: Locator, value: float) -> None:
    script = "(input, value) => { input.value = value; input.dispatchEvent(new Event('input', {bubbles: true})); }"
    slider.evaluate(script, value)


def test_lambda_for_all_layers_is_run_and_taken_back(studio: Studio, diffclip: LoadedModel) -> None:
    bench, card = opened(studio)
    slide(bench.locator(".global"), 0)
    expect(card).to_contain_text("λ = 0.00 in all layers")
    image = open_picture(load_examples()[0].picture)
    pixels, _ = diffclip.preprocess(image)
    before = diffclip.encode_image(pixels[None])
    with diffclip.lock, intervene(diffclip.vision, [SetLambda(0.0)]):
        moved = cosines(before, diffclip.encode_image(pixels[None]))[0]
    expect(card.locator(".oc-moved")).to_contain_text(f"{moved:.3f}".replace("-", "−"))
    expect(studio.page.locator("#intervene-maps figure")).to_have_count(6)
    bench.locator(".reset").click()
    expect(card).to_contain_text("after is before")
    expect(bench.locator(".reset")).to_be_disabled()


def test_one_layer_and_one_head_are_changed_by_keyboard(studio: Studio) -> None:
    bench, card = opened(studio)
    bench.get_by_label("λ of layer 2", exact=True).focus()
    studio.page.keyboard.press("Home")
    expect(card).to_contain_text("λ = 0.00 in layer 2")
    bench.get_by_label("ablate head 1 of layer 4", exact=True).focus()
    studio.page.keyboard.press("Space")
    expect(card).to_contain_text("head 1 ablated in layer 4")
    bench.get_by_label("layer 2: back to the learned λ", exact=True).click()
    expect(card).not_to_contain_text("λ = 0.00")
    expect(card).to_contain_text("head 1 ablated in layer 4")


def test_a_model_without_lambda_says_so_and_has_no_slider(studio: Studio) -> None:
    opened(studio)
    bench = studio.page.locator("#bench-left")
    expect(bench.locator(".note").first).to_contain_text("no λ and no A2")
    expect(bench.locator("input[type=range]:visible")).to_have_count(0)
    bench.get_by_label("ablate head 2 of layer 0", exact=True).check()
    expect(studio.page.locator("#intervene-outcome .oc-card").first).to_contain_text("head 2 ablated in layer 0")


def test_another_picture_is_asked_for_and_then_used(studio: Studio) -> None:
    bench, card = opened(studio)
    # The radio itself has no size; its label is what a person clicks.
    bench.locator(".second label").nth(3).click()
    expect(studio.page.locator("#intervene-outcome")).to_contain_text("needs another picture")
    studio.page.locator("#intervene-other-fold").get_by_role("button").first.click()
    studio.page.locator("#intervene-scenes button").nth(2).click()
    expect(studio.page.locator("#intervene-other img")).to_be_visible()
    studio.page.locator("#intervene-run").click()
    expect(card).to_contain_text("A2 of another picture")


def test_a_sweep_ends_in_curves_and_says_what_has_no_lambda(studio: Studio) -> None:
    opened(studio)
    studio.page.locator("#sweep-run").click()
    for what in ("classes", "inside"):
        expect(studio.page.locator(f"#sweep-right-{what} .js-plotly-plot")).to_be_visible(timeout=WAIT)
    expect(studio.page.locator("#sweep-left-classes .js-plotly-plot")).to_have_count(0)
    expect(studio.page.locator("#sweep-words")).to_contain_text(re.compile("CLIP, scenes has no λ to sweep"))
    files = saved_by(studio.page, studio.page.locator("#sweep-take .take"))
    expect(studio.page.locator("#sweep-take .said")).to_contain_text("Saved as lambda-sweep-")
    assert list(files) == FILES
    settings = recipe_in(files).settings
    assert isinstance(settings, LambdaSweepSettings)
    assert (settings.tower, settings.models) == ("vision", ("diffclip-scenes",))
