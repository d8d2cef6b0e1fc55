"""What explanations look like: panels on one scale, words with numbers, escaped; prompts as people write them."""

import gc
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import gradio as gr
import numpy as np
import pytest
import torch
from PIL import Image
from plotly.basedatatypes import BaseFigure
from streamed import as_a_page_gets

from models import StudioError, localisation
from studio.attribution import drained
from studio.examples import Example
from studio.explain_all import explain_all
from studio.explained import PATCHES, PIXELS, explanations_strip, number, words_html
from studio.explaining import Explanation, Scores, explain
from studio.failures import told_steps
from studio.looked_at import RUNS_LONG, choose_what_is_looked_at
from studio.methods import IntegratedGradients, LayerIntegratedGradients, Method, Relevance
from studio.prompts import MOST_PROMPTS, prompts_of
from studio.scored_texts import words_csv
from studio.service import Service
from studio.strip import strip_value
from studio.tab_again import result_again
from studio.tab_settings import explain_settings
from studio.tabs.explain import FIGURE_2, explain_tab
from studio.tabs.following import place_in_line
from studio.turns import MOST_IN_LINE
from studio.upload import Upload


def explanations(service: Service, scene: Upload, method: Method, text: str = "a cat") -> list[Explanation]:
    found: list[Explanation] = []
    for name in ("clip-scenes", "diffclip-scenes"):
        look = service.look(name, scene.image)
        for _ in drained(explain(look, look.model.preprocess(scene.image)[0], text, method), found):
            pass
    return found


def test_both_models_are_panels_of_one_scale_with_their_controls(service: Service, scene: Upload) -> None:
    value = strip_value(
        explanations_strip(scene.image, explanations(service, scene, Relevance()), Relevance(), PATCHES)
    )
    json.dumps(value)
    panels = value["panels"]
    assert [panel["of"] for panel in panels] == ["CLIP, tiny", "DiffCLIP, tiny"]
    assert {(panel["kind"], panel["scale"]) for panel in panels} == {("sequential", "all panels")}
    assert panels[0]["title"] == "“a cat”"
    for panel in panels:
        facts = {label: controls[0] for label, _, controls, _ in panel["facts"] if controls}
        # An object covers a quarter of the picture.
        assert (facts["in any object"], facts["AUROC"]) == ("25 %", "0.50")
    assert value["note"].startswith("Text-conditioned relevance")
    assert "A2 shuffled" not in value["note"]


@pytest.mark.parametrize("method", [Relevance(), IntegratedGradients(4)], ids=["relevance", "pixels"])
def test_a_differential_panel_has_the_mean_of_its_runs_with_a2_shuffled(
    service: Service, scene: Upload, method: Method
) -> None:
    names = ("clip-scenes", "diffclip-scenes")
    *_, state = explain_all(service, scene, names, ["a cat"], method, control=True)
    strip = explanations_strip(scene.image, state.explanations, method, PATCHES)
    assert [panel.controls for panel in strip.panels] == [("uniform",), ("uniform", "A2 shuffled")]
    runs, objects = state.explanations[1].shuffled, state.explanations[1].look.objects
    assert objects is not None
    expected = []
    for run in runs:
        assert run.picture.values is not None
        patches = torch.from_numpy(run.picture.values).reshape(4, -1, 4, run.picture.values.shape[1] // 4).sum((1, 3))
        inside = localisation.mass_inside(patches.flatten().clamp(min=0), objects.inside)
        expected.append((run.cosine, inside, localisation.auroc(patches.flatten(), objects.inside, objects.outside)))
    cosine, inside, auroc = np.mean(expected, axis=0)
    facts = {fact.label: fact for fact in strip.panels[1].facts}
    assert facts["cosine"].controls == ("", number(cosine))
    assert facts["in any object"].controls == ("25 %", f"{100 * inside:.0f} %")
    assert facts["AUROC"].controls == ("0.50", number(auroc, 2))
    assert any(fact.controls[1] != fact.value for fact in facts.values() if any(fact.controls)), "nothing was shuffled"
    assert "in every layer, mean of 3 fixed shuffles" in strip.note
    kept = strip.panels[1].shuffled
    assert kept is not None
    assert strip.panels[0].shuffled is None
    objects_of = [
        localisation.auroc(torch.from_numpy(each).flatten(), objects.inside, objects.outside) for each in kept
    ]
    assert np.allclose(objects_of, [each[2] for each in expected])
    fine = explanations_strip(scene.image, state.explanations, method, PIXELS).panels[1]
    assert fine.shuffled is not None
    assert np.array_equal(fine.shuffled, np.array([run.picture.values for run in runs], np.float32))
    assert fine.shuffled.shape == (3, *fine.values.shape)


def test_a_page_that_is_sent_the_differences_between_steps_shows_each_step_as_it_is(
    service: Service, scene: Upload
) -> None:
    names, method = ("clip-scenes", "diffclip-scenes"), LayerIntegratedGradients(4)
    steps, ready = [], (0, 0)
    for state in explain_all(service, scene, names, ["a cat", "a dog"], method, control=True):
        if state.ready != ready:
            ready = state.ready
            steps.append(strip_value(explanations_strip(scene.image, state.explanations, method, PATCHES)))
    assert len(steps) == 4 + 2
    assert as_a_page_gets(steps) == steps


@pytest.mark.parametrize("ready", [(2, 0), (2, 1)], ids=["maps alone", "with the control"])
def test_the_settings_of_a_run_give_its_maps_and_its_control_again(
    service: Service, scene: Upload, ready: tuple[int, int]
) -> None:
    names = ("clip-scenes", "diffclip-scenes")
    states = explain_all(service, scene, names, ["a cat"], Relevance(), control=True)
    state = next(state for state in states if state.ready == ready)
    strip = explanations_strip(scene.image, state.explanations, Relevance(), PATCHES)
    asked = {"method": "relevance", "part": "weights", "rule": "positive", "back": 1}
    asked |= {"steps": 8, "baseline": "blur", "detail": PATCHES}
    settings = explain_settings(names, ["a cat"], asked, state.ready)
    again = result_again(service, scene, settings, lambda what, _: pytest.fail(f"{what} is not needed"))
    assert again.note == strip.note
    for panel, other in zip(again.panels, strip.panels, strict=True):
        assert panel.facts == other.facts
        assert np.array_equal(panel.values, other.values)
    beside = {fact.label: fact.controls for fact in again.panels[1].facts}["AUROC"]
    assert bool(beside[1]) is bool(ready[1])


def test_path_methods_are_signed_and_told_by_pixel_or_by_patch(service: Service, scene: Upload) -> None:
    found = explanations(service, scene, IntegratedGradients(4))
    for detail, size in ((PATCHES, 4), (PIXELS, 32)):
        panel = strip_value(explanations_strip(scene.image, found, IntegratedGradients(4), detail))["panels"][0]
        assert (panel["rows"], panel["cols"], panel["kind"]) == (size, size, "signed")
    labels = [fact[0] for fact in panel["facts"]]
    assert "sum − change" in labels
    assert "cosine, bare" in labels
    assert "on the CLS token" not in labels, "pixels leave nothing aside"


@pytest.mark.parametrize(
    ("gap", "said"),
    [(0.004, ""), (-0.006, "by 6 %"), (0.25, "by 250 %"), (2.0, "not converged: misses its sum by far")],
)
def test_values_that_miss_their_sum_say_so_beside_the_map_and_the_words(
    service: Service, scene: Upload, gap: float, said: str
) -> None:
    one = explanations(service, scene, IntegratedGradients(4))[0]
    picture, words = (replace(scores, gap=(gap, -0.1)) for scores in (one.picture, one.words))
    strip = explanations_strip(
        scene.image, [replace(one, picture=picture, words=words)], IntegratedGradients(4), PATCHES
    )
    for remarks in (strip.panels[0].badges, strip.texts[0].said):
        missed = [text for text in remarks if "misses its sum" in text]
        assert len(missed) == bool(said)
        assert said in "".join(missed)


def test_what_a_layers_map_leaves_out_and_what_words_miss_is_said(service: Service, scene: Upload) -> None:
    method = LayerIntegratedGradients(4)
    names = ("clip-scenes", "diffclip-scenes")
    *_, state = explain_all(service, scene, names, ["a cat"], method, control=True)
    strip = explanations_strip(scene.image, state.explanations, method, PATCHES)
    assert "may stand on CLS" in strip.note
    for panel, each in zip(strip.panels, state.explanations, strict=True):
        facts = {fact.label: fact for fact in panel.facts}
        assert each.picture.aside is not None
        assert facts["on the CLS token"].number == each.picture.aside
        beside = [run.picture.aside for run in each.shuffled if run.picture.aside is not None]
        assert len(beside) == len(each.shuffled)
        assert facts["on the CLS token"].numbers == ((None, fmean(beside)) if beside else (None,))
        assert each.words.gap is not None
        missed = f"sum − change: {number(each.words.gap[0])}"
        assert missed in words_html(state.explanations, "x")
        assert missed in words_csv(strip.texts)
    assert "sum − change" not in words_html(explanations(service, scene, Relevance()), "x")


def test_a_picture_without_a_mask_has_no_number_about_objects(service: Service, scene: Upload) -> None:
    other = Upload(scene.image.rotate(90), scene.file)
    strip = explanations_strip(other.image, explanations(service, other, Relevance()), Relevance(), PATCHES)
    assert "AUROC" not in [fact.label for fact in strip.panels[0].facts]


@pytest.mark.parametrize(
    "values", [np.zeros((4, 4)), -np.ones((4, 4)), np.eye(4) * 1e9, np.full((4, 4), np.nan)], ids=str
)
def test_maps_that_hold_little_are_drawn_with_their_note(service: Service, scene: Upload, values: np.ndarray) -> None:
    found = explanations(service, scene, Relevance())[0]
    shown = replace(found, picture=Scores(values, True, message="Nothing."))
    panel = strip_value(explanations_strip(scene.image, [shown], Relevance(), PATCHES))["panels"][0]
    assert panel["message"] == "Nothing."
    json.dumps(panel, allow_nan=False)


def test_a_side_that_is_missing_is_a_sentence_in_its_place(service: Service, scene: Upload) -> None:
    found = explanations(service, scene, Relevance("a2"))
    panels = explanations_strip(scene.image, found, Relevance("a2"), PATCHES).panels
    assert "has one map and no A2" in panels[0].message
    assert panels[1].message == ""
    assert "has one map and no A2" in words_html(found, "x")


def test_words_carry_signed_numbers_and_no_markup_of_the_person(service: Service, scene: Upload) -> None:
    found = explanations(service, scene, IntegratedGradients(4), '<img src=x onerror="alert(1)"> a cat')
    page = words_html(found, "part of the cosine")
    assert "<img" not in page
    assert "&lt;" in page
    assert page.count('class="ex-bare"') == 4
    assert 'class="ex-minus"' in page
    assert "−0." in page
    assert "never seen in training: img, src" in page


def test_the_largest_word_has_the_full_colour_and_small_numbers_a_power(service: Service, scene: Upload) -> None:
    one = explanations(service, scene, Relevance(), "a cat")[0]
    words = np.full(len(one.pieces), np.nan)
    words[1:3] = 4.2e-5, -2.1e-5
    page = words_html([replace(one, words=Scores(words, True))], "x")
    assert "10<sup>−4</sup>" in page
    assert '--w:1.000"><b>a</b><span>+0.42' in page
    assert '--w:0.500"><b>c' in page
    blank = replace(one, words=Scores(np.where(np.isnan(words), np.nan, 0.0), False, message="All 0."))
    assert "All 0." in words_html([blank], "x")


def scene_of(objects: tuple[str, ...]) -> Example:
    return Example(Path(), Path(), "", objects, "")


def test_prompts_are_lines_each_once_and_the_scenes_objects_stand_in() -> None:
    assert prompts_of(" a cat, sitting \n\n two dogs\na cat, sitting", None) == ["a cat, sitting", "two dogs"]
    assert prompts_of(" \n", scene_of(("car", "airplane"))) == ["a photo of a car", "a photo of an airplane"]
    assert prompts_of("a cat", scene_of(("car",))) == ["a cat"]
    assert prompts_of("a \ud800", None) == ["a ?"]


def test_no_prompt_too_many_and_too_long_ones_get_a_sentence() -> None:
    with pytest.raises(StudioError, match="write a prompt, one a line"):
        prompts_of("", None)
    with pytest.raises(StudioError, match="at most 6"):
        prompts_of("\n".join(map(str, range(MOST_PROMPTS + 1))), None)
    with pytest.raises(StudioError, match="longer than 2000"):
        prompts_of("x" * 2001, None)


def test_a_handler_that_yields_tells_a_sentence_and_ends_when_it_is_closed() -> None:
    ended: list[str] = []

    @told_steps
    def count(until: int) -> Iterator[int]:
        try:
            yield from range(until)
            raise StudioError("No <more>.")
        finally:
            ended.append("yes")

    steps = count(2)
    assert (next(steps), next(steps)) == (0, 1)
    with pytest.raises(gr.Error, match="No &lt;more&gt;"):
        next(steps)
    steps = count(5)
    next(steps)
    steps.close()  # type: ignore[attr-defined]
    assert ended == ["yes", "yes"]


# The page's time, and a request: what the handler of a long run is given first.
ASKED = (1.0, gr.Request(session_hash="a page"))


@pytest.fixture
def demo(service: Service, examples: tuple[Example, ...]) -> gr.Blocks:
    with gr.Blocks(analytics_enabled=False) as demo:
        looked_at = choose_what_is_looked_at(service, examples)
        with gr.Tab("Explain") as tab:
            explain_tab(looked_at, service, tab)
    return demo


def handlers(demo: gr.Blocks, name: str) -> list[Any]:
    return [fn for fn in demo.fns.values() if fn.name == name and fn.fn]


def test_long_runs_wait_in_one_line_and_are_no_endpoints(demo: gr.Blocks) -> None:
    names = ("run", "run_in_turn", "run_duel", "run_duel_in_turn")
    running = [each for name in names for each in handlers(demo, name)]
    assert len(running) == 1 + len(FIGURE_2) + 3
    assert {(fn.concurrency_id, fn.concurrency_limit) for fn in running} == {(RUNS_LONG, MOST_IN_LINE)}
    assert all(fn.api_visibility == "private" for fn in demo.fns.values())


def test_the_presets_of_figure_2_set_its_queries_and_its_method_and_keep_texts_of_ones_own(demo: gr.Blocks) -> None:
    set_up = [fn.fn() for fn in demo.fns.values() if isinstance(fn.fn, partial)]
    assert [given[1:] for given in set_up] == [("relevance", "weights", "positive", 1)] * 3
    assert [given[0] for given in set_up] == ["mug\ndesk lamp", "dog\nflower", gr.skip()]


def test_a_duel_that_waits_says_its_place_and_begins_when_the_run_before_it_has_ended(
    demo: gr.Blocks, scene: Upload
) -> None:
    given = (*ASKED, scene, "clip-scenes", "diffclip-scenes")
    explaining = handlers(demo, "run")[0].fn(*given, "", "ig", "weights", "positive", 1, 8, "blur", PATCHES, False)
    next(explaining)
    asked = list(handlers(demo, "run_duel")[0].fn(*given, "a cat", "", "last layer", "blur", 4))
    assert [step[-1] for step in asked] == [place_in_line(1)], "its event ends"
    (looks,) = (fn.fn for fn in demo.fns.values() if fn.api_name == "run_duel_looks")
    line, again, turn = looks(2.0, "", ASKED[1])
    assert (line, again, turn) == (place_in_line(1), 3.0, gr.skip())
    explaining.close()
    *_, turn = looks(again, line, ASKED[1])
    dueling = handlers(demo, "run_duel_in_turn")[0].fn(turn, ASKED[1])
    assert "passes" in next(dueling)[-2]
    dueling.close()


def test_duels_leave_no_figure_behind(demo: gr.Blocks, scene: Upload) -> None:
    def figures() -> int:
        gc.collect()
        return sum(issubclass(type(each), BaseFigure) for each in gc.get_objects())

    run = handlers(demo, "run_duel")[0].fn
    given = (*ASKED, scene, "clip-scenes", "diffclip-scenes", "a cat", "", "last layer", "blur", 4)
    *_, last = run(*given)
    assert isinstance(last[2], gr.Plot), "there was a figure"
    del last
    before = figures()
    for _ in range(5):
        *_, last = run(*given)
        del last
    assert figures() == before
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or pyplot.get_fignums() == []


def test_a_run_tells_each_batch_and_ends_with_maps_words_and_its_cost(demo: gr.Blocks, scene: Upload) -> None:
    run = handlers(demo, "run")[0].fn
    given = (*ASKED, scene, "clip-scenes", "diffclip-scenes", "", "ig", "weights", "positive", 1, 8, "blur", PATCHES)
    states = list(run(*given, False))
    assert len(states) > 8
    value, words, line = states[-1]
    assert [panel["title"] for panel in value["panels"]] == ["“a photo of a cat”"] * 2
    assert words.count("<ol") == 2
    assert line.startswith("42 passes in ")
    assert states[1][2] == "1 of 42 passes, 2%"


def test_a_run_shows_its_maps_before_the_control_is_worked_out(demo: gr.Blocks, scene: Upload) -> None:
    run = handlers(demo, "run")[0].fn
    given = (*ASKED, scene, "clip-scenes", "diffclip-scenes", "", "ig", "weights", "positive", 1, 8, "blur", PATCHES)
    states = list(run(*given, True))
    told = [value for value, _, _ in states if isinstance(value, dict) and "panels" in value]
    values = [value for before, value in pairwise([None, *told]) if value is not before]
    beside = [[fact[2] for fact in value["panels"][-1]["facts"] if fact[0] == "AUROC"] for value in values]
    assert [len(value["panels"]) for value in values] == [1, 2, 2]
    assert beside[1] == [["0.50", ""]]
    assert beside[2][0][1] != ""
    assert states[-1][2].startswith(f"{42 + 3 * 12} passes in ")


def test_without_a_picture_the_run_and_the_duel_say_so(demo: gr.Blocks) -> None:
    with pytest.raises(gr.Error, match="no picture to explain"):
        next(
            handlers(demo, "run")[0].fn(
                *ASKED, None, "a", "b", "", "ig", "weights", "positive", 1, 8, "blur", PATCHES, True
            )
        )
    with pytest.raises(gr.Error, match="no picture for a duel"):
        next(handlers(demo, "run_duel")[0].fn(*ASKED, None, "a", "b", "", "", "last layer", "blur", 5))


def test_a_duel_takes_the_first_text_and_draws_both_tests(demo: gr.Blocks, scene: Upload) -> None:
    run = handlers(demo, "run_duel")[0].fn
    states = list(run(*ASKED, scene, "clip-scenes", "diffclip-scenes", "two dogs\na cat", " ", "last layer", "blur", 4))
    table, taken, deletion, insertion, line = states[-1]
    assert "“two dogs” · last layer · taken out: blur" in table
    assert deletion.visible
    assert insertion.visible
    assert len(taken) == 32, "the name by which it is taken away"
    assert line.startswith("126 passes in ")
    assert Image.MAX_IMAGE_PIXELS
