"""What a person does wrong leaves the page whole and gets a sentence, in a real Chromium."""

import re
from pathlib import Path

from browsing import WAIT, Studio
from playwright.sync_api import Page, expect

from studio.examples import load_examples

SCENES = load_examples()
TOASTS = "[data-testid=toast-body]"
# Labels of buttons that Tab comes to and that are not drawn.
UNSEEN = """() => [...document.querySelectorAll('button:not(:disabled)')].filter((each) =>
  each.tabIndex >= 0 && each.checkVisibility({ visibilityProperty: true }) &&
  !each.checkVisibility({ opacityProperty: true })
).map((each) => each.ariaLabel || each.innerText)"""


def take_picture_away(page: Page) -> None:
    page.locator("#picture").get_by_label(re.compile("remove|clear", re.I)).first.click()
    expect(page.locator("#picture input[type=file]").first).to_be_attached()


def test_another_scene_is_drawn_where_a_model_shows_relevance_alone(studio: Studio) -> None:
    studio.choose(0, "kind", "relevance")
    expect(studio.viewer.locator(".panel").first.locator("[data-measure]").first).to_be_visible()
    studio.page.locator("#scenes button").nth(1).click()
    studio.wait_shown(token=SCENES[1].token)
    studio.wait_numbers()


def test_relevance_without_a_picture_says_so_each_time_it_is_asked_for(studio: Studio) -> None:
    take_picture_away(studio.page)
    studio.choose(0, "kind", "relevance")
    state = studio.viewer.locator(".speaking-state")
    for _ in range(2):
        expect(state).to_contain_text("There is no picture", timeout=WAIT)
        studio.viewer.locator(".work-out").click()
    expect(state).to_contain_text("There is no picture", timeout=WAIT)


def test_a_number_can_be_typed_anew_without_an_error_for_each_key(studio: Studio) -> None:
    page = studio.page
    page.get_by_role("tab", name="Text", exact=True).click()
    expect(page.locator("#text-maps canvas").first).to_be_visible()
    box = page.locator("#text-layer input[type=number]")
    box.press("Control+a")
    box.press("Delete")
    expect(page.locator("#text-maps")).to_contain_text("layer 0")
    box.fill("99")
    expect(page.locator("#text-maps")).to_contain_text("layer 2")
    box.press("Tab")
    expect(box).to_have_value("2")
    assert page.locator(TOASTS).count() == 0


def test_a_mask_that_is_no_picture_is_refused_when_it_is_given_and_leaves_its_field_empty(
    studio: Studio, tmp_path: Path
) -> None:
    page = studio.page
    page.get_by_role("tab", name="Sparsity", exact=True).click()
    page.locator("#sparsity-mask-part button").first.click()
    wrong = tmp_path / "mask.png"
    wrong.write_text("no picture")
    page.locator("#sparsity-mask input[type=file]").first.set_input_files(wrong)
    expect(page.locator(TOASTS).last).to_contain_text("not a picture that can be read")
    expect(page.locator("#sparsity-mask img")).to_have_count(0)
    expect(page.locator("#sparsity-mask input[type=file]").first).to_be_attached()


def test_a_picture_that_was_refused_leaves_nothing_for_keys_that_eyes_do_not_see(
    studio: Studio, tmp_path: Path
) -> None:
    wrong = tmp_path / "photo.png"
    wrong.write_text("no picture")
    studio.upload(wrong)
    expect(studio.page.locator(TOASTS).last).to_contain_text("not a picture that can be read")
    expect(studio.page.locator(".clear-status button").first).to_be_attached()
    # The message comes into sight slowly.
    studio.page.wait_for_function(f"() => ({UNSEEN})().length === 0", timeout=5000)


def test_an_address_with_wrong_settings_is_opened_and_tells_what_it_left_out(studio: Studio, address: str) -> None:
    studio.page.goto(
        f"{address}?alpha=abc&scale=log&left=nosuch&layer=77&query=90.2.clip-scenes&overview=support&over=all"
    )
    expect(studio.viewer.locator(".window")).to_contain_text("alpha “abc” is left out")
    expect(studio.viewer.locator(".window")).to_contain_text("it is not raw or uniform or row")
    expect(studio.viewer.locator(".window")).to_contain_text("“nosuch” is not here")
    expect(studio.viewer.locator(".window")).to_contain_text(
        "layer 77 is past the last one of these models: shown is 5"
    )
    expect(studio.viewer.locator(".window")).to_contain_text("query 90.2 is no patch of CLIP, scenes")
    expect(studio.viewer.locator(".overview-meaning")).to_contain_text("mean over the rows of all tokens")
    assert studio.viewer.locator(".statistic").input_value() == "support"
    studio.page.wait_for_function("() => location.search.includes('overview=support&over=all')")
    studio.viewer.locator(".overview-toggle").click()
    studio.page.wait_for_function("() => !location.search.includes('overview=')")


def test_a_link_whose_picture_is_not_here_shows_its_sentence_and_no_empty_frame(studio: Studio, address: str) -> None:
    studio.page.goto(f"{address}?picture={'a' * 32}")
    expect(studio.viewer.locator(".need-text")).to_be_visible()
    expect(studio.viewer.locator(".stage")).to_be_hidden()
