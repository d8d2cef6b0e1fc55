"""λ curves and brought models in a real browser: what is shown is what the log holds and what was loaded."""

import re
from collections.abc import Iterator
from pathlib import Path

import gradio as gr
import pytest
from browsing import WAIT
from playwright.sync_api import Page, expect
from watched_browser import WatchedBrowser

from studio.examples import Example
from studio.looked_at import choose_what_is_looked_at
from studio.public import Policy
from studio.service import Service
from studio.tabs.trajectories import trajectories_tab


@pytest.fixture(scope="module")
def address(folders: tuple[Path, Path], examples: tuple[Example, ...]) -> Iterator[str]:
    service = Service(folders, examples, policy=Policy(False, roots=(folders[0].parent,)))
    with gr.Blocks(analytics_enabled=False) as demo:
        looked_at = choose_what_is_looked_at(service, examples)
        with gr.Tabs():
            gr.Tab("first")
            with gr.Tab("λ trajectories") as tab:
                trajectories_tab(looked_at, service, tab)
    _, url, _ = demo.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    yield url
    demo.close()


@pytest.fixture
def page(browser: WatchedBrowser, address: str) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1300, "height": 900})
    page.set_default_timeout(WAIT)
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(address)
    page.get_by_role("tab", name="λ trajectories").click()
    # A flat line has no height, which the browser driver takes for hidden.
    page.locator("#lambda-chart section svg path").first.wait_for(state="attached")
    yield page
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()
    assert faults == []


def cells(page: Page, tower: str, row: int = 0) -> list[str]:
    return page.locator(f'section[data-tower="{tower}"] tbody tr').nth(row).locator("td").all_inner_texts()


def test_the_table_follows_the_pointer_and_the_keys(page: Page) -> None:
    assert cells(page, "vision") == ["0.800", "0.850", "0.900"]
    assert cells(page, "text") == ["0.800", "0.700"]
    page.locator("#lambda-chart .charts").focus()
    page.keyboard.press("Home")
    assert cells(page, "vision") == ["0.800", "0.810", "0.820"]
    expect(page.locator("#lambda-chart .read")).to_contain_text("step 1, 256 samples")
    page.keyboard.press("ArrowRight")
    assert cells(page, "vision") == ["0.800", "0.820", "0.840"]
    page.keyboard.press("Escape")
    assert cells(page, "vision") == ["0.800", "0.850", "0.900"]
    box = page.locator('section[data-tower="vision"] > svg').first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 44 + 0.4 * (box["width"] - 74), box["y"] + 100)
    expect(page.locator("#lambda-chart .read")).to_contain_text("step 2, 512 samples")


def test_terms_and_layers_are_shown_on_demand(page: Page) -> None:
    vision = page.locator('section[data-tower="vision"]')
    expect(vision.locator(":scope > svg")).to_have_count(1)
    page.locator("#lambda-chart input.terms").check()
    expect(vision.locator(":scope > svg")).to_have_count(3)
    assert cells(page, "vision", 1) == ["1.000", "1.050", "1.100"]
    vision.locator('thead button[data-layer="1"]').click()
    faded = vision.locator("svg path[opacity='0.12']")
    expect(faded).to_have_count(6)
    expect(vision.locator('thead button[data-layer="1"]')).to_be_focused()
    page.get_by_role("button", name="steps", exact=True).click()
    expect(vision.locator("svg text", has_text=re.compile(r"^5$")).first).to_be_visible()


def test_a_model_that_is_brought_is_described_and_chosen_and_its_lambda_drawn(page: Page, folders) -> None:
    page.get_by_role("button", name="Bring a model").click()
    page.locator("#bring-name textarea, #bring-name input").fill(folders[1].name)
    page.locator("#bring-settings textarea, #bring-settings input").fill("lamda_init=0.3")
    page.locator("#bring-left").click()
    expect(page.locator("#brought .said.failed")).to_contain_text("did you mean 'lambda_init'")
    assert page.locator("#left input").input_value() == "CLIP, tiny"
    page.locator("#bring-name textarea, #bring-name input").fill(f"../{folders[1].parent.name}/{folders[1].name}")
    page.locator("#bring-settings textarea, #bring-settings input").fill("lambda_init=0.3")
    page.locator("#bring-left").click()
    expect(page.locator("#brought summary")).to_have_text("DiffCLIP, tiny · lambda_init = 0.3")
    expect(page.locator("#brought dd.given")).to_have_text("lambda_init = 0.3")
    assert page.locator("#left input").input_value() == "DiffCLIP, tiny · lambda_init = 0.3"
    expect(page.locator("#lambda-chart .notes")).to_contain_text("Only the final λ is known")
    expect(page.locator('section[data-tower="vision"] svg circle')).to_have_count(3)
    page.locator("#lambda-chart .kept").select_option(label="DiffCLIP, tiny, step 5")
    page.locator('#lambda-chart button[data-side="left"]').click()
    expect(page.locator("#left input")).to_have_value("DiffCLIP, tiny")
    expect(page.locator('section[data-tower="vision"] svg circle')).to_have_count(0)
