"""Panels of Compare in a real Chromium: added, removed, turned round, laid on each other, linked to and taken away."""

import re
from pathlib import Path

import numpy as np
import pytest
from browsing import Studio, drawn_pixels, row_of, shown_percent, slowed
from PIL import Image
from playwright.sync_api import BrowserContext, expect

from models import LoadedModel, attention_maps, load_model, open_picture, record, statistics
from studio import overview, speaking
from studio.examples import load_examples, picture_token
from studio.service import Service, vision_grid
from studio.speaking import RelevanceAsked

SHIPPED = ("clip-scenes", "diffclip-scenes")


@pytest.fixture(scope="module")
def models() -> tuple[LoadedModel, LoadedModel]:
    return load_model(SHIPPED[0]), load_model(SHIPPED[1])


def test_panels_are_added_changed_and_removed_by_keys_and_never_fewer_than_two(
    studio: Studio, models: tuple[LoadedModel, LoadedModel]
) -> None:
    add, panels = studio.viewer.locator(".add"), studio.viewer.locator(".panel")
    expect(add).to_be_disabled()
    for left in (3, 2):
        remove = studio.viewer.locator(".remove").last
        remove.focus()
        remove.press("Enter")
        expect(panels).to_have_count(left)
    expect(studio.viewer.locator(".remove").first).to_be_disabled()
    add.focus()
    add.press("Enter")
    expect(panels).to_have_count(3)
    studio.choose(2, "model", models[0].name)
    studio.choose(2, "kind", "value")
    expect(panels.nth(2).locator(".badge").first).to_have_text("other unit")
    studio.choose(1, "slot", "1")
    image, layer = open_picture(load_examples()[0].picture), studio.shown()[3]
    pixels, _ = models[1].preprocess(image)
    with record(models[1].vision) as recording:
        models[1].encode_image(pixels[None])
    row = attention_maps(recording[layer]).a1[0, 1, 0]
    assert studio.fact(1, "entropy") == f"{float(statistics.entropy(row)):.2f}"


def test_the_direction_shows_who_reads_a_patch(studio: Studio, models: tuple[LoadedModel, LoadedModel]) -> None:
    grid, image, layer = vision_grid(models[0]), open_picture(load_examples()[0].picture), studio.shown()[3]
    studio.click(0, 2.5 / grid.rows, 3.5 / grid.cols)
    studio.viewer.locator(".stage").press("d")
    expect(studio.viewer.locator(".line")).to_contain_text("query patch (2, 3), who reads it")
    pixels, _ = models[0].preprocess(image)
    with record(models[0].vision) as recording:
        models[0].encode_image(pixels[None])
    column = attention_maps(recording[layer]).a1[0].mean(0)[:, grid.token(2, 3)]
    assert studio.fact(0, "sum") == f"{float(column.sum()):.2f}"
    assert studio.fact(0, "cls") == shown_percent(column[0] / column.sum())


def test_a_panel_of_its_own_range_says_so_and_leaves_the_shared_one(studio: Studio) -> None:
    bars = studio.viewer.locator(".scales .bar")
    expect(bars).to_have_count(2)
    own = studio.viewer.locator(".panel").nth(2).locator(".own")
    own.focus()
    own.press("Enter")
    expect(bars).to_have_count(3)
    expect(studio.viewer.locator(".panel").nth(2).locator(".badge").first).to_have_text("own range")
    expect(studio.viewer.locator(".bar.own")).to_contain_text("panel 3 alone")


def test_what_is_set_aside_is_counted_and_never_dropped_in_silence(
    studio: Studio, models: tuple[LoadedModel, LoadedModel]
) -> None:
    pixels, _ = models[0].preprocess(open_picture(load_examples()[0].picture))
    with record(models[0].vision) as recording:
        models[0].encode_image(pixels[None])
    counts = [int(statistics.sinks(attention_maps(layer).a1[0].mean(0)).sum()) for layer in recording]
    layer = max(range(len(counts)), key=counts.__getitem__)
    assert counts[layer] > 0, "no layer has a sink that could be set aside"
    studio.slide("layer", layer)
    studio.wait_shown(layer=layer)
    note = studio.viewer.locator(".aside-note")
    expect(note).to_have_text(
        "The colour ranges cover patches only. How much lies on CLS is the number “CLS reads itself” below each map."
    )
    assert studio.fact(0, "cls").endswith("%")
    studio.check("aside", "sinks")
    expect(note).to_contain_text(re.compile(rf"A {counts[layer]} sinks? with [1-9]\d* % of the row"))
    studio.check("aside", "none")
    expect(note).to_contain_text("cover all tokens")


def test_the_overview_leads_to_a_layer_and_head(studio: Studio, models: tuple[LoadedModel, LoadedModel]) -> None:
    studio.viewer.locator(".overview-toggle").click()
    cells = studio.viewer.locator(".cells")
    expect(cells).to_have_count(2)
    studio.viewer.locator(".statistic").select_option("negative")
    first = studio.viewer.locator(f".cell[data-at='{models[1].name} 0 0']")
    negative = statistics.negative_mass(row_of(models[1], open_picture(load_examples()[0].picture), 0, 0)["difference"])
    expect(first).to_have_attribute("aria-label", re.compile(f"layer 0, mean over heads: {shown_percent(negative)}"))
    expect(first).to_have_attribute("aria-label", re.compile("A2 shuffled"))
    first.focus()
    first.press("ArrowDown")
    studio.page.keyboard.press("ArrowRight")
    studio.page.keyboard.press("Enter")
    studio.wait_shown(layer=1)
    assert studio.viewer.locator(".panel select.slot").nth(1).input_value() == "0"
    assert studio.viewer.locator(".panel select.slot").nth(0).input_value() == "mean"
    expect(studio.viewer.locator(".matches")).to_contain_text("Best matches in layer 1")


def test_relevance_is_worked_out_for_a_text_and_other_maps_do_not_move(studio: Studio) -> None:
    before = studio.pixels(1)
    studio.choose(0, "kind", "relevance")
    note = studio.viewer.locator(".relevance-note")
    expect(note).to_contain_text(load_examples()[0].caption)
    expect(note).to_contain_text("what fell on CLS is left out")
    first = studio.pixels(0)
    studio.viewer.locator(".text").fill("an <b>airplane</b>")
    studio.viewer.locator(".work-out").click()
    expect(note).to_contain_text("an <b>airplane</b>")
    assert (studio.pixels(0) != first).any()
    expect(studio.viewer.locator(".scales .bar.relevance")).to_have_count(1)
    studio.choose(0, "kind", "weights")
    expect(studio.viewer.locator(".speaking")).to_be_hidden()
    assert (studio.pixels(1) == before).all()


def test_the_control_of_relevance_is_one_press_away_and_that_of_values_is_there(
    studio: Studio, models: tuple[LoadedModel, LoadedModel]
) -> None:
    panels = studio.viewer.locator(".panel")
    studio.choose(1, "kind", "value")
    expect(panels.nth(1).locator("th.control")).to_have_text("A2 shuffled")
    assert re.fullmatch(r"0\.\d\d", studio.fact(1, "entropy", column=1))
    studio.choose(0, "kind", "relevance")
    studio.choose(3, "kind", "relevance")
    button, head = panels.nth(3).locator(".ask-control"), panels.nth(3).locator("th.control")
    expect(button).to_have_text("A2 shuffled?")
    expect(panels.nth(0).locator("th.control")).to_have_count(0)
    assert studio.fact(3, "inside", column=1) == ""
    button.focus()
    button.press("Enter")
    expect(head).to_have_text("A2 shuffled")
    expect(head).to_be_focused()
    scene, service = load_examples()[0], Service(SHIPPED, load_examples())
    asked = RelevanceAsked(models[1].name, scene.token, studio.viewer.locator(".text").input_value(), None)
    control = speaking.RelevanceStore(service).control(asked, open_picture(scene.picture))["control"]
    assert studio.fact(3, "inside", column=1) == shown_percent(control["inside"])
    assert studio.fact(3, "similarity", column=1) == f"{control['similarity']:.2f}".replace("-", "−")
    expect(studio.viewer.locator(".relevance-note")).to_contain_text("mean of 3 fixed shuffles")
    studio.viewer.locator(".text").fill("a rocket")
    studio.viewer.locator(".work-out").click()
    expect(button).to_have_text("A2 shuffled?")


def test_a_second_model_asked_for_relevance_while_the_first_is_at_work_gets_its_own(
    studio: Studio, models: tuple[LoadedModel, LoadedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speaking, "map_gradients", slowed(speaking.map_gradients, 0.5))
    asked: list[str] = []
    studio.page.on("request", lambda request: asked.append(request.url))
    studio.choose(0, "kind", "relevance")
    studio.choose(1, "kind", "relevance")
    messages = studio.viewer.locator(".message")
    expect(messages.nth(1)).not_to_have_text("")
    expect(messages).to_have_text([""] * 4)
    expect(studio.viewer.locator(".speaking-state")).to_have_text("")
    for model in models:
        expect(studio.viewer.locator(".relevance-note")).to_contain_text(model.title)
    studio.page.wait_for_timeout(800)
    assert sum("queue/join" in url for url in asked) <= 3, "it asked on and on"


def test_an_overview_of_other_rows_that_is_wanted_meanwhile_is_the_one_that_is_drawn(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "_layer", slowed(overview._layer, 0.12))
    state = studio.viewer.locator(".overview-state")
    studio.viewer.locator(".overview-toggle").click()
    expect(state).to_contain_text(re.compile("layer [1-9]"))
    studio.viewer.locator(".over").select_option("all")
    expect(studio.viewer.locator(".overview-meaning")).to_contain_text("mean over the rows of all tokens")
    expect(state).to_have_text("")
    expect(studio.viewer.locator(".overview")).to_have_attribute("aria-busy", "false")


def test_the_swipe_lays_two_panels_on_each_other(studio: Studio) -> None:
    studio.viewer.locator(".swipe-toggle").click()
    studio.viewer.locator(".swipe select.right").select_option("3")
    divider, canvas = studio.viewer.locator(".divider"), studio.viewer.locator(".swipe canvas")

    def middle() -> tuple[int, ...]:
        script = "(c) => [...c.getContext('2d').getImageData(c.width * 0.9, c.height * 0.1, 1, 1).data]"
        return tuple(canvas.evaluate(script))

    signed = middle()
    divider.focus()
    divider.press("End")
    assert middle() != signed
    divider.press("Home")
    assert middle() == signed
    box = canvas.bounding_box()
    assert box is not None
    query = studio.viewer.locator(".line").inner_text()
    studio.page.mouse.move(box["x"] + 1, box["y"] + 50)
    studio.page.mouse.down()
    studio.page.mouse.move(box["x"] + box["width"] * 0.95, box["y"] + 60, steps=4)
    studio.page.mouse.up()
    assert float(divider.input_value()) == pytest.approx(0.95, abs=0.02)
    assert studio.viewer.locator(".line").inner_text() == query, "a drag is no click"
    assert middle() != signed


def test_the_address_shows_the_same_again(studio: Studio, context: BrowserContext, address: str) -> None:
    studio.page.locator("#scenes button").nth(1).click()
    studio.wait_shown(token=load_examples()[1].token)
    studio.slide("layer", 2)
    studio.wait_shown(layer=2)
    studio.choose(1, "slot", "1")
    studio.check("scale", "row")
    studio.check("source", "kk")
    studio.click(0, 0.3, 0.6)
    studio.choose(2, "kind", "relevance")
    studio.viewer.locator(".panel").nth(2).locator(".ask-control").click()
    studio.page.wait_for_function("() => location.href.includes('p=relevance.mean.control.diffclip-scenes')")
    expect(studio.viewer.locator(".panel").nth(2).locator("th.control")).to_have_text("A2 shuffled")
    studio.viewer.locator(".swipe-toggle").click()
    studio.viewer.locator(".swipe select.right").select_option("3")
    studio.viewer.locator(".divider").press("Home")
    studio.page.wait_for_function("() => location.href.includes('query=') && location.href.includes('source=kk')")
    studio.page.wait_for_function("() => location.href.includes('swipe=1.4.0')")
    studio.page.mouse.move(1, 1)  # a patch that is pointed at is outlined
    address = studio.page.evaluate("location.href")
    again = Studio(context.new_page())
    again.page.goto(address)
    again.wait_shown(token=load_examples()[1].token, layer=2)
    expect(again.viewer.locator(".panel").nth(2).locator("th.control")).to_have_text("A2 shuffled")
    for panel in range(4):
        assert (again.pixels(panel) == studio.pixels(panel)).all()
    swiped = [drawn_pixels(each.viewer.locator(".swipe canvas")) for each in (studio, again)]
    assert (swiped[0] == swiped[1]).all()
    assert again.viewer.locator(".line").inner_text() == studio.viewer.locator(".line").inner_text()
    expect(again.page.locator("#scenes button").nth(1)).to_have_attribute("aria-pressed", "true")
    again.page.close()


def test_a_link_whose_picture_is_not_here_asks_for_it_and_keeps_its_settings(
    context: BrowserContext, address: str, tmp_path: Path
) -> None:
    for index in (0, 1):
        noise = np.random.default_rng(90 + index).integers(0, 256, (80, 80, 3), dtype=np.uint8)
        Image.fromarray(noise).save(tmp_path / f"{index}.png")
    token = picture_token(open_picture(tmp_path / "1.png"))
    studio = Studio(context.new_page())
    studio.page.goto(f"{address}?picture={token}&layer=1&p=a1.1.diffclip-scenes&p=weights.mean.clip-scenes")
    need = studio.viewer.locator(".need-text")
    expect(need).to_contain_text(token)
    field = studio.page.locator("#picture input[type=file]").first
    field.set_input_files(tmp_path / "0.png")
    expect(need).to_contain_text("not that of the link")
    studio.upload(tmp_path / "1.png")
    studio.wait_shown(token=token, layer=1)
    expect(need).to_be_hidden()
    expect(studio.viewer.locator(".panel")).to_have_count(2)
    assert studio.viewer.locator("select.slot").first.input_value() == "1"
    studio.page.close()


def test_what_is_shown_is_taken_away(studio: Studio) -> None:
    with studio.page.expect_download() as saved:
        studio.viewer.locator(".take").click()
    assert saved.value.suggested_filename.endswith(".zip")
