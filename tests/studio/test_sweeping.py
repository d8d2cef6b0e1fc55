"""λ swept: each point is a run of its own, with what was chosen elsewhere kept, and a control at every step."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from models import StudioError
from models.intervention import ShuffledA2, UniformA2
from studio.changes import Change, LearnedA2, TowerChange, controls_value
from studio.chart_plotly import plot_figure
from studio.intervened_maps import MapChoice
from studio.intervening import run_changed
from studio.outcome import probabilities
from studio.service import Service
from studio.sweep_figure import sweep_plots, sweep_words
from studio.sweeping import STEPS, Sweep, Swept, lambda_asked, sweep_lambda, swept_models
from studio.upload import Upload
from studio.zeroshot import parse_prompts

PROMPTS = parse_prompts("cat, dog, apple", "")
NAME = "diffclip-scenes"


def swept(service: Service, scene: Upload, change: Change = Change(), **settings: Any) -> Sweep:  # noqa: B008
    look = service.look(NAME, scene.image)
    asked = {"tower_name": "vision", "choice": MapChoice(2)} | settings
    *steps, last = sweep_lambda(look, scene.image, PROMPTS, change, **asked)
    assert isinstance(last, Sweep)
    assert [step.done for step in steps if isinstance(step, Swept)] == list(range(1, 2 * len(STEPS) + 2))
    return last


def test_steps_run_from_zero_to_one_and_a_half() -> None:
    np.testing.assert_allclose(STEPS, np.arange(16) / 10)


def test_each_point_is_the_run_with_that_lambda(service: Service, scene: Upload) -> None:
    kept = TowerChange({0: 0.3}, off=((1, 0),))
    sweep = swept(service, scene, Change(kept))
    look = service.look(NAME, scene.image)
    for at in (0, 9):
        lam = dict.fromkeys(range(3), STEPS[at])
        outcome = run_changed(look, scene.image, PROMPTS, Change(TowerChange(lam, off=kept.off)))
        assert sweep.own[at].cosine == pytest.approx(outcome.after.cosine.tolist(), abs=1e-6)
        assert sweep.own[at].probability == pytest.approx(probabilities(outcome)[1], abs=1e-6)
    learned = run_changed(look, scene.image, PROMPTS, Change(TowerChange(off=kept.off)))
    assert sweep.at_learned.cosine == pytest.approx(learned.after.cosine.tolist(), abs=1e-6)
    assert sweep.learned == look.model.vision.lambdas()
    assert sweep.kept == ("head 0 ablated in layer 1",)


def test_at_lambda_zero_the_control_is_the_model_itself_and_elsewhere_it_is_not(
    service: Service, scene: Upload
) -> None:
    sweep = swept(service, scene)
    assert sweep.control[0].cosine == pytest.approx(sweep.own[0].cosine, abs=1e-6)
    assert sweep.control[0].inside == pytest.approx(sweep.own[0].inside, abs=1e-6)
    assert sweep.control[10].cosine != pytest.approx(sweep.own[10].cosine, abs=1e-4)
    assert sweep.control_name == "A2 shuffled over the patches"
    assert sweep.area == 0.25


def test_one_layer_alone_can_be_swept(service: Service, scene: Upload) -> None:
    sweep = swept(service, scene, layer=1)
    lambdas = service.model(NAME).vision.lambdas()
    assert lambdas is not None
    assert sweep.learned == (lambdas[1],)
    assert sweep.layers == "layer 1"
    look = service.look(NAME, scene.image)
    outcome = run_changed(look, scene.image, PROMPTS, Change(TowerChange({1: STEPS[4]})))
    assert sweep.own[4].cosine == pytest.approx(outcome.after.cosine.tolist(), abs=1e-6)


def test_the_text_tower_is_swept_against_a_uniform_a2(service: Service, scene: Upload) -> None:
    sweep = swept(service, scene, tower_name="text")
    look = service.look(NAME, scene.image)
    outcome = run_changed(look, scene.image, PROMPTS, Change(text=TowerChange({0: 0.7, 1: 0.7})))
    assert sweep.own[7].cosine == pytest.approx(outcome.after.cosine.tolist(), abs=1e-6)
    assert sweep.control_name == "A2 uniform"
    assert sweep.area is None


def test_what_has_no_lambda_is_refused_in_a_sentence(service: Service, scene: Upload) -> None:
    look = service.look("clip-scenes", scene.image)
    with pytest.raises(StudioError, match="has no λ to sweep in its vision tower"):
        next(sweep_lambda(look, scene.image, PROMPTS, Change(), "vision", MapChoice(0)))
    with pytest.raises(StudioError, match=r"Layer 5 of .* has no λ: choose 0–2"):
        swept(service, scene, layer=5)


def asked_of(service: Service, scene: Upload, names: tuple[str, str], **other: Any) -> list[Any]:
    edits = [controls_value(service.model(names[0]), names[0]), None]
    values = {
        "classes": "cat, <b>dog",
        "template": "a {}",
        "layer": 2,
        "head": "mean",
        "part": "weights",
        "other": None,
        "tower": "vision",
        "only": False,
    } | other
    return list(swept_models(service, scene, names, edits, lambda_asked(**values)))


def test_both_models_are_swept_and_one_without_lambda_says_so(service: Service, scene: Upload) -> None:
    *words, results = asked_of(service, scene, ("clip-scenes", NAME))
    assert all(isinstance(word, str) and "of 33" in word for word in words)
    assert isinstance(results[0], str)
    assert isinstance(results[1], Sweep)
    assert results[1].picture.startswith("data:image/jpeg")
    with pytest.raises(StudioError, match="has no λ to sweep"):
        asked_of(service, scene, ("clip-scenes", "clip-scenes"))
    with pytest.raises(StudioError, match="no tower 'both'"):
        asked_of(service, scene, ("clip-scenes", NAME), tower="both")


def test_the_figures_hold_the_runs_and_no_markup_of_a_class(service: Service, scene: Upload) -> None:
    results = asked_of(service, scene, ("clip-scenes", NAME))[-1]
    sweep = results[1]
    drawn: dict[str, list[float]] = {}
    for plot in sweep_plots(sweep):
        assert plot is not None
        parts = plot_figure(plot).to_dict()
        drawn |= {
            each["name"]: list(each["y"]) for each in parts["data"] if each.get("line", {}).get("dash") == "solid"
        }
        assert "<b>dog" not in json.dumps(parts)
    assert drawn["cat"] == [point.probability[0] for point in sweep.own]
    assert drawn["in object"] == [point.inside for point in sweep.own]
    page = sweep_words(results)
    assert "has no λ to sweep" in page
    assert "control, A2 shuffled" in page


def test_where_the_edits_put_in_another_a2_the_words_do_not_call_it_the_models_own(
    service: Service, scene: Upload
) -> None:
    said = {
        type(a2): sweep_words([swept(service, scene, Change(TowerChange(a2=a2)))])
        for a2 in (LearnedA2(), UniformA2(), ShuffledA2())
    }
    assert ["the model&#x27;s own A2" in words for words in said.values()] == [True, False, False]
    assert ["both are the same runs" in words for words in said.values()] == [False, False, True]
    shuffled = swept(service, scene, Change(TowerChange(a2=ShuffledA2())))
    assert shuffled.own == shuffled.control


def test_classes_that_are_not_drawn_are_spoken_of(service: Service, scene: Upload) -> None:
    sweep = swept(service, scene)
    many = replace(sweep, labels=tuple(f"class {at}" for at in range(7)))
    assert "among 7 classes, of which the 5 likeliest at some λ are drawn" in sweep_words([many])
    assert "among these classes only" in sweep_words([sweep])
    assert "robabilities" not in sweep_words([replace(sweep, labels=("class",))])


def test_without_a_mask_there_is_no_figure_of_objects(service: Service, scene: Upload) -> None:
    classes, inside = sweep_plots(swept(service, scene, tower_name="text"))
    assert classes is not None
    assert inside is None
