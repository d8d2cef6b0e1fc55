"""Controls of Compare in a real Chromium: heads, scales, ramps, drawings and places are what the models' maps say."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from browsing import Studio, maps_of, opened, row_of
from checkpoint_folders import write_checkpoint
from PIL import Image
from playwright.sync_api import BrowserContext, expect
from tiny import tiny_config

from models import LoadedModel, load_model, open_picture, statistics
from models.tokenizer import DomainTokenizer
from studio.examples import load_examples, picture_token
from studio.render.over_picture import between, between_kept, finer
from studio.render.ramps import colours
from studio.service import vision_grid
from studio.ui import build_app, launch_settings

SHIPPED = ("clip-scenes", "diffclip-scenes")
SCENE = open_picture(load_examples()[0].picture)


@pytest.fixture(scope="module")
def models() -> tuple[LoadedModel, LoadedModel]:
    return load_model(SHIPPED[0]), load_model(SHIPPED[1])


def bar(studio: Studio, group: str) -> list[str]:
    """What stands at the low end, in the middle and at the high end of a colour bar."""
    return studio.viewer.locator(f".bar.{group} .ends span").all_inner_texts()


def numbers_at(studio: Studio, panel: int) -> float:
    """The raw number beside the outline of the patch that is pointed at."""
    tip = studio.viewer.locator(".panel").nth(panel).locator(".tip")
    expect(tip).to_be_visible()
    return float(tip.inner_text().replace("−", "-").split("  ")[1])


def test_keys_and_the_slider_choose_the_head_of_all_panels(
    shared_studio: Studio, models: tuple[LoadedModel, LoadedModel]
) -> None:
    studio, viewer = shared_studio, shared_studio.viewer
    slots, said = viewer.locator("select.slot"), viewer.locator(".head-text")
    stage, slider = viewer.locator(".stage"), viewer.get_by_role("slider", name="Head")

    def heads() -> list[str]:
        studio.wait_numbers()
        return [slots.nth(panel).input_value() for panel in range(4)]

    expect(said).to_have_text("mean")
    stage.press("h")
    assert heads() == ["0"] * 4
    expect(said).to_have_text(f"0 (0–{models[0].vision.heads - 1})")
    row = maps_of(models[1], SCENE, studio.shown()[3]).a1[0, 0, 0]
    assert studio.fact(1, "entropy") == f"{float(statistics.entropy(row)):.2f}"
    stage.press("H")
    stage.press("H")
    last = [str(model.vision.heads - 1) for model in (models[0], *[models[1]] * 3)]
    assert heads() == last
    expect(said).to_have_text("differs by panel")
    stage.press("h")
    assert heads() == ["mean"] * 4
    slider.press("ArrowRight")
    slider.press("ArrowRight")
    assert heads() == ["1"] * 4
    expect(slider).to_have_attribute("aria-valuetext", "1 (0–3)")
    expect(slider).to_be_focused()
    slider.press("End")
    assert heads() == ["3", "1", "1", "1"], "a model without this head keeps its own"
    slider.press("ArrowLeft")
    assert heads() == ["2", "1", "1", "1"]
    slider.press("Home")
    assert heads() == ["mean"] * 4


@pytest.mark.parametrize(("ramp", "name"), [("linear", "linear ramp"), ("root", "square-root ramp")])
def test_raw_values_are_drawn_on_the_ramp_that_the_bar_names(
    shared_studio: Studio, models: tuple[LoadedModel, LoadedModel], ramp: str, name: str
) -> None:
    studio = shared_studio
    studio.slide("opacity", 1)
    studio.check("scale", "raw")
    studio.check("ramp", ramp)
    left, right = (row_of(model, SCENE, studio.shown()[3], 0) for model in models)
    top = max(float(row[1:].max()) for row in (left["first"], right["first"], right["subtracted"]))
    assert bar(studio, "sequential") == ["0", f"one scale for A, A1 and λA2: weight, {name}", f"{top:.4f}"]
    difference = right["difference"][1:].numpy()
    reach = float(np.abs(difference).max())
    assert bar(studio, "signed") == [f"−{reach:.4f}", f"0 · weight, {name}", f"+{reach:.4f}"]
    for panel, values, end in ((0, left["first"][1:].numpy(), top), (3, difference, reach)):
        grid = vision_grid(models[panel // 2 and 1])
        drawn = studio.patch_colours(panel, grid.rows, grid.cols).reshape(-1, 3)
        expected = colours(values, end, signed=panel == 3, root=ramp == "root").astype(int)
        assert np.abs(drawn - expected).max() <= 4


def test_a_row_is_divided_by_the_sum_of_its_sizes_also_where_it_has_signs(
    shared_studio: Studio, models: tuple[LoadedModel, LoadedModel]
) -> None:
    studio = shared_studio
    studio.check("scale", "row")
    left, right = (row_of(model, SCENE, studio.shown()[3], 0) for model in models)
    rows = (left["first"], right["first"], right["subtracted"])
    top = max(float(row[1:].max() / row.abs().sum()) for row in rows)
    signed = float(right["difference"][1:].abs().max() / right["difference"].abs().sum())
    assert [bar(studio, "sequential")[0], bar(studio, "sequential")[2]] == ["0", f"{100 * top:.1f} %"]
    assert [bar(studio, "signed")[0], bar(studio, "signed")[2]] == [f"−{100 * signed:.1f} %", f"+{100 * signed:.1f} %"]
    for group in ("sequential", "signed"):
        assert "share of Σ|row|" in bar(studio, group)[1]
    studio.check("direction", "read by")
    assert "share of Σ|column|" in bar(studio, "signed")[1]
    expect(studio.viewer.locator(".note.shuffled")).to_contain_text("over the patches that read")
    studio.check("scale", "uniform")
    studio.choose(1, "kind", "value")
    middle = studio.viewer.locator(".bar.value .ends span").nth(1)
    expect(middle).to_contain_text("× mean of the column")
    studio.check("direction", "reads")
    expect(middle).to_contain_text("× mean of the row")
    studio.choose(2, "kind", "weights")
    both = studio.viewer.locator(".bar.signed .ends span").nth(1)
    expect(both).to_have_text("0 · one scale for panels 3 and 4: × uniform, square-root ramp")
    studio.choose(3, "kind", "a1")
    expect(both).to_have_text("0 · × uniform, square-root ramp")
    expect(studio.viewer.locator(".note.rescaled")).to_be_visible()
    studio.choose(2, "kind", "subtracted")
    expect(studio.viewer.locator(".note.rescaled")).to_be_hidden()
    expect(studio.viewer.locator(".note.shuffled")).to_contain_text("mean of 20 fixed shuffles")
    studio.choose(1, "kind", "a1")
    expect(studio.viewer.locator(".note.shuffled")).to_be_hidden()
    studio.choose(3, "kind", "weights")


def test_positive_and_negative_panels_show_the_parts_of_the_signed_one(
    shared_studio: Studio, models: tuple[LoadedModel, LoadedModel]
) -> None:
    studio = shared_studio
    studio.choose(1, "kind", "positive")
    studio.choose(2, "kind", "negative")
    grid, row = vision_grid(models[1]), row_of(models[1], SCENE, studio.shown()[3], 0)["difference"]
    assert studio.fact(1, "sum") == f"{float(row.clamp(min=0).sum()):.2f}"
    assert studio.fact(2, "sum") == f"{float(row.clamp(max=0).abs().sum()):.2f}"
    for kind in ("positive", "negative"):
        expect(studio.viewer.locator(".legend")).to_contain_text(f"In a {kind} part it stands wherever A1 − λA2 is not")
    patches = row[1:]
    for at in (int(patches.argmax()), int(patches.argmin())):
        place = ((at // grid.cols + 0.5) / grid.rows, (at % grid.cols + 0.5) / grid.cols)
        studio.page.mouse.move(*studio.point(3, *place))
        value = float(patches[at])
        assert numbers_at(studio, 3) == pytest.approx(value, abs=6e-5)
        assert numbers_at(studio, 1) == pytest.approx(max(value, 0), abs=6e-5)
        assert numbers_at(studio, 2) == pytest.approx(max(-value, 0), abs=6e-5)
    studio.page.mouse.move(1, 1)
    studio.choose(1, "kind", "a1")
    studio.choose(2, "kind", "subtracted")


def test_the_smooth_drawing_is_interpolated_and_says_so(
    shared_studio: Studio, models: tuple[LoadedModel, LoadedModel]
) -> None:
    studio, grid = shared_studio, vision_grid(models[0])
    studio.slide("opacity", 1)

    def colours_in_a_patch() -> int:
        """How many there are in the middle of the busiest patch, away from the lines between patches."""
        pixels = studio.pixels(0)
        high, wide = pixels.shape[0] / grid.rows, pixels.shape[1] / grid.cols
        counts = []
        for row in range(grid.rows):
            for col in range(grid.cols):
                part = pixels[int(row * high) + 3 : int((row + 1) * high) - 3]
                part = part[:, int(col * wide) + 3 : int((col + 1) * wide) - 3]
                counts.append(len(np.unique(part.reshape(-1, 3), axis=0)))
        return max(counts)

    assert colours_in_a_patch() == 1
    expect(studio.viewer.locator(".legend")).not_to_contain_text("interpolated")
    studio.check("drawing", "smooth")
    expect(studio.viewer.locator(".legend")).to_contain_text("values between patch centres are interpolated")
    assert colours_in_a_patch() > 10
    studio.check("drawing", "patches")
    assert colours_in_a_patch() == 1


def test_what_is_set_aside_lends_no_colour_to_its_neighbours_in_the_smooth_drawing(
    shared_studio: Studio, models: tuple[LoadedModel, LoadedModel]
) -> None:
    studio, grid = shared_studio, vision_grid(models[1])
    whole = maps_of(models[1], SCENE, 1).weights[0, 0]
    sinks = statistics.sinks(whole)
    values = (whole[0] * len(sinks))[1:].reshape(grid.rows, grid.cols).double().numpy()
    aside = sinks[1:].reshape(grid.rows, grid.cols).numpy()
    assert aside.any()
    layer = studio.shown()[3]
    studio.slide("opacity", 1)
    studio.slide("layer", 1)
    studio.wait_shown(layer=1)
    for control, value in (("scale", "uniform"), ("ramp", "linear"), ("aside", "sinks"), ("drawing", "smooth")):
        studio.check(control, value)
    studio.choose(3, "slot", "0")
    studio.wait_numbers()
    top = float(bar(studio, "signed")[2].removeprefix("+").removesuffix(" ×"))
    drawn = studio.patch_colours(3, 8 * grid.rows, 8 * grid.cols).astype(int)
    inner = (np.arange(8 * grid.rows) % 8 > 1) & (np.arange(8 * grid.rows) % 8 < 6)  # away from lines between patches
    seen = ~finer(aside) & inner[:, None] & inner[None]
    with_sinks, without = (
        np.abs(colours(fine, top, signed=True, root=False).astype(int) - drawn)[seen].max()
        for fine in (between(values), between_kept(values, aside))
    )
    assert without < 25 < with_sinks
    for control, value in (("ramp", "root"), ("aside", "prefix"), ("drawing", "patches")):
        studio.check(control, value)
    studio.choose(3, "slot", "mean")
    studio.slide("layer", layer)
    studio.wait_shown(layer=layer)


def test_rows_of_summed_maps_are_named_by_what_they_add_up_to(
    shared_studio: Studio, models: tuple[LoadedModel, LoadedModel]
) -> None:
    studio = shared_studio
    lam = models[1].vision.lambdas()
    assert lam is not None
    names = [studio.viewer.locator(".panel").nth(panel).locator("tr[data-measure=sum] th") for panel in (2, 3)]
    for name, said in zip(names, ("λ, row sum", "row sum, 1 − λ"), strict=True):
        expect(name).to_have_text(said)
    studio.check("source", "qq+kk")
    expect(studio.viewer.locator(".note.readout")).to_contain_text("an even one stands at 2 × uniform")
    for name, said in zip(names, ("2λ, row sum", "row sum, 2 (1 − λ)"), strict=True):
        expect(name).to_have_text(said)
    assert studio.fact(3, "sum") == f"{2 * (1 - lam[studio.shown()[3]]):.2f}".replace("-", "−")
    studio.check("source", "qk")
    expect(names[1]).to_have_text("row sum, 1 − λ")


def test_the_overview_has_sums_and_norms_and_a_neutral_colour_at_a_sum_of_one(
    shared_studio: Studio, models: tuple[LoadedModel, LoadedModel]
) -> None:
    viewer = shared_studio.viewer
    viewer.locator(".overview-toggle").click()
    viewer.locator(".statistic").select_option("sum")
    lam = models[1].vision.lambdas()
    assert lam is not None
    for name, expected in ((SHIPPED[0], 1.0), (SHIPPED[1], 1 - lam[0])):
        cell = viewer.locator(f".cell[data-at='{name} 0 0']")
        expect(cell).to_have_attribute("aria-label", re.compile(f": {expected:.2f}$".replace("-", "−")))
    neutral = viewer.locator(f".cell[data-at='{SHIPPED[0]} 0 0']")
    expect(neutral).to_have_css("background-color", "rgb(247, 247, 247)")
    expect(viewer.locator(".overview-meaning")).to_contain_text("1 − λ for A1 − λA2")
    expect(viewer.locator(".statistic option[value=outliers]")).to_have_count(0)
    viewer.locator(".over").select_option("all")
    viewer.locator(".statistic").select_option("outliers")
    expect(viewer.locator(".overview-meaning")).to_contain_text("the tokens themselves are not recorded")
    cell = viewer.locator(f".cell[data-at='{SHIPPED[1]} 0 1']")
    expect(cell).to_have_attribute("aria-label", re.compile(r"head 0: [\d.]+ \(A2 shuffled [\d.]+\)$"))
    viewer.locator(".overview-toggle").click()


@pytest.fixture(scope="module")
def unlike(
    context: BrowserContext,
    clip: LoadedModel,
    diffclip: LoadedModel,
    tokenizer: DomainTokenizer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Studio]:
    """The page on a model of 4 x 4 patches that crops the picture, and one of 3 x 3 that squashes it."""
    root = tmp_path_factory.mktemp("unlike")
    config = tiny_config("differential", tokenizer.vocab_size, image_size=24)
    settings = replace(diffclip.preprocess_settings, size=24, mode="squash")
    squashing = replace(diffclip, config=config, preprocess_settings=settings)
    folders = [
        write_checkpoint(root / "cropping", clip, "cropping", tokenizer),
        write_checkpoint(root / "squashing", squashing, "squashing", tokenizer),
    ]
    demo = build_app(folders)
    _, url, _ = demo.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", **launch_settings())
    try:
        with opened(context, url) as studio:
            yield studio
    finally:
        demo.close()


def outlined(studio: Studio, panel: int, before: np.ndarray) -> tuple[float, float, float, float]:
    """(top, left, bottom, right) of what changed on a panel, in fractions of its picture."""
    rows, cols = np.nonzero((studio.pixels(panel) != before).any(-1))
    height, width = before.shape[:2]
    return rows.min() / height, cols.min() / width, (rows.max() + 1) / height, (cols.max() + 1) / width


def test_pointing_outlines_the_same_original_pixels_on_a_model_of_another_grid_and_crop(
    unlike: Studio, clip: LoadedModel, tmp_path: Path
) -> None:
    studio = unlike
    noise = np.random.default_rng(4).integers(0, 256, (60, 120, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "wide.png")
    studio.upload(tmp_path / "wide.png")
    image = open_picture(tmp_path / "wide.png")
    studio.wait_shown(token=picture_token(image))
    studio.wait_numbers()
    assert studio.viewer.locator(".panel .model").nth(3).input_value() == "squashing"
    _, geometry = clip.preprocess(image)
    top, left, bottom, right = geometry.patch_box(1, 3, vision_grid(clip))
    assert (left, right) == (pytest.approx(75), pytest.approx(90)), "the middle 60 x 60 pixels, four patches a side"
    before = [studio.pixels(panel) for panel in (0, 3)]
    studio.page.mouse.move(*studio.point(0, (top + bottom) / 2 / 60, (left + right) / 2 / 120))
    tips = studio.viewer.locator(".tip")
    # Its centre, (22.5, 82.5), lies in the squashing model's patch of rows 20 to 40 and columns 80 to 120.
    for panel, patch in ((0, "(1, 3)"), (3, "(1, 2)")):
        expect(tips.nth(panel)).to_contain_text(patch)
        found = outlined(studio, panel, before[0 if panel == 0 else 1])
        assert found == pytest.approx((top / 60, left / 120, bottom / 60, right / 120), abs=0.03)
    studio.page.mouse.move(*studio.point(3, 0.5, 0.1))
    expect(tips.nth(0)).to_have_text("not seen")
    expect(tips.nth(3)).to_contain_text("(1, 0)")
    studio.click(0, (top + bottom) / 2 / 60, (left + right) / 2 / 120)
    expect(studio.viewer.locator(".line")).to_contain_text("query patch (1, 3) of the 4 × 4 of cropping, what it reads")
    studio.page.keyboard.press("Escape")


def test_a_head_and_a_map_that_a_model_does_not_have_are_told_when_another_takes_their_place(unlike: Studio) -> None:
    studio, said = unlike, unlike.viewer.locator(".said")
    studio.choose(0, "slot", "3")
    studio.choose(0, "model", "squashing")
    expect(said).to_have_text("squashing has heads 0–1 and no head 3: panel 1 shows the mean over heads.")
    studio.choose(0, "kind", "a1")
    expect(said).to_be_hidden()
    studio.choose(0, "model", "cropping")
    expect(said).to_have_text("cropping subtracts nothing and has no A1: panel 1 shows its A.")
    studio.choose(0, "kind", "relevance")
    expect(studio.canvas(0)).to_have_attribute("aria-label", "relevance of cropping, all heads, over the picture")
