"""What a person changes: refused in a sentence where it cannot be, and otherwise the edits that were chosen."""

from typing import Any

import pytest
from families import family_of

from models import LoadedModel, StudioError
from models.intervention import AblateHeads, SetLambda, ShuffledA2, UniformA2
from models.intervention.plans import plan_edits
from studio.changes import Change, TowerChange, checked_change, controls_value, edits_of, tower_value, words_of


def sent(model: LoadedModel, **vision: Any) -> dict[str, Any]:
    value = controls_value(model, "here")
    return {**value, "chosen": {**value["chosen"], "vision": {**value["chosen"]["vision"], **vision}}}


def test_controls_that_nobody_touched_change_nothing(model: LoadedModel) -> None:
    for asked in (None, controls_value(model, "here")):
        change = checked_change(asked, model, "here")
        assert change == Change()
        assert edits_of(change.vision, model.vision) == edits_of(change.text, model.text) == []
        assert words_of(change.vision, model.vision) == []


def test_layers_of_one_lambda_become_one_edit(diffclip: LoadedModel) -> None:
    change = checked_change(
        sent(diffclip, lam=[0, 0.5, 0.0], a2="shuffled", off=[[2, 1], [2, 0], [0, 1]]), diffclip, "here"
    )
    assert edits_of(change.vision, diffclip.vision) == [
        SetLambda(0.0, (0, 2)),
        SetLambda(0.5, (1,)),
        ShuffledA2(),
        AblateHeads((1,), 0),
        AblateHeads((0, 1), 2),
    ]
    assert words_of(change.vision, diffclip.vision) == [
        "λ = 0.00 in layers 0, 2",
        "λ = 0.50 in layer 1",
        "A2 shuffled over the patches (seed 0)",
        "head 1 ablated in layer 0",
        "all heads ablated in layer 2",
    ]


def test_lambda_at_its_constant_is_named(diffclip: LoadedModel) -> None:
    value = controls_value(diffclip, "here")["towers"][0]
    assert value["learned"] == list(diffclip.vision.lambdas() or ())
    change = TowerChange(dict(enumerate(value["init"])))
    assert "(λ init)" in words_of(change, diffclip.vision)[0]
    assert words_of(TowerChange({0: 1.0, 1: 1.0, 2: 1.0}), diffclip.vision) == ["λ = 1.00 in all layers"]


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"lam": [float("nan")]}, "from 0.0 to 1.5"),
        ({"lam": [2]}, "from 0.0 to 1.5"),
        ({"lam": ["0.3"]}, "from 0.0 to 1.5"),
        ({"lam": [True]}, "from 0.0 to 1.5"),
        ({"lam": [0.1] * 50}, "at most 3 numbers"),
        ({"lam": "0.1"}, "at most 3 numbers"),
        ({"a2": "mine"}, "choose learned, shuffled, uniform, other"),
        ({"a2": ["other"]}, "choose learned"),
        ({"off": [[0, "x"]]}, "pairs"),
        ({"off": [[0, -1]]}, "pairs"),
        ({"off": "00"}, "pairs"),
    ],
)
def test_what_the_controls_never_send_is_refused(diffclip: LoadedModel, chosen: dict[str, Any], said: str) -> None:
    with pytest.raises(StudioError, match=said):
        checked_change(sent(diffclip, **chosen), diffclip, "here")


@pytest.mark.parametrize("asked", [[], "x", {}, {"name": "here"}, {"name": "here", "chosen": {"vision": 3}}])
def test_a_value_of_another_form_is_refused(diffclip: LoadedModel, asked: Any) -> None:
    with pytest.raises(StudioError, match="as the controls send them"):
        checked_change(asked, diffclip, "here")


def test_edits_of_another_model_are_not_taken_for_this_one(diffclip: LoadedModel) -> None:
    with pytest.raises(StudioError, match="chosen for another model"):
        checked_change(sent(diffclip, lam=[0.0]), diffclip, "elsewhere")


def test_controls_offer_what_the_attention_has(clip: LoadedModel, diffclip: LoadedModel) -> None:
    vision, text = controls_value(diffclip, "d")["towers"]
    assert vision["a2"] == ["learned", "shuffled", "uniform", "other"]
    assert text["a2"] == ["learned", "uniform"]
    standard = controls_value(clip, "c")["towers"][0]
    assert (standard["a2"], standard["lambdas"], standard["learned"]) == ([], 0, None)
    assert "nothing is subtracted" in standard["note"]


def test_a_second_form_without_one_lambda_a_layer_can_still_be_set() -> None:
    tower = family_of("ours, DIFF V2").tower
    value = tower_value(tower)
    assert value["learned"] is None
    assert value["lambdas"] == tower.layers
    assert "DIFF V2" in value["note"]
    assert plan_edits(tower, edits_of(TowerChange({0: 0.0}, UniformA2()), tower))


def test_a_pooling_head_has_no_place_for_lambda() -> None:
    tower = family_of("timm SigLIP").tower
    value = tower_value(tower)
    assert value["layers"][-1] == "pool"
    assert value["lambdas"] == 0
    assert plan_edits(tower, edits_of(TowerChange(off=((tower.layers - 1, 0),)), tower))
