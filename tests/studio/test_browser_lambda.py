"""λ curves and brought models in a real browser: what is shown is what the log holds and what was loaded."""

import json
import re
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import gradio as gr
import pytest
from browsing import WAIT
from playwright.sync_api import Locator, Page, expect
from saved_files import drawn_again, saved_by
from watched_browser import WatchedBrowser

from studio.examples import Example
from studio.lambda_recipe import LambdaStyle
from studio.looked_at import choose_what_is_looked_at
from studio.public import Policy
from studio.service import Service
from studio.tab_recipe import read_tab_recipe
from studio.tabs.trajectories import trajectories_tab


@pytest.fixture(scope="module")
def longer(folders: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another run of ten steps, of which the checkpoints of steps 2 and 6 were kept."""
    folder = tmp_path_factory.mktemp("runs") / "longer"
    shutil.copytree(folders[1], folder)
    for step in (2, 6):
        shutil.copytree(folders[1], folder / "steps" / str(step))
    config = folder / "config.json"
    config.write_text(config.read_text("utf-8").replace("DiffCLIP, tiny", "DiffCLIP, longer"), "utf-8")
    with (folder / "log.jsonl").open("w", encoding="utf-8") as log:
        for step in range(1, 11):
            lam = {"vision": [0.5, 0.5 + 0.02 * step, 0.5 + 0.03 * step], "text": [0.8, 0.7]}
            log.write(json.dumps({"step": step, "samples": 256 * step, "lambda": lam}) + "\n")
    return folder


@pytest.fixture(scope="module")
def deep(folders: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 24 and 12 layers, of which all but the first end near the bottom of every plot."""
    folder = tmp_path_factory.mktemp("runs") / "deep"
    shutil.copytree(folders[1], folder)
    config = folder / "config.json"
    config.write_text(config.read_text("utf-8").replace("DiffCLIP, tiny", "DiffCLIP, deep"), "utf-8")
    with (folder / "log.jsonl").open("w", encoding="utf-8") as log:
        for step in (1, 2):
            lam = {
                tower: [0.9, *(0.1 + 0.001 * layer * step for layer in range(1, layers))]
                for tower, layers in (("vision", 24), ("text", 12))
            }
            terms = {tower: [[value, value] for value in values] for tower, values in lam.items()}
            line = {"step": step, "samples": 256 * step, "lambda": lam, "lambda_terms": terms}
            log.write(json.dumps(line) + "\n")
    return folder


@pytest.fixture(scope="module")
def address(folders: tuple[Path, Path], longer: Path, deep: Path, examples: tuple[Example, ...]) -> Iterator[str]:
    service = Service((*folders, longer, deep), examples, policy=Policy(False, roots=(folders[0].parent,)))
    with gr.Blocks(analytics_enabled=False) as demo:
        looked_at = choose_what_is_looked_at(service, examples)
        with gr.Tabs():
            gr.Tab("first")
            with gr.Tab("λ trajectories") as tab:
                trajectories_tab(looked_at, service, tab)
        looked_at.pass_changes_on(demo)
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
    box = page.locator("#lambda-chart input.terms")
    ground = "(input) => getComputedStyle(input).backgroundColor"
    empty = box.evaluate(ground)
    box.check()
    # A white tick is seen on a colour alone; the page draws the colour a moment after the tick.
    expect(box).not_to_have_css("background-color", empty)
    expect(vision.locator(":scope > svg")).to_have_count(3)
    assert cells(page, "vision", 1) == ["1.000", "1.050", "1.100"]
    vision.locator('thead button[data-layer="1"]').click()
    faded = vision.locator("svg path[opacity='0.12']")
    expect(faded).to_have_count(6)
    expect(vision.locator('thead button[data-layer="1"]')).to_be_focused()
    page.get_by_role("button", name="steps", exact=True).click()
    expect(vision.locator("svg text", has_text=re.compile(r"^5$")).first).to_be_visible()


def add_the_longer_run(page: Page) -> Locator:
    """Lay the longer run over the others; the vision tower's plot."""
    page.get_by_role("button", name="More runs").click()
    page.locator("#lambda-shipped").get_by_label("DiffCLIP, longer").check()
    vision = page.locator('section[data-tower="vision"]')
    expect(vision.locator("tr.series")).to_have_count(2)
    return vision.locator(":scope > svg")


def test_the_lines_of_every_run_end_with_the_number_of_their_layer_and_are_saved_as_shown(
    page: Page, folders: tuple[Path, Path], longer: Path, tmp_path: Path
) -> None:
    plot = add_the_longer_run(page)
    width = float((plot.get_attribute("viewBox") or "").split()[2])
    for run, place in (("diffclip-scenes", 44 + (width - 74) / 2 + 9), ("longer", width - 18)):
        ends = plot.locator(f"text.end[data-run='{run}']")
        assert sorted(ends.all_text_contents()) == ["0", "1", "2"]
        assert [float(end.get_attribute("x") or 0) for end in ends.all()] == pytest.approx([place] * 3, abs=0.5)
    page.locator("#lambda-chart .runs button").first.click()
    expect(plot.locator("text.end[data-run='diffclip-scenes']")).to_have_count(0)
    expect(plot.locator("text.end[data-run='longer']")).to_have_count(3)
    page.locator("#lambda-chart input.terms").check()
    page.get_by_role("button", name="steps", exact=True).click()
    page.locator('section[data-tower="vision"] thead button[data-layer="2"]').click()
    files = saved_by(page, page.locator("#lambda-chart").locator(".take"))
    expect(page.locator("#lambda-chart .saved")).to_have_text("Saved as lambda.zip.")
    recipe = read_tab_recipe(json.loads(files["recipe.json"]))
    assert recipe.settings.models == ("clip-scenes", "diffclip-scenes", "longer")
    assert recipe.style == LambdaStyle("steps", True, 2, (1,))
    given = [f"--model={folder.name}={folder}" for folder in (*folders, longer)]
    assert drawn_again(files["recipe.json"], tmp_path, *given) == files
    page.wait_for_function("() => location.search.includes('lambda.chart.hidden=diffclip-scenes')")
    page.reload()
    page.get_by_role("tab", name="λ trajectories").click()
    expect(page.locator("#lambda-chart .runs button")).to_have_attribute("aria-pressed", "false")
    page.locator("#lambda-chart .runs button").click()
    page.wait_for_function("() => !location.search.includes('lambda.chart.hidden')")


def test_the_numbers_of_many_layers_stay_within_their_plots_and_what_is_left_out_is_said(page: Page) -> None:
    page.get_by_role("button", name="More runs").click()
    page.locator("#lambda-shipped").get_by_label("DiffCLIP, deep").check()
    expect(page.locator('section[data-tower="vision"] tr.series')).to_have_count(2)
    page.locator("#lambda-chart .runs button").first.click()
    page.locator("#lambda-chart input.terms").check()
    page.locator('section[data-tower="vision"] thead button[data-layer="5"]').click()
    for tower, numbered in (("vision", {*range(0, 24, 2), 5}), ("text", set(range(12)))):
        plots = page.locator(f'section[data-tower="{tower}"] > svg')
        expect(plots).to_have_count(3)
        for plot in plots.all():
            ends, height = plot.locator("text.end"), float(plot.get_attribute("height") or 0)
            assert {int(text) for text in ends.all_text_contents()} == numbered
            places = sorted(float(end.get_attribute("y") or 0) for end in ends.all())
            assert places[0] >= 20
            assert places[-1] <= height - 22
            assert min(after - before for before, after in pairwise(places)) >= 9.9
            said = plot.locator("title").all_text_contents()
            assert [text.partition(": ")[2][:25] for text in said] == ["one layer in 2 numbered a"] * (
                tower == "vision"
            )
    # A layer that no run has any more is let go: its head, which was pressed, is gone.
    page.locator("#lambda-shipped").get_by_label("DiffCLIP, deep").uncheck()
    page.locator("#lambda-chart .runs button").first.click()
    expect(page.locator('section[data-tower="vision"] tr.series')).to_have_count(1)
    expect(page.locator("section svg path[opacity='0.12']")).to_have_count(0)
    page.wait_for_function("() => !location.search.includes('lambda.chart.layer')")


def test_a_click_on_a_step_chooses_the_nearest_checkpoint_that_was_kept(page: Page) -> None:
    plot = add_the_longer_run(page)
    chosen = page.locator("#lambda-chart .kept option:checked")
    for step, kept in (
        (2.4, "DiffCLIP, longer, step 2"),
        (6.3, "DiffCLIP, longer, step 6"),
        (10, "DiffCLIP, longer, step 10"),
    ):
        box = plot.bounding_box()
        assert box is not None
        page.mouse.click(box["x"] + 44 + step / 10 * (box["width"] - 74), box["y"] + 100)
        expect(page.locator("#lambda-chart .read")).to_contain_text("marked")
        expect(chosen).to_have_text(kept)
        page.keyboard.press("Escape")
    page.mouse.click(box["x"] + 44 + 0.6 * (box["width"] - 74), box["y"] + 100)
    page.locator('#lambda-chart button[data-side="left"]').click()
    expect(page.locator("#left input")).to_have_value("DiffCLIP, longer, step 6")


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
    expect(page.locator("#left input")).to_have_value("DiffCLIP, tiny · lambda_init = 0.3")
    expect(page.locator("#lambda-chart .notes")).to_contain_text("Only the final λ is known")
    expect(page.locator('section[data-tower="vision"] svg circle')).to_have_count(3)
    page.locator("#lambda-chart .kept").select_option(label="DiffCLIP, tiny, step 5")
    page.locator('#lambda-chart button[data-side="left"]').click()
    expect(page.locator("#left input")).to_have_value("DiffCLIP, tiny")
    expect(page.locator('section[data-tower="vision"] svg circle')).to_have_count(0)
