"""What a person set in Compare stays when the picture or a model changes, in a real Chromium."""

import pytest
from browsing import Studio
from playwright.sync_api import expect

from models import LoadedModel, load_model
from studio.examples import load_examples

SHIPPED = ("clip-scenes", "diffclip-scenes")


@pytest.fixture(scope="module")
def models() -> tuple[LoadedModel, LoadedModel]:
    return load_model(SHIPPED[0]), load_model(SHIPPED[1])


def choose_model(studio: Studio, field: str, title: str) -> None:
    """Choose a model at the side of the page."""
    studio.page.locator(f"#{field} input").click()
    studio.page.locator(f'li[role="option"][aria-label="{title}"]').click()


def panels(studio: Studio) -> list[tuple[str, ...]]:
    """(model, kind, head) of each panel."""
    found = studio.viewer.locator(".panel")
    return [
        tuple(found.nth(i).locator(f"select.{what}").input_value() for what in ("model", "kind", "slot"))
        for i in range(found.count())
    ]


def test_a_text_that_was_typed_stays_with_the_next_picture_and_an_untouched_one_follows_it(studio: Studio) -> None:
    scenes, text = load_examples(), studio.viewer.locator(".text")
    note, buttons = studio.viewer.locator(".relevance-note"), studio.page.locator("#scenes button")
    studio.choose(0, "kind", "relevance")
    expect(text).to_have_value(scenes[0].caption)
    buttons.nth(1).click()
    studio.wait_shown(token=scenes[1].token)
    expect(text).to_have_value(scenes[1].caption)
    text.fill("a green rocket")
    buttons.nth(2).click()
    studio.wait_shown(token=scenes[2].token)
    expect(text).to_have_value("a green rocket")
    expect(note).to_contain_text("a green rocket")
    text.fill("")
    buttons.nth(0).click()
    studio.wait_shown(token=scenes[0].token)
    expect(text).to_have_value(scenes[0].caption)


def test_sinks_are_not_spoken_of_where_relevance_alone_is_shown(studio: Studio) -> None:
    note = studio.viewer.locator(".aside-note")
    for _ in range(2):
        studio.viewer.locator(".remove").last.click()
    studio.check("aside", "sinks")
    expect(note).to_contain_text("tokens that receive more than three times a uniform share from all queries; CLS and ")
    for panel in range(2):
        studio.choose(panel, "kind", "relevance")
    expect(studio.viewer.locator(".message")).to_have_text([""] * 2)
    expect(note).to_have_text(
        "Sinks are tokens that most queries of an attention map read; relevance is no such map, so nothing is set "
        "aside here."
    )
    studio.check("aside", "none")
    expect(note).to_be_hidden()


def test_a_model_that_is_replaced_leaves_the_panels_with_what_they_show(
    studio: Studio, models: tuple[LoadedModel, LoadedModel]
) -> None:
    clip, diffclip = (model.name for model in models)
    studio.choose(1, "kind", "relevance")
    studio.choose(1, "kind", "negative")
    studio.choose(2, "slot", "1")
    studio.viewer.locator(".remove").last.click()
    studio.choose(0, "slot", "3")
    assert panels(studio) == [(clip, "weights", "3"), (diffclip, "negative", "mean"), (diffclip, "subtracted", "1")]
    choose_model(studio, "left", models[1].title)
    studio.wait_shown(left=diffclip)
    # It has two heads, so there is no head 3.
    kept = [(diffclip, "weights", "mean"), (diffclip, "negative", "mean"), (diffclip, "subtracted", "1")]
    assert panels(studio) == kept
    choose_model(studio, "right", models[0].title)
    studio.wait_shown(right=clip)
    assert panels(studio) == [(diffclip, "weights", "mean"), (clip, "weights", "mean"), (clip, "weights", "1")]
    studio.page.wait_for_function("() => location.href.includes('p=weights.1.clip-scenes')")


def test_a_model_that_no_panel_shows_gets_one_when_it_is_chosen(
    studio: Studio, models: tuple[LoadedModel, LoadedModel]
) -> None:
    clip, diffclip = (model.name for model in models)
    for panel in (0, 3):
        studio.choose(panel, "slot", "1")
    for _ in range(3):
        studio.viewer.locator(".panel select.model").last.select_option(clip)
        if studio.viewer.locator(".panel").count() > 2:
            studio.viewer.locator(".remove").nth(1).click()
    assert [model for model, *_ in panels(studio)] == [clip, clip]
    choose_model(studio, "left", models[1].title)
    studio.wait_shown(left=diffclip)
    assert {model for model, *_ in panels(studio)} == {diffclip}
    choose_model(studio, "right", models[0].title)
    studio.wait_shown(right=clip)
    assert [model for model, *_ in panels(studio)] == [diffclip, diffclip, clip]
