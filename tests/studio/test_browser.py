"""The page in a real Chromium: what a person sees equals what the models computed, and nothing leaves the machine."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from browsing import WAIT, Studio, row_of, served_with_room, shown_percent
from PIL import Image
from playwright.sync_api import BrowserContext, Locator, expect

from models import LoadedModel, load_model, localisation, open_picture, statistics
from models.localisation import patch_coverage
from studio.examples import load_examples, picture_token
from studio.service import vision_grid

SHIPPED = ("clip-scenes", "diffclip-scenes")


@pytest.fixture(scope="module")
def models() -> tuple[LoadedModel, LoadedModel]:
    return load_model(SHIPPED[0]), load_model(SHIPPED[1])


def test_numbers_under_the_panels_are_what_the_models_computed(
    studio: Studio, models: tuple[LoadedModel, LoadedModel]
) -> None:
    example = load_examples()[0]
    image, last = open_picture(example.picture), models[1].vision.layers - 1
    for layer in (last, 0):
        studio.slide("layer", layer)
        studio.wait_shown(layer=layer)
        left, right = (row_of(model, image, layer, 0) for model in models)
        assert studio.fact(0, "entropy") == f"{float(statistics.entropy(left['first'])):.2f}"
        assert studio.fact(1, "entropy") == f"{float(statistics.entropy(right['first'])):.2f}"
        lam = models[1].vision.lambdas()
        assert lam is not None
        assert studio.fact(2, "sum") == f"{lam[layer]:.2f}"
        assert studio.fact(3, "sum") == f"{1 - lam[layer]:.2f}".replace("-", "−")
        assert studio.fact(3, "negative") == shown_percent(statistics.negative_mass(right["difference"]))
        _, geometry = models[1].preprocess(image)
        inside = torch.from_numpy(patch_coverage(example.inside(), geometry, vision_grid(models[1])).reshape(-1) >= 0.5)
        positive = statistics.positive_part(right["difference"])[1:]
        assert studio.fact(3, "inside") == shown_percent(localisation.mass_inside(positive, inside))
        assert re.fullmatch(r"\d+ %", studio.fact(3, "inside", column=1)), "the control stands beside it"
        cosine = statistics.cosine(right["first"], right["subtracted"])
        assert float(studio.fact(3, "cosine")) == pytest.approx(float(cosine), abs=0.011)


def test_all_unsigned_panels_share_one_range_and_the_signed_ones_another(
    studio: Studio, models: tuple[LoadedModel, LoadedModel]
) -> None:
    image = open_picture(load_examples()[0].picture)
    layer = studio.shown()[3]
    left, right = (row_of(model, image, layer, 0) for model in models)
    keys = [len(left["first"]), len(right["first"])]
    top = max(
        float(left["first"][1:].max()) * keys[0],
        float(right["first"][1:].max()) * keys[1],
        float(right["subtracted"][1:].max()) * keys[1],
    )
    ends = studio.viewer.locator(".bar.sequential .ends span").all_inner_texts()
    assert [ends[0], ends[2]] == ["0", f"{top:.1f} ×"]
    signed = float(right["difference"][1:].abs().max()) * keys[1]
    ends = studio.viewer.locator(".bar.signed .ends span").all_inner_texts()
    assert [ends[0], ends[2]] == [f"−{signed:.1f} ×", f"+{signed:.1f} ×"]
    expect(studio.viewer.locator(".panel").nth(3).locator(".badge").first).to_have_text("signed, own scale")


def test_colours_follow_the_weights(studio: Studio, models: tuple[LoadedModel, LoadedModel]) -> None:
    studio.slide("opacity", 1)
    layer, image = studio.shown()[3], open_picture(load_examples()[0].picture)
    for panel, model, name in ((0, models[0], "first"), (1, models[1], "first"), (2, models[1], "subtracted")):
        grid = vision_grid(model)
        weights = row_of(model, image, layer, 0)[name][1:].numpy()
        # Of cividis every step is brighter than the one before, so the order of brightness is that of the weights.
        brightness = studio.patch_colours(panel, grid.rows, grid.cols).reshape(-1, 3) @ [0.2126, 0.7152, 0.0722]
        order = np.argsort(weights, kind="stable")
        assert (np.diff(brightness[order]) >= -1.5).all()
        assert brightness.std() > 1
    difference = row_of(models[1], image, layer, 0)["difference"][1:].numpy()
    colours = studio.patch_colours(3, vision_grid(models[1]).rows, vision_grid(models[1]).cols).reshape(-1, 3)
    strong = np.abs(difference) > 0.05 * np.abs(difference).max()
    warm = colours[:, 0] > colours[:, 2]
    assert (warm[strong] == (difference[strong] > 0)).all()


def test_the_trained_models_read_the_objects(studio: Studio, models: tuple[LoadedModel, LoadedModel]) -> None:
    example = load_examples()[0]
    studio.slide("opacity", 1)
    _, geometry = models[0].preprocess(open_picture(example.picture))
    grid = vision_grid(models[0])
    coverage = patch_coverage(example.inside(), geometry, grid)
    brightness = studio.patch_colours(0, grid.rows, grid.cols) @ [0.2126, 0.7152, 0.0722]
    assert brightness[coverage >= 0.5].mean() > brightness[coverage < 0.1].mean() + 2


def test_a_click_makes_a_patch_the_query_and_a_second_one_returns_to_cls(
    studio: Studio, models: tuple[LoadedModel, LoadedModel]
) -> None:
    grid, image, layer = vision_grid(models[1]), open_picture(load_examples()[0].picture), studio.shown()[3]
    row, col = grid.rows // 2, 1
    line = studio.viewer.locator(".line")
    expect(line).to_contain_text("query CLS")
    before = studio.fact(1, "entropy"), studio.fact(1, "cls")
    studio.click(1, (row + 0.5) / grid.rows, (col + 0.5) / grid.cols)
    expect(line).to_contain_text(f"query patch ({row}, {col})")
    weights = row_of(models[1], image, layer, grid.token(row, col))["first"]
    assert studio.fact(1, "entropy") == f"{float(statistics.entropy(weights)):.2f}"
    assert studio.fact(1, "cls") == shown_percent(weights[0])
    studio.click(0, (row + 0.5) / grid.rows, (col + 0.5) / grid.cols)
    expect(line).to_contain_text("query CLS")
    assert (studio.fact(1, "entropy"), studio.fact(1, "cls")) == before


def test_keys_move_the_query_and_the_layer(studio: Studio, models: tuple[LoadedModel, LoadedModel]) -> None:
    grid = vision_grid(models[0])
    stage, line = studio.viewer.locator(".stage"), studio.viewer.locator(".line")
    stage.focus()
    stage.press("ArrowRight")
    expect(line).to_contain_text(f"query patch ({grid.rows // 2}, {grid.cols // 2})")
    for _ in range(grid.rows):
        stage.press("ArrowUp")
    expect(line).to_contain_text(f"query patch (0, {grid.cols // 2})")
    stage.press("Escape")
    expect(line).to_contain_text("query CLS")
    layer = studio.shown()[3]
    stage.press("[")
    studio.wait_shown(layer=layer - 1)
    stage.press("]")
    studio.wait_shown(layer=layer)


def test_hovering_reads_the_same_pixels_in_every_panel(studio: Studio, models: tuple[LoadedModel, LoadedModel]) -> None:
    grid, image, layer = vision_grid(models[1]), open_picture(load_examples()[0].picture), studio.shown()[3]
    row, col = 1, grid.cols - 2
    studio.page.mouse.move(*studio.point(0, (row + 0.5) / grid.rows, (col + 0.5) / grid.cols))
    rows = [row_of(models[0], image, layer, 0)["first"]]
    rows += [row_of(models[1], image, layer, 0)[name] for name in ("first", "subtracted", "difference")]
    for panel, weights in enumerate(rows):
        tip = studio.viewer.locator(".panel").nth(panel).locator(".tip")
        expect(tip).to_be_visible()
        place, raw, times, _ = re.split(r"  | (?=×)", tip.inner_text().replace("−", "-"))
        value = float(weights[grid.token(row, col)])
        assert place == f"({row}, {col})"
        assert float(raw) == pytest.approx(value, abs=6e-5)
        assert float(times) == pytest.approx(value * len(weights), abs=0.051)


def test_alpha_above_one_hatches_zeros_and_is_called_a_readout(
    studio: Studio, models: tuple[LoadedModel, LoadedModel]
) -> None:
    layer, image = studio.shown()[3], open_picture(load_examples()[0].picture)
    expect(studio.viewer.locator(".note.readout")).to_be_hidden()
    studio.slide("alpha", 2)
    studio.wait_shown(alpha=2)
    weights = row_of(models[0], image, layer, 0, alpha=2.0)["first"]
    assert studio.fact(0, "support").startswith(f"{int((weights > 0).sum())} of ")
    expect(studio.viewer.locator(".note.readout")).to_contain_text("models themselves used softmax")
    expect(studio.viewer.locator(".legend")).to_contain_text("without colour: exactly 0")


def test_a_tall_upload_is_hatched_where_it_was_cropped_and_marked_as_outside_the_domain(
    studio: Studio, models: tuple[LoadedModel, LoadedModel], tmp_path: Path
) -> None:
    noise = np.random.default_rng(2).normal(128, 40, (300, 120, 3)).clip(0, 255).astype(np.uint8)
    Image.fromarray(noise).resize((360, 900), Image.Resampling.BICUBIC).save(tmp_path / "tall.png")
    expect(studio.viewer.get_by_text("outside its domain")).to_have_count(0)
    studio.upload(tmp_path / "tall.png")
    image = open_picture(tmp_path / "tall.png")
    studio.wait_shown(token=picture_token(image))
    expect(studio.viewer.get_by_text("outside its domain")).to_have_count(4)
    expect(studio.viewer.locator(".legend")).to_contain_text("cropped away")
    pixels = studio.pixels(0)
    height, width = pixels.shape[:2]
    assert height / width == pytest.approx(2.5, rel=0.02)
    other, unseen, seen = studio.pixels(3), slice(0, int(0.28 * height)), slice(int(0.32 * height), int(0.68 * height))
    assert (pixels[unseen] == other[unseen]).all(), "no map is drawn where the model saw nothing"
    assert np.percentile(pixels[unseen].mean(-1), 10) < 90
    assert pixels[unseen].mean(-1).std() > 5
    assert (pixels[seen] != other[seen]).any(-1).mean() > 0.9
    weights = row_of(models[0], image, studio.shown()[3], 0)["first"]
    assert studio.fact(0, "entropy") == f"{float(statistics.entropy(weights)):.2f}"
    studio.click(0, 0.1, 0.5)
    expect(studio.viewer.locator(".line")).to_contain_text("query CLS")


def test_a_bad_file_gets_a_sentence_and_loses_nothing(studio: Studio, tmp_path: Path) -> None:
    (tmp_path / "bad.jpg").write_bytes(b"hello, not a picture")
    before, entropy = studio.shown(), studio.fact(0, "entropy")
    studio.upload(tmp_path / "bad.jpg")
    expect(studio.page.get_by_test_id("toast-body")).to_contain_text("not a picture that can be read")
    expect(studio.page.locator("#picture img")).to_have_attribute("src", re.compile(r"scene-0\.png"))
    assert studio.shown() == before
    assert studio.fact(0, "entropy") == entropy


def option(studio: Studio, title: str) -> Locator:
    """A model's name in the open list at the side; the selects of the panels have options of the same name."""
    return studio.page.locator(f'li[role="option"][aria-label="{title}"]')


def test_switching_a_model_changes_the_panels(studio: Studio, models: tuple[LoadedModel, LoadedModel]) -> None:
    expect(studio.viewer.locator(".panel")).to_have_count(4)
    studio.page.locator("#left input").click()
    option(studio, models[1].title).click()
    studio.wait_shown(left=models[1].name)
    kinds = studio.viewer.locator(".panel select.kind")
    assert [kinds.nth(i).input_value() for i in range(4)] == ["a1", "weights", "a1", "weights"]
    assert studio.fact(0, "entropy") == studio.fact(2, "entropy")
    studio.page.locator("#right input").click()
    option(studio, models[0].title).click()
    studio.wait_shown(right=models[0].name)
    assert [kinds.nth(i).input_value() for i in range(4)] == ["a1", "subtracted", "weights", "weights"]


def test_an_example_scene_is_shown_when_it_is_chosen(studio: Studio) -> None:
    example = load_examples()[1]
    button = studio.page.locator("#scenes button").nth(1)
    button.click()
    studio.wait_shown(token=example.token)
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(studio.viewer.get_by_text("outside its domain")).to_have_count(0)


def test_zero_shot_ranks_escapes_and_explains_one_class(studio: Studio) -> None:
    scores, classes = studio.page.locator("#scores"), studio.page.locator("#classes textarea")
    classes.fill("<b>cat</b>, dog")
    studio.page.locator("#rank").click()
    expect(scores.get_by_text("<b>cat</b>")).to_be_visible()
    expect(scores.locator(".zs-row")).to_have_count(2)
    classes.fill("cat")
    studio.page.locator("#rank").click()
    expect(scores).to_contain_text("One class alone cannot be ranked")
    classes.fill("")
    studio.page.locator("#rank").click()
    expect(scores).to_contain_text("The list of classes is empty")


def test_opening_any_tab_loads_no_plotly_and_asks_no_other_host(studio: Studio) -> None:
    asked: list[str] = []
    studio.page.on("request", lambda request: asked.append(request.url))
    for name, shown in {
        "Sparsity": "#sparsity-maps canvas",
        "λ trajectories": "text=its attention is standard",
        "Explain": "#explain-strip",
        "Intervene": "text=Its heads can be ablated",
        "Text": "text=read out at the end token",
    }.items():
        studio.page.get_by_role("tab", name=name, exact=True).click()
        expect(studio.page.get_by_role("tab", name=name, exact=True)).to_have_attribute("aria-selected", "true")
        studio.page.locator(shown).first.wait_for(state="attached", timeout=WAIT)
    assert not [url for url in asked if "plotly" in url.lower()]


def test_a_run_that_the_server_let_go_is_run_again_by_itself(
    context: BrowserContext, folders: tuple[Path, Path]
) -> None:
    scenes = load_examples()
    with served_with_room(folders, 1) as url:
        first, second = Studio(context.new_page()), Studio(context.new_page())
        first.page.goto(url)
        first.wait_shown(token=scenes[0].token)
        second.page.goto(url)
        second.wait_shown(token=scenes[0].token)
        second.page.locator("#scenes button").nth(1).click()
        second.wait_shown(token=scenes[1].token)
        first.slide("layer", 0)
        first.wait_shown(token=scenes[0].token, layer=0)
        expect(first.viewer.locator(".message")).to_have_text([""] * 4)
        for studio in (first, second):
            studio.page.close()


def test_a_store_that_is_too_small_for_two_runs_is_said_and_does_not_ask_for_ever(
    context: BrowserContext, folders: tuple[Path, Path]
) -> None:
    with served_with_room(folders, 0) as url:
        studio = Studio(context.new_page())
        asked: list[str] = []
        studio.page.on("request", lambda request: asked.append(request.url))
        studio.page.goto(url)
        expect(studio.viewer.locator(".message").first).to_have_text(re.compile("let go of this run"))
        runs = sum("queue/join" in url for url in asked)
        studio.page.wait_for_timeout(800)
        assert sum("queue/join" in url for url in asked) == runs <= 3
        studio.page.close()
