"""Explain in a real Chromium: two texts by both models, a long method that says how far it is and can be stopped."""

import re
from statistics import fmean

import numpy as np
import pytest
from browsing import Studio, texts_seen, watch_texts
from hooked import pictures_read, slow_models
from playwright.sync_api import Locator, expect
from saved_files import FILES, recipe_in, saved_by

from models import open_picture
from studio.attribution import drained
from studio.chart_recipe import DuelSettings
from studio.duel import RANDOM, Side, duel
from studio.examples import load_examples, load_gallery
from studio.explain_all import cost_in_words, explain_all
from studio.explained import number
from studio.explaining import Explanation, explain
from studio.methods import FEWEST_STEPS, MOST_STEPS, IntegratedGradients, Method, Relevance, passes
from studio.service import Look, Service, vision_grid
from studio.upload import Upload

SHIPPED = ("clip-scenes", "diffclip-scenes")
SCENE = load_examples()[0]
TEXTS = ("a photo of an airplane", "a photo of a teddy bear")


@pytest.fixture(scope="module")
def looks() -> tuple[Look, Look]:
    """What the same two models do with the picture, apart from the page."""
    service, image = Service(SHIPPED, load_examples()), open_picture(SCENE.picture)
    return service.look(SHIPPED[0], image), service.look(SHIPPED[1], image)


@pytest.fixture(scope="module")
def tab(shared_studio: Studio) -> Studio:
    shared_studio.page.get_by_role("tab", name="Explain", exact=True).click()
    expect(shared_studio.page.locator("#explain-run")).to_be_visible()
    shared_studio.page.locator("#explain-control input").uncheck()
    expect(shared_studio.page.locator("#explain-cost")).not_to_contain_text("A2 shuffled")
    return shared_studio


def choose(tab: Studio, field: str, title: str) -> None:
    tab.page.locator(f"#{field} input").click()
    tab.page.locator(f"li[role=option][aria-label={title!r}]").click()


def write(tab: Studio, *texts: str) -> None:
    tab.page.locator("#explain-prompts textarea").fill("\n".join(texts))


def facts(panel: Locator) -> dict[str, str]:
    """What stands under a panel, without the controls."""
    lines = panel.locator("tr").filter(has=panel.page.locator("th[scope=row]"))
    return {line.locator("th").inner_text(): line.locator("td").first.inner_text() for line in lines.all()}


def explained(look: Look, text: str, method: Method) -> Explanation:
    found: list[Explanation] = []
    list(drained(explain(look, look.model.preprocess(open_picture(SCENE.picture))[0], text, method), found))
    return found[0]


def check_strip(tab: Studio, looks: tuple[Look, Look], texts: tuple[str, ...], method: Method) -> None:
    """Each text by each model, with the numbers that the method gives apart from the page."""
    panels = tab.page.locator("#explain-strip .panel")
    expect(panels).to_have_count(2 * len(texts))
    for at, (text, look) in enumerate((text, look) for text in texts for look in looks):
        panel, wanted = panels.nth(at), explained(look, text, method)
        expect(panel.locator(".head b")).to_have_text(f"“{text}”")
        expect(panel.locator(".head .of")).to_have_text(look.model.title)
        shown = facts(panel)
        assert shown["cosine"] == number(wanted.cosine)
        assert wanted.picture.values is not None
        words = tab.page.locator("#explain-words section").nth(at // 2).locator(".ex-line").nth(at % 2).locator("li b")
        assert words.all_inner_texts() == list(wanted.pieces)
        if wanted.picture.gap is None:
            assert float(shown["largest patch"]) == pytest.approx(np.abs(wanted.picture.values).max(), rel=0.06)
        else:
            assert float(shown["cosine, bare"].replace("−", "-")) == pytest.approx(
                wanted.cosine - wanted.picture.gap[1], abs=1.1e-3
            )
            assert float(shown["sum − change"].replace("−", "-")) == pytest.approx(wanted.picture.gap[0], abs=1.1e-3)


def test_two_texts_are_explained_by_both_models_beside_runs_with_a2_shuffled(
    tab: Studio, looks: tuple[Look, Look]
) -> None:
    write(tab, *TEXTS)
    tab.page.locator("#explain-control input").check()
    expect(tab.page.locator("#explain-cost")).to_have_text(
        cost_in_words(Relevance(), shuffled=[vision_grid(looks[1].model)])
    )
    tab.page.locator("#explain-run").click()
    panels = tab.page.locator("#explain-strip .panel")
    expect(panels).to_have_count(4)
    # The control comes after the maps, and who reads them is not disturbed by it.
    panels.nth(1).locator("canvas").press("ArrowDown")
    expect(tab.page.locator("#explain-status")).to_contain_text(f"{12 + 2 * 12} passes in")
    check_strip(tab, looks, TEXTS, Relevance())
    *_, state = explain_all(
        Service(SHIPPED, load_examples()),
        Upload(open_picture(SCENE.picture), SCENE.picture),
        SHIPPED,
        TEXTS,
        Relevance(),
        control=True,
    )
    for at in (1, 3):
        shuffled = fmean(run.cosine for run in state.explanations[at].shuffled)
        expect(panels.nth(at).locator("th.control")).to_have_text(["uniform", "A2 shuffled"])
        beside = panels.nth(at).locator("tr", has_text="cosine").locator("td.control")
        expect(beside).to_have_text(["", number(shuffled)])
        expect(panels.nth(at - 1).locator("th.control")).to_have_text(["uniform"])
    expect(panels.nth(1).locator("canvas")).to_be_focused()
    expect(panels.nth(1).locator(".tip")).to_be_visible()
    tab.page.locator("#explain-control input").uncheck()
    expect(tab.page.locator("#explain-strip .scales .bar")).to_have_count(1)
    expect(tab.page.locator("#explain-strip .note")).to_contain_text("without the logit scale")


def test_a_long_method_tells_its_cost_before_and_how_far_it_is(tab: Studio, looks: tuple[Look, Look]) -> None:
    write(tab, TEXTS[0])
    choose(tab, "explain-method", "Integrated Gradients")
    tab.page.locator("#explain-steps input[type=range]").press("Home")
    method = IntegratedGradients(FEWEST_STEPS)
    expect(tab.page.locator("#explain-cost")).to_have_text(cost_in_words(method))
    each = passes(method, (0, 0), 0)
    watch_texts(tab.page, "#explain-status")
    with slow_models(0.2):  # as larger ones, so that the page draws what is told meanwhile
        tab.page.locator("#explain-run").click()
        expect(tab.page.locator("#explain-status")).to_contain_text(f"{2 * each} passes in")
    check_strip(tab, looks, TEXTS[:1], method)
    told = [re.match(rf"(\d+) of {2 * each} passes", text) for text in texts_seen(tab.page)]
    made = [int(match[1]) for match in told if match]
    assert made == sorted(made)
    assert len(set(made)) >= 2, "how far it is was told on the way"


def test_stop_ends_a_run_and_what_was_ready_stays(tab: Studio) -> None:
    write(tab, TEXTS[0])
    choose(tab, "explain-method", "Integrated Gradients")
    tab.page.locator("#explain-steps input[type=range]").press("End")
    method = IntegratedGradients(MOST_STEPS)
    expect(tab.page.locator("#explain-cost")).to_have_text(cost_in_words(method))
    before = tab.page.locator("#explain-strip .panel").count()
    status = tab.page.locator("#explain-status")
    with pictures_read() as runs:
        tab.page.locator("#explain-run").click()
        expect(status).to_contain_text(f"of {2 * passes(method, (0, 0), 0)} passes")
        tab.page.locator("#explain-stop").click()
        # Which it says when the batch that was on its way has ended.
        expect(status).to_have_text("Stopped; what was ready stays.")
        made = len(runs)
        tab.page.wait_for_timeout(800)
        assert len(runs) == made
    expect(status).to_have_text("Stopped; what was ready stays.")
    expect(tab.page.locator("#explain-status .error")).to_have_count(0)
    expect(tab.page.locator("#explain-strip .panel")).to_have_count(before)


def test_a_run_that_is_asked_for_while_one_is_under_way_takes_its_place(tab: Studio, looks: tuple[Look, Look]) -> None:
    write(tab, TEXTS[1])
    choose(tab, "explain-method", "Integrated Gradients")
    tab.page.locator("#explain-steps input[type=range]").press("End")
    status = tab.page.locator("#explain-status")
    tab.page.locator("#explain-run").click()
    expect(status).to_contain_text(f"of {2 * passes(IntegratedGradients(MOST_STEPS), (0, 0), 0)} passes")
    tab.page.locator("#explain-steps input[type=range]").press("Home")
    method = IntegratedGradients(FEWEST_STEPS)
    expect(tab.page.locator("#explain-cost")).to_have_text(cost_in_words(method))
    tab.page.locator("#explain-run").click()
    expect(status).to_contain_text(f"{2 * passes(method, (0, 0), 0)} passes in")
    check_strip(tab, looks, TEXTS[1:], method)


def test_run_that_is_pressed_right_after_stop_goes_on_where_it_was(tab: Studio) -> None:
    write(tab, "a photo of a stopped clock")
    choose(tab, "explain-method", "Integrated Gradients")
    method = IntegratedGradients(48)
    tab.page.locator("#explain-steps input[type=number]").fill("48")
    expect(tab.page.locator("#explain-cost")).to_have_text(cost_in_words(method))
    status, run = tab.page.locator("#explain-status"), tab.page.locator("#explain-run")
    watch_texts(tab.page, "#explain-status")
    run.click()
    expect(status).to_contain_text(re.compile(r"[1-9]\d* of \d+ passes"))
    tab.page.locator("#explain-stop").click()
    run.click()
    expect(status).to_contain_text("more from memory")
    told = [re.search(r"(\d+) of \d+ passes", text) for text in texts_seen(tab.page)]
    made = [int(match[1]) for match in told if match]
    assert made == sorted(made)
    ended = re.fullmatch(r"(\d+) passes in [\d.]+ s, (\d+) more from memory", status.inner_text())
    assert ended is not None
    assert int(ended[1]) + int(ended[2]) == 2 * passes(method, (0, 0), 0)


def test_the_papers_figure_is_one_press_whatever_was_set(tab: Studio, looks: tuple[Look, Look]) -> None:
    write(tab, *TEXTS)
    choose(tab, "explain-method", "Occlusion, patch by patch")
    expect(tab.page.locator("#explain-rule")).to_be_hidden()
    tab.page.locator("#explain-preset").click()
    expect(tab.page.locator("#explain-strip .note")).to_contain_text("rule “positive”, last layer")
    expect(tab.page.locator("#explain-status")).to_contain_text("12 passes in")
    expect(tab.page.locator("#explain-rule")).to_be_visible()
    check_strip(tab, looks, TEXTS, Relevance())


def test_the_queries_of_the_papers_figure_are_one_press_and_words_that_no_model_saw_are_said(tab: Studio) -> None:
    write(tab, *TEXTS)
    tab.page.locator("#explain-preset-mug").click()
    expect(tab.page.locator("#explain-prompts textarea")).to_have_value("mug\ndesk lamp")
    words = tab.page.locator("#explain-words")
    expect(words).to_contain_text("never seen in training: mug")
    expect(words).to_contain_text("never seen in training: desk, lamp")


def drawn_curves(tab: Studio, kind: str) -> dict[str, list[float]]:
    script = """(chart) => Object.fromEntries(
      chart._fullData.filter(({ mode, fill }) => mode === 'lines' && fill === 'none')
        .map(({ name, y }) => [name, Array.from(y)]))"""
    return tab.page.locator(f"#duel-{kind} .js-plotly-plot").evaluate(script)


def test_a_duel_draws_the_curves_of_every_map_beside_random_orders(tab: Studio, looks: tuple[Look, Look]) -> None:
    button = tab.page.locator("#duel-take .take")
    expect(button).to_be_hidden()
    tab.page.locator("#duel-text input, #duel-text textarea").first.fill(TEXTS[0])
    tab.page.locator("#duel-points input[type=range]").press("Home")
    tab.page.locator("#duel-run").click()
    expect(tab.page.locator("#duel-status")).to_contain_text("passes in")
    image = open_picture(SCENE.picture)
    for kind in ("deletion", "insertion"):
        expect(tab.page.locator(f"#duel-{kind} .js-plotly-plot")).to_be_visible()
        drawn = drawn_curves(tab, kind)
        assert len(drawn) == 8
        for look in looks:
            sides: list[Side] = []
            list(drained(duel(look, look.model.preprocess(image)[0], TEXTS[0], points=4), sides))
            for curves in sides[0].curves:
                assert drawn[f"{curves.name} · {look.model.title}"] == pytest.approx(getattr(curves, kind), abs=1e-4)
                if curves.name != RANDOM and kind == "deletion":
                    title = re.compile(rf"^\s*{re.escape(look.model.title)} cos")
                    row = tab.page.locator("#duel-table tbody").filter(has_text=title)
                    cell = row.locator("tr").filter(has=tab.page.locator(f"th:text-is({curves.name!r})")).locator("td")
                    expect(cell.first).to_contain_text(number(curves.areas[0]))
    expect(tab.page.locator("#duel-table")).to_contain_text(f"“{TEXTS[0]}”")
    expect(button).to_have_accessible_name("Take away the curves and areas of the duel")
    files = saved_by(tab.page, button)
    expect(tab.page.locator("#duel-take .said")).to_contain_text("Saved as duel-")
    assert list(files) == FILES
    assert recipe_in(files).settings == DuelSettings(TEXTS[0], SHIPPED, "last layer", "mean colour", 4)


def test_a_photograph_without_a_text_asks_for_one_and_keeps_what_is_shown(tab: Studio) -> None:
    write(tab)
    before = tab.page.locator("#explain-strip .panel").count()
    tab.page.locator("#scenes button").last.click()  # a photograph, whose objects nobody listed
    tab.wait_shown(token=load_gallery()[-1].token)
    tab.page.locator("#explain-run").click()
    expect(tab.page.get_by_test_id("toast-body").last).to_contain_text("write a prompt, one a line")
    expect(tab.page.locator("#explain-strip .panel")).to_have_count(before)
