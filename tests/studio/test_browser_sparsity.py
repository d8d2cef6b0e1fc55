"""Sparsity in a real Chromium: α makes the zeros that are hatched, and a picture is segmented by what was typed."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from browsing import Studio, drawn_pixels, row_of, set_value
from PIL import Image
from playwright.sync_api import Locator, expect
from saved_files import FILES, recipe_in, saved_by

from models import LoadedModel, Normalizer, attention_maps, load_model, localisation, open_picture, record, statistics
from models.localisation import patch_coverage
from studio import sparsity, sparsity_similarity, sparsity_sweep, sparsity_view
from studio.chart_recipe import AlphaSweepSettings
from studio.examples import load_examples
from studio.service import vision_grid
from studio.sparsity import RULES
from studio.truth import scene_truth

SHIPPED = ("clip-scenes", "diffclip-scenes")
SCENE = load_examples()[0]
PANELS = ((0, "first"), (1, "first"), (1, "subtracted"), (1, "difference"))


@pytest.fixture(scope="module")
def models() -> tuple[LoadedModel, LoadedModel]:
    return load_model(SHIPPED[0]), load_model(SHIPPED[1])


@pytest.fixture(scope="module")
def tab(shared_studio: Studio) -> Studio:
    """The page with the tab open, all of it without transparency, so that a colour is one colour."""
    shared_studio.page.get_by_role("tab", name="Sparsity", exact=True).click()
    expect(strip(shared_studio).locator(".panel")).to_have_count(4)
    set_value(strip(shared_studio).locator(".opacity"), 1)
    return shared_studio


def strip(tab: Studio) -> Locator:
    return tab.page.locator("#sparsity-maps")


def set_alpha(tab: Studio, key: str) -> None:
    """Home is softmax and End is sparsemax."""
    tab.page.locator("#sparsity-alpha input[type=range]").press(key)


def match(tab: Studio, title: str) -> None:
    tab.page.locator("#sparsity-match input").click()
    tab.page.locator(f"li[role=option][aria-label={title!r}]").click()


def fact(tab: Studio, panel: int, label: str, column: int = 0) -> str:
    line = strip(tab).locator(".panel").nth(panel).locator("tr").filter(has=tab.page.locator(f"th:text-is({label!r})"))
    return line.locator("td").nth(column).inner_text()


def spread_within(canvas: Locator, rows: int, cols: int) -> np.ndarray:
    """How much the colour differs inside of each patch (R, C), away from its borders: 0 where it is one colour."""
    pixels = drawn_pixels(canvas).astype(float)
    high, wide = pixels.shape[0] / rows, pixels.shape[1] / cols
    found = np.zeros((rows, cols))
    for row, col in np.ndindex(rows, cols):
        part = pixels[
            int((row + 0.2) * high) : int((row + 0.8) * high), int((col + 0.2) * wide) : int((col + 0.8) * wide)
        ]
        found[row, col] = part.std((0, 1)).max()
    return found


def test_alpha_makes_exact_zeros_that_are_hatched_and_counted(
    tab: Studio, models: tuple[LoadedModel, LoadedModel]
) -> None:
    image = open_picture(SCENE.picture)
    note = strip(tab).locator(".note")
    field = tab.page.locator("#sparsity-layer")
    assert field.evaluate("(node) => node.scrollWidth <= node.clientWidth"), "the slider is wider than its place"
    for key, alpha in (("End", 2.0), ("Home", 1.0)):
        set_alpha(tab, key)
        expect(note).to_contain_text(f"{models[1].title} α = {alpha:g}.")
        for panel, (side, name) in enumerate(PANELS):
            model, grid = models[side], vision_grid(models[side])
            row = row_of(model, image, model.vision.layers - 1, 0, alpha)[name]
            kept = int((row != 0).sum())
            assert fact(tab, panel, "support") == f"{kept} of {len(row)}"
            assert fact(tab, panel, "zeros") == f"{100 * (1 - kept / len(row)):.0f} %"
            hatched = spread_within(strip(tab).locator("canvas").nth(panel), grid.rows, grid.cols) > 1
            assert (hatched == (row[grid.prefix :] == 0).reshape(grid.rows, grid.cols).numpy()).all()
        assert (fact(tab, 0, "zeros") == "0 %") is (alpha == 1)
    expect(strip(tab).locator(".legend")).not_to_contain_text("exactly 0")


def test_the_left_model_gets_the_alpha_that_leaves_it_as_many_keys_as_the_right_one_has(
    tab: Studio, models: tuple[LoadedModel, LoadedModel]
) -> None:
    image, note = open_picture(SCENE.picture), strip(tab).locator(".note")
    set_alpha(tab, "End")
    expect(note).to_contain_text(f"{models[0].title} α = 2;")
    match(tab, "left has the right's support")
    expect(note).not_to_contain_text(f"{models[0].title} α = 2;")
    expect(note).to_contain_text(f"{models[1].title} α = 2.")
    found = re.search(rf"{models[0].title} α = ([\d.]+);", note.inner_text())
    assert found is not None
    kept = []
    for model, alpha in zip(models, (float(found[1]), 2.0), strict=True):
        pixels, _ = model.preprocess(image)
        with record(model.vision) as recording:
            model.encode_image(pixels[None])
        maps = attention_maps(recording[model.vision.layers - 1], normalizer=Normalizer(alpha))
        kept.append(float(torch.stack([statistics.support(part) for part in (maps.a1, maps.a2) if part is not None])
                          .float().mean()))  # fmt: skip
    assert kept[0] == pytest.approx(kept[1], abs=0.1)
    match(tab, "the same α")
    expect(note).to_contain_text(f"{models[0].title} α = 2;")


def test_a_sweep_can_be_stopped_and_leaves_no_curves(tab: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*asked: Any) -> Iterator[Any]:
        for curves in sparsity_sweep.sweep_alpha(*asked):
            time.sleep(0.5)  # as for a larger model, so that there is something to stop
            yield curves

    monkeypatch.setattr(sparsity_view, "sweep_alpha", slow)
    tab.page.locator("#sparsity-sweep").click()
    expect(tab.page.locator("#sparsity-swept")).to_contain_text("values of α")
    tab.page.locator("#sparsity-sweep-stop").click()
    expect(tab.page.locator("#sparsity-swept")).to_have_text("Stopped.")
    tab.page.wait_for_timeout(1200)  # in which two more steps would be made
    expect(tab.page.locator("#sparsity-swept")).to_have_text("Stopped.")
    expect(tab.page.locator("#sparsity-figure .js-plotly-plot")).to_have_count(0)


def test_the_curves_over_alpha_are_taken_away_with_what_they_were_made_from(tab: Studio) -> None:
    tab.page.locator("#sparsity-sweep").click()
    button = tab.page.locator("#sparsity-sweep-take .take")
    expect(button).to_be_visible()
    expect(tab.page.locator("#sparsity-figure .js-plotly-plot")).to_be_visible()
    files = saved_by(tab.page, button)
    expect(tab.page.locator("#sparsity-sweep-take .said")).to_contain_text("Saved as alpha-sweep-")
    assert list(files) == FILES
    settings = recipe_in(files).settings
    assert isinstance(settings, AlphaSweepSettings)
    assert (settings.models, settings.alphas) == (SHIPPED, sparsity_sweep.ALPHAS)


# Every 20 ms it looks whether the answers name another α than the maps, and keeps what stays so twice in a row.
WATCH_ALPHA = """() => {
  const text = (id) => document.querySelector(id)?.innerText ?? '';
  const alphas = (id) => (text(id).match(/α = \\d[.]?\\d*/g) ?? []).slice(0, 2).map(parseAlpha).join();
  const parseAlpha = (said) => parseFloat(said.slice(4));
  let last = '';
  window.alphasApart = [];
  window.alphaWatch = setInterval(() => {
    const [maps, answers] = [alphas('#sparsity-maps .note'), alphas('#sparsity-answers .sg-caption')];
    const apart = answers && answers !== maps ? `${maps} above ${answers}` : '';
    if (apart && apart === last) window.alphasApart.push(apart);
    last = apart;
  }, 20); }"""


def test_answers_are_those_of_the_maps_above_them_also_while_alpha_is_moved(
    tab: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = list[float]()

    def run_with(look: Any, image: Any, asked: Any, rule: Any) -> Any:
        runs.append(asked.alpha)
        time.sleep(0.6 if asked.alpha == 1 else 0)  # as for a larger model, so that there is something to end
        return sparsity.run_with(look, image, asked, rule)

    monkeypatch.setattr(sparsity_similarity, "run_with", run_with)
    answers, line, stop = (tab.page.locator(f"#sparsity-answer{name}") for name in ("s", "ing", "s-stop"))
    set_alpha(tab, "Home")
    expect(strip(tab).locator(".note")).to_contain_text("α = 1.")
    expect(answers).to_contain_text("A readout changes nothing")
    expect(stop).to_have_count(0)
    tab.page.evaluate(WATCH_ALPHA)
    tab.page.locator("#sparsity-mode").get_by_label("intervention", exact=True).check()
    expect(line).to_contain_text(re.compile(r"run \d of 6"))
    expect(stop).to_be_visible()
    set_alpha(tab, "End")
    expect(strip(tab).locator(".note")).to_contain_text("α = 2.")
    expect(answers).to_contain_text("α = 2.")
    expect(answers.locator("table")).to_have_count(2)
    expect(line).to_have_text("")
    assert tab.page.evaluate("window.alphasApart") == []
    assert runs.count(2.0) == 2 * (len(RULES) - 1)
    assert 1 <= runs.count(1.0) < 2 * (len(RULES) - 1), "what belonged to earlier maps was not ended"
    tab.page.evaluate("clearInterval(window.alphaWatch)")
    tab.page.locator("#sparsity-mode").get_by_label("readout", exact=True).check()
    expect(answers).to_contain_text("A readout changes nothing")
    expect(stop).to_have_count(0)


def shown_classes(tab: Studio, side: str, panel: int) -> tuple[np.ndarray, tuple[int, int]]:
    """The class at every drawn pixel, by the legend's colours, as an index into the legend; -1 for hatching."""
    area = tab.page.locator(f"#sparsity-segments-{side}")
    script = "(nodes) => nodes.map((node) => getComputedStyle(node).backgroundColor)"
    colours = [
        [int(part) for part in re.findall(r"\d+", text)]
        for text in area.locator(".legend-classes i").evaluate_all(script)
    ]
    pixels = drawn_pixels(area.locator("canvas").nth(panel)).astype(int)
    distance = np.abs(pixels[..., None, :] - np.array(colours)).max(-1)
    return np.where(distance.min(-1) <= 3, distance.argmin(-1), -1), pixels.shape[:2]


def test_a_scene_is_segmented_by_the_typed_classes_and_the_number_is_that_of_what_is_drawn(tab: Studio) -> None:
    names = (*SCENE.objects, "dog")
    tab.page.locator("#sparsity-classes textarea").fill(", ".join(names))
    for rule in ("top-k", "random keys", "matched entropy", "identity"):
        tab.page.locator("#sparsity-rules").get_by_label(rule, exact=True).uncheck()
    tab.page.locator("#sparsity-segment").click()
    area = tab.page.locator("#sparsity-segments-right")
    expect(area.locator(".panel")).to_have_count(3)  # the mask, softmax, entmax
    expect(area.locator(".legend-classes > span")).to_have_text(list(names))
    truth = scene_truth(SCENE)
    for side in ("left", "right"):
        set_value(tab.page.locator(f"#sparsity-segments-{side} .opacity"), 1)
        for panel in (1, 2):
            drawn, (height, width) = shown_classes(tab, side, panel)
            rows = ((np.arange(height) + 0.5) / height * truth.labels.shape[0]).astype(int)
            cols = ((np.arange(width) + 0.5) / width * truth.labels.shape[1]).astype(int)
            labels = truth.labels[np.ix_(rows, cols)]
            wanted = np.select([labels == at for at in range(1, len(truth.classes) + 1)],
                               [names.index(name) for name in truth.classes], -1)  # fmt: skip
            seen = (wanted >= 0) & (drawn >= 0)
            assert seen.sum() > 0.9 * (wanted >= 0).sum()
            ious = [
                float(((drawn == at) & (wanted == at))[seen].sum() / ((drawn == at) | (wanted == at))[seen].sum())
                for at in {names.index(name) for name in truth.classes}
            ]
            facts = tab.page.locator(f"#sparsity-segments-{side} .panel").nth(panel).locator("tr")
            said = facts.filter(has_text="mIoU").locator("td").first.inner_text()
            beside = facts.filter(has_text="mIoU").locator("td.control[data-name='A2 shuffled']")
            expect(beside).to_have_count(1 if side == "right" else 0)
            assert float(said.removesuffix(" %")) == pytest.approx(100 * np.mean(ious), abs=3)


def test_a_painted_mask_is_what_numbers_are_measured_against_until_it_is_cleared(
    tab: Studio, models: tuple[LoadedModel, LoadedModel]
) -> None:
    image = open_picture(SCENE.picture)
    set_alpha(tab, "Home")
    expect(strip(tab).locator(".note")).to_contain_text(re.compile(rf"{models[1].title} α = 1\.\D"))
    own = fact(tab, 0, "in object")
    tab.page.locator("#sparsity-mask-part").get_by_role("button").first.click()
    tab.page.locator("#sparsity-paint").click()
    painter = tab.page.locator("#sparsity-painter")
    canvas = painter.locator("canvas")
    expect(canvas).to_be_visible()
    before = drawn_pixels(canvas)
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    tab.page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 0.2 * box["height"])
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + 0.3 * box["height"], steps=5)
    tab.page.mouse.up()
    tab.page.mouse.move(1, 1)
    expect(painter.locator(".said")).to_contain_text("of the picture is marked")
    painted = (drawn_pixels(canvas) != before).any(-1)
    said = re.match(r"[\d.]+", painter.locator(".said").inner_text())
    assert said is not None
    assert float(said[0]) == pytest.approx(100 * painted.mean(), abs=1.5)
    tab.page.locator("#sparsity-show").click()
    grid = vision_grid(models[0])
    _, geometry = models[0].preprocess(image)
    whole = np.asarray(Image.fromarray(painted).resize(image.size, Image.Resampling.NEAREST))
    inside = torch.from_numpy(patch_coverage(whole, geometry, grid).reshape(-1) >= 0.5)
    row = row_of(models[0], image, models[0].vision.layers - 1, 0)["first"][grid.prefix :]
    share = 100 * float(localisation.mass_inside(row, inside))
    cell = strip(tab).locator(".panel").first.locator("tr").filter(has_text="in object").locator("td").first
    expect(cell).not_to_have_text(own)
    assert float(cell.inner_text().removesuffix(" %")) == pytest.approx(share, abs=2)
    painter.locator(".clear").click()
    expect(painter.locator(".said")).to_have_text("Nothing is marked yet.")
    tab.page.locator("#sparsity-show").click()
    expect(cell).to_have_text(own)


def test_an_uploaded_mask_goes_with_the_picture_for_which_it_was_uploaded(
    studio: Studio, models: tuple[LoadedModel, LoadedModel], tmp_path: Path
) -> None:
    scenes = [SCENE, load_examples()[1]]
    images = [open_picture(scene.picture) for scene in scenes]
    assert images[0].size == images[1].size, "a mask of another size would be refused, and not taken in silence"
    corner = np.zeros(images[0].size[::-1], np.uint8)
    corner[: len(corner) // 2, : corner.shape[1] // 2] = 255
    Image.fromarray(corner).save(tmp_path / "corner.png")
    studio.page.get_by_role("tab", name="Sparsity", exact=True).click()
    note = strip(studio).locator(".note")
    cell = strip(studio).locator(".panel").first.locator("tr").filter(has_text="in object").locator("td").first
    expect(note).to_contain_text("measured against the scene's own mask.")
    studio.page.locator("#sparsity-mask-part").get_by_role("button").first.click()
    field = studio.page.locator("#sparsity-mask")
    field.locator("input[type=file]").first.set_input_files(tmp_path / "corner.png")
    expect(field.locator("img")).to_be_visible()
    studio.page.locator("#sparsity-show").click()
    expect(note).to_contain_text("measured against the uploaded mask.")
    model, grid = models[0], vision_grid(models[0])

    def share(scene: int, marked: np.ndarray) -> float:
        _, geometry = model.preprocess(images[scene])
        inside = torch.from_numpy(patch_coverage(marked, geometry, grid).reshape(-1) >= 0.5)
        row = row_of(model, images[scene], model.vision.layers - 1, 0, 1.5)["first"][grid.prefix :]
        return 100 * float(localisation.mass_inside(row, inside))

    assert float(cell.inner_text().removesuffix(" %")) == pytest.approx(share(0, corner > 0), abs=1)
    studio.page.locator("#scenes button").nth(1).click()
    expect(field.locator("img")).to_have_count(0)
    expect(note).to_contain_text("measured against the scene's own mask.")
    own = share(1, scene_truth(scenes[1]).labels > 0)
    assert abs(own - share(1, corner > 0)) > 3, "the two masks can be told apart"
    assert float(cell.inner_text().removesuffix(" %")) == pytest.approx(own, abs=1)
