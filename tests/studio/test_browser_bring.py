"""Bringing a model in a real Chromium: it is told how far it is and what was recognised, and then the page uses it."""

import re
from pathlib import Path

import pytest
from browsing import Studio, row_of, slowed, texts_seen, watch_texts
from playwright.sync_api import Locator, expect

from models import load_model, open_picture, statistics
from studio import bring as bringing
from studio.examples import load_examples

SAID = "#brought .said"


def bring(studio: Studio) -> Locator:
    """The folded part, opened."""
    part = studio.page.locator("#bring")
    part.get_by_role("button").first.click()
    expect(studio.page.locator("#bring-left")).to_be_visible()
    return part


def recognised(studio: Studio, label: str) -> Locator:
    return studio.page.locator("#brought details").first.locator(f"dd.{label}")


@pytest.fixture
def heavy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models take as long to load as larger ones do, so that the page draws what is told meanwhile."""
    monkeypatch.setattr(bringing, "load_model", slowed(load_model, 1.2))


@pytest.mark.usefixtures("heavy")
def test_a_named_model_is_loaded_with_settings_and_read_by_the_panels(studio: Studio) -> None:
    bring(studio)
    studio.page.locator("#bring-name input, #bring-name textarea").first.fill("diffclip-scenes")
    studio.page.locator("#bring-settings input, #bring-settings textarea").first.fill("lambda_init = 0.25")
    watch_texts(studio.page, SAID)
    studio.page.locator("#bring-right").click()
    expect(studio.page.locator(SAID)).to_contain_text("is loaded.")
    assert any(text.startswith("Loading diffclip-scenes") for text in texts_seen(studio.page))
    expect(recognised(studio, "given")).to_have_text("lambda_init = 0.25")
    name = "diffclip-scenes lambda_init=0.25"
    studio.wait_shown(left="clip-scenes", right=name)
    model = load_model("diffclip-scenes", lambda_init=0.25)
    layer = studio.shown()[3]
    row = row_of(model, open_picture(load_examples()[0].picture), layer, 0)["first"]
    assert studio.fact(1, "entropy") == f"{float(statistics.entropy(row)):.2f}"
    lam = model.vision.lambdas()
    assert lam is not None
    assert studio.fact(2, "sum") == f"{lam[layer]:.2f}".replace("-", "−")
    expect(studio.page.locator("#right input")).to_have_value("DiffCLIP, scenes · lambda_init = 0.25")


@pytest.mark.usefixtures("heavy")
def test_files_are_sent_recognised_and_read_by_the_panels(studio: Studio, folders: tuple[Path, Path]) -> None:
    bring(studio)
    studio.click(0, 0.96, 0.96)
    expect(studio.viewer.locator(".line")).to_contain_text("query patch (13, 13)")
    files = [folders[1] / name for name in ("model.safetensors", "config.json", "tokenizer.json")]
    studio.page.locator("#bring-files input[type=file]").first.set_input_files(files)
    expect(studio.page.locator("#bring-files")).to_contain_text(re.compile(r"tokenizer\s*\.json"))
    watch_texts(studio.page, SAID)
    studio.page.locator("#bring-left").click()
    expect(studio.page.locator(SAID)).to_have_text("DiffCLIP, tiny is loaded.")
    assert any(text.startswith("Reading model.safetensors") for text in texts_seen(studio.page))
    expect(studio.page.locator("#brought details").first).to_contain_text("differential")
    expect(studio.page.locator("#left input")).to_have_value("DiffCLIP, tiny")
    studio.page.wait_for_function(
        "() => JSON.parse(document.querySelector('#viewer [data-shown]').dataset.shown)[1].startsWith('model-')"
    )
    # The query is on the same pixels of the model in the left one's place, whose patches are larger.
    expect(studio.viewer.locator(".line")).to_contain_text("query patch (3, 3)")
    studio.viewer.locator(".stage").press("Escape")
    # The model that was brought has fewer layers than the other.
    studio.slide("layer", 1)
    studio.wait_shown(layer=1)
    row = row_of(load_model(folders[1]), open_picture(load_examples()[0].picture), 1, 0)["first"]
    assert studio.fact(0, "entropy") == f"{float(statistics.entropy(row)):.2f}"
    expect(studio.viewer.locator(".layer-text")).to_have_text("1 (0–5)")
    # A first view is of the last layer that both models have.
    studio.page.wait_for_function("() => /left=model-.*layer=1/.test(location.search)")
    studio.page.goto(studio.page.url.replace("layer=1", ""))
    expect(studio.viewer.locator(".layer-text")).to_have_text("2 (0–5)")
    studio.page.locator("#right input").click()
    studio.page.locator("li[role=option][aria-label='DiffCLIP, tiny']").click()
    # The layers are those of the models that are here now, and not of one that was replaced.
    expect(studio.viewer.locator(".layer-text")).to_have_text("2 (0–2)")


@pytest.mark.parametrize("name", ["/etc/passwd", "no-such-model"])
def test_what_cannot_be_brought_is_told_and_nothing_is_lost(studio: Studio, name: str) -> None:
    bring(studio)
    before = studio.shown()
    studio.page.locator("#bring-name input, #bring-name textarea").first.fill(name)
    studio.page.locator("#bring-left").click()
    expect(studio.page.locator(f"{SAID}.failed")).to_contain_text("nothing that this page opens")
    expect(studio.page.locator(SAID)).to_be_in_viewport(ratio=0.9)
    assert studio.shown() == before
    expect(studio.page.locator("#left input")).to_have_value("CLIP, scenes")
