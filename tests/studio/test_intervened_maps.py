"""Panels before and after: the weights that the model used, from the query that the embedding is made of."""

from typing import Any

import numpy as np
import pytest
from families import siglip

from models import LoadedModel, StudioError, attention_maps, record
from models.intervention import SetLambda, edited_maps
from studio.changes import Change, TowerChange
from studio.intervened_maps import MapChoice, map_choice, maps_strip, panels_of
from studio.intervening import Outcome, Refused, run_changed
from studio.service import Look, Service
from studio.upload import Upload


def outcome_of(service: Service, scene: Upload, change: Change, name: str = "diffclip-scenes") -> Outcome:
    return run_changed(service.look(name, scene.image), scene.image, [], change)


def test_panels_are_the_weights_of_the_two_runs_and_their_difference(service: Service, scene: Upload) -> None:
    outcome = outcome_of(service, scene, Change(TowerChange({0: 0.0, 1: 0.0, 2: 0.0})))
    before, after, moved = panels_of(outcome, MapChoice(2, 1))
    tower = outcome.model.vision
    expected = attention_maps(outcome.before.recording[2]).weights[0, 1, 0, 1:].reshape(4, 4) * 17
    np.testing.assert_allclose(before.values, expected.numpy(), rtol=1e-5)
    changed = edited_maps(tower, [SetLambda(0.0)], 2, outcome.after.recording[2]).weights
    np.testing.assert_allclose(after.values, changed[0, 1, 0, 1:].reshape(4, 4).numpy() * 17, rtol=1e-5)
    np.testing.assert_allclose(moved.values, after.values - before.values, atol=1e-4)
    assert (before.kind, after.kind, moved.kind) == ("signed", "signed", "signed")
    assert before.scale == after.scale != moved.scale
    assert "intervention" in after.title
    assert "intervention" not in before.title


def test_numbers_that_suggest_cleaning_have_their_control(service: Service, scene: Upload) -> None:
    before, after, _ = panels_of(outcome_of(service, scene, Change(TowerChange({0: 0.1}))), MapChoice(1))
    for panel in (before, after):
        facts = {fact.label: fact for fact in panel.facts}
        for label in ("negative mass", "in object, positive", "AUROC, signed"):
            assert facts[label].controls[0], label
            assert "shuffled" in facts[label].meaning
        assert facts["row sum"].controls == ()
        assert panel.controls == ("A2 shuffled",)


def test_lambda_zero_leaves_no_negative_mass(service: Service, scene: Upload) -> None:
    _, after, _ = panels_of(outcome_of(service, scene, Change(TowerChange({2: 0.0}))), MapChoice(2))
    facts = {fact.label: fact.value for fact in after.facts}
    assert facts["negative mass"] == "0 %"
    assert facts["row sum"] == "1.00"


def test_a_layer_of_ablated_heads_reads_nothing_and_its_shares_are_undefined(service: Service, scene: Upload) -> None:
    change = Change(TowerChange(off=tuple((1, head) for head in range(4))))
    _, after, moved = panels_of(outcome_of(service, scene, change, "clip-scenes"), MapChoice(1))
    assert not after.values.any()
    assert {fact.label: fact.value for fact in after.facts}["in object"] == "–"
    assert {fact.label: fact.value for fact in moved.facts}["cosine of rows"] == "–"


def test_a_map_that_does_not_exist_says_why_and_is_no_map(service: Service, scene: Upload) -> None:
    outcome = outcome_of(service, scene, Change(), "clip-scenes")
    for choice, said in (
        (MapChoice(2, None, "subtracted"), "subtracts nothing"),
        (MapChoice(2, 9), "has no head 9: choose 0–3"),
        (MapChoice(7), "has no layer 7: choose 0–2"),
    ):
        panels = panels_of(outcome, choice)
        assert len(panels) == 3
        assert said in panels[0].message
        assert all(panel.message and np.isnan(panel.values).all() for panel in panels)


def test_the_strip_names_query_layer_and_intervention(service: Service, scene: Upload) -> None:
    changes = (Change(), Change(TowerChange({0: 0.5}, off=((1, 1),))))
    outcomes = [outcome_of(service, scene, change, name) for name, change in zip(service.names, changes, strict=True)]
    strip = maps_strip(scene, outcomes, MapChoice(2))
    assert strip is not None
    assert len(strip.panels) == 6
    edits = strip.note.splitlines()[1:]
    assert edits[0] == "CLIP, tiny: no edit."
    assert edits[1] == "DiffCLIP, tiny: λ = 0.50 in layer 0; head 1 ablated in layer 1."
    assert "Layer 2, mean over heads, query: CLS." in strip.note
    assert "Objects cover 25 % of the patches" in strip.note
    refused = Refused("a", "b")
    assert maps_strip(scene, [refused, refused], MapChoice(2)) is None


def test_a_tower_without_cls_is_read_by_its_pooling_query(clip: LoadedModel, scene: Upload) -> None:
    model = siglip(clip)
    pixels, geometry = model.preprocess(scene.image)
    with record(model.vision) as recording:
        embedding = model.encode_image(pixels[None], normalize=True)
    look = Look(model, recording, embedding, geometry, None)
    pool = model.vision.layers - 1
    outcome = run_changed(look, scene.image, [], Change(TowerChange(off=((0, 0),))))
    for layer in range(model.vision.layers):
        panels = panels_of(outcome, MapChoice(layer))
        assert not any(panel.message for panel in panels)
        assert panels[0].values.shape == (4, 4)
    expected = attention_maps(recording[pool]).a1[0].mean(0)[0].reshape(4, 4) * 16
    np.testing.assert_allclose(panels_of(outcome, MapChoice(pool))[0].values, expected.numpy(), rtol=1e-5)
    strip = maps_strip(scene, [outcome], MapChoice(pool))
    assert strip is not None
    assert "the pooling query" in strip.note
    strip = maps_strip(scene, [outcome], MapChoice(0))
    assert strip is not None
    assert "there is no CLS" in strip.note
    assert outcome.moved < 1


@pytest.mark.parametrize(
    "asked",
    [
        ("2", "mean", "weights"),
        (2, "last", "weights"),
        (2, "-1", "a1"),
        (-1, "mean", "a1"),
        (0, "0", "a2"),
        (None, "0", "a1"),
    ],
)
def test_a_choice_that_the_page_does_not_offer_is_refused(asked: tuple[Any, Any, Any]) -> None:
    with pytest.raises(StudioError, match="choose"):
        map_choice(*asked)


def test_a_choice_is_read_as_the_page_sends_it() -> None:
    assert map_choice(3.0, "2", "a1") == MapChoice(3, 2, "a1")
    assert map_choice(0, "mean", "weights") == MapChoice(0)


def test_maps_that_an_edit_does_not_reach_say_so(service: Service, scene: Upload) -> None:
    outcome = outcome_of(service, scene, Change(TowerChange(off=((2, 0),))), "clip-scenes")
    assert panels_of(outcome, MapChoice(1))[2].badges == ("no change",)
    assert panels_of(outcome, MapChoice(2))[2].badges == ()
