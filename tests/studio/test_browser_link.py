"""The address of the page in a real Chromium: it holds the open tab and its settings, and what was chosen last wins."""

from urllib.parse import parse_qs, urlsplit

import pytest
from browsing import WAIT, Studio, set_value, slowed
from playwright.sync_api import expect
from test_browser_following import choose_model, open_tab

from studio.examples import load_examples
from studio.tabs import compare
from studio.tabs.linked import HELD, WAITS
from studio.view_link import VIEWS

DRAWN = {field.key for field in VIEWS}
EDITS = "vision.lam.0*2.0.5_vision.a2.shuffled_vision.off.1.0"

WRONG = "explain.strip.drawing=jet"


def settings_of(studio: Studio) -> dict[str, list[str]]:
    """What the address holds of the tabs."""
    given = parse_qs(urlsplit(studio.page.url).query, keep_blank_values=True)
    return {key: texts for key, texts in given.items() if key in (*HELD, *DRAWN, "tab", "other.key")}


def wait_address(studio: Studio, part: str) -> None:
    studio.page.wait_for_function("(part) => location.search.includes(part)", arg=part)


def test_the_address_opens_the_same_tab_with_the_same_settings(studio: Studio) -> None:
    page = studio.page
    assert settings_of(studio) == {}
    wait_address(studio, "layer=")
    page.evaluate("history.replaceState(history.state, '', `${location.href}&other.key=7`)")
    open_tab(studio, "Text")
    page.locator("#text-maps .ramp input[value=linear]").check(force=True)
    page.locator("#text-prompts textarea").fill("a car\na leaf")
    open_tab(studio, "λ trajectories")
    page.locator("#lambda-chart button[data-axis=steps]").click()
    open_tab(studio, "Explain")
    page.locator("#explain-method input").click()
    page.locator("li[role=option][aria-label='Integrated Gradients']").click()
    expect(page.locator("#explain-steps")).to_be_visible()
    open_tab(studio, "Intervene")
    table = page.locator("#bench-right")
    for layer in (0, 2):
        set_value(table.locator(f".row[data-layer='{layer}'] input[type=range]"), 0.5)
    table.locator(".second input[value=shuffled]").check(force=True)
    table.locator(".row[data-layer='1'] .head input").first.check(force=True)
    page.locator("#intervene-other-fold button").first.click()
    page.locator("#intervene-scenes button").nth(2).click()
    page.locator("#intervene-maps .drawing input[value=smooth]").check(force=True)
    wait_address(studio, "vision.off.1.0")
    wait_address(studio, "smooth")
    wait_address(studio, "intervene.other=")
    wanted = {
        "other.key": ["7"],
        "text.prompts": ["a car\na leaf"],
        "text.maps.ramp": ["linear"],
        "lambda.chart.axis": ["steps"],
        "intervene.maps.drawing": ["smooth"],
        "explain.method": ["ig"],
        "intervene.right": [EDITS],
        "intervene.other": [load_examples()[2].token],
        "tab": ["intervene"],
    }
    assert settings_of(studio) == wanted
    words = page.locator("#intervene-outcome")
    expect(words).to_contain_text("A2 shuffled over the patches")
    expect(words).to_contain_text("head 0 ablated in layer 1")
    before = words.inner_text()
    page.goto(f"{page.url}&{WRONG}&layer=77")
    said = page.locator("#address-said .said")
    expect(said).to_contain_text("explain.strip.drawing “jet” is left out: it is not one of patches, smooth.")
    expect(said).to_contain_text("layer 77 is past the last one of these models: shown is 5.")
    expect(said).to_contain_text(WAITS)
    page.wait_for_function("(wrong) => !location.search.includes(wrong)", arg=WRONG)
    expect(page.locator("#intervene-other img")).to_be_visible()
    expect(page.locator("#intervene-other-need .studio-status")).to_have_text("")
    expect(page.get_by_role("tab", name="Intervene")).to_have_attribute("aria-selected", "true")
    expect(words).to_have_text(before, use_inner_text=True)
    expect(page.locator("#intervene-maps .drawing input[value=smooth]")).to_be_checked()
    open_tab(studio, "Explain")
    expect(page.locator("#explain-steps")).to_be_visible()
    expect(page.locator("#explain-rule")).to_be_hidden()
    expect(page.locator("#explain-status .studio-status")).to_have_text("")
    open_tab(studio, "Text")
    expect(page.locator("#text-maps")).to_contain_text("leaf")
    expect(page.locator("#text-maps .ramp input[value=linear]")).to_be_checked()
    wait_address(studio, "tab=text")
    assert settings_of(studio) == wanted | {"tab": ["text"]}
    open_tab(studio, "Intervene")
    table.locator(".reset").click()
    page.wait_for_function("() => !location.search.includes('intervene.right')")
    page.locator("#address-said .away").click()
    expect(page.locator("#address-said .said")).to_be_hidden()


def test_of_a_scene_and_a_model_that_are_chosen_at_once_both_are_shown(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, str]] = []

    def noted(*given: object) -> object:
        answer = plain(*given)
        seen.append((given[1].token, given[2]))  # type: ignore[attr-defined]
        return answer

    plain = slowed(compare._Bench.compared, 0.8)
    monkeypatch.setattr(compare._Bench, "compared", noted)
    token = load_examples()[2].token
    studio.page.locator("#scenes button").nth(2).click()
    choose_model(studio, "left", "DiffCLIP, scenes")
    studio.wait_shown(token=token, left="diffclip-scenes")
    # A model that was left again before it was shown.
    choose_model(studio, "left", "CLIP, scenes")
    choose_model(studio, "left", "DiffCLIP, scenes")
    both = [(token, "clip-scenes"), (token, "diffclip-scenes")]
    for _ in range(WAIT // 100):
        if seen[-2:] == both:
            break
        studio.page.wait_for_timeout(100)
    assert seen[-2:] == both
    studio.wait_shown(token=token, left="diffclip-scenes")
    assert {picture for picture, _ in seen} == {token}, "the picture of before is not asked for once more"
