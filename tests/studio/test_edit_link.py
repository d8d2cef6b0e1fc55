"""Edits of a model as a text of the address: read back whole, or not at all."""

import pytest

from models import LoadedModel, StudioError
from studio.changes import checked_change
from studio.edit_link import edits_asked

UNCHANGED = {"lam": [], "a2": "learned", "off": []}


def test_edits_of_both_towers_are_read_and_are_what_the_table_sends(diffclip: LoadedModel) -> None:
    layers, heads = diffclip.vision.layers, diffclip.vision.heads
    edits = [f"lam.0-{layers - 1}.0.5", "lam.1.1.25", "a2.shuffled", f"off.0*{layers - 1}.0-{heads - 1}"]
    text = "_".join([*(f"vision.{edit}" for edit in edits), "text.off.1.0"])
    chosen = edits_asked(text, diffclip, "x")
    assert chosen == {
        "vision": {
            "lam": [0.5, 1.25, *[0.5] * (layers - 2)],
            "a2": "shuffled",
            "off": [[layer, head] for layer in (0, layers - 1) for head in range(heads)],
        },
        "text": {"lam": [], "a2": "learned", "off": [[1, 0]]},
    }
    assert checked_change({"name": "x", "chosen": chosen}, diffclip, "x").vision.lam[1] == 1.25


def test_no_edit_is_a_model_as_it_is(clip: LoadedModel) -> None:
    assert edits_asked("", clip, "x") == {"vision": UNCHANGED, "text": UNCHANGED}


def test_a_layer_whose_lambda_is_not_named_keeps_its_own(diffclip: LoadedModel) -> None:
    lam = edits_asked("vision.lam.1.0", diffclip, "x")["vision"]["lam"]
    assert lam == [None, 0.0, *[None] * (diffclip.vision.layers - 2)]


@pytest.mark.parametrize(
    "text",
    [
        "vision.lam.0.0.5",
        "vision.a2.uniform",
        "vision.off.9.0",
        "vision.off.0.9",
        "vision.off.0-9999.0-9999",
        "vision.off.٠.0",
        "vision.off.0",
        "audio.off.0.0",
        "vision",
        "<b>",
        "vision.off.0.0_x",
    ],
)
def test_edits_that_a_standard_model_does_not_have_are_refused_with_their_text(clip: LoadedModel, text: str) -> None:
    with pytest.raises(StudioError, match="has no edit “"):
        edits_asked(text, clip, "x")


@pytest.mark.parametrize("value", ["1.6", "-0.1", "nan", "inf"])
def test_a_lambda_out_of_range_is_refused(diffclip: LoadedModel, value: str) -> None:
    with pytest.raises(StudioError, match="choose a number from 0"):
        edits_asked(f"vision.lam.0.{value}", diffclip, "x")


def test_a_lambda_that_is_no_number_is_refused(diffclip: LoadedModel) -> None:
    with pytest.raises(StudioError, match=r"has no edit “vision\.lam\.0\.much”"):
        edits_asked("vision.lam.0.much", diffclip, "x")


@pytest.mark.parametrize("second", ["shuffled", "other", "gone"])
def test_a_second_map_that_a_text_tower_cannot_have_is_refused(diffclip: LoadedModel, second: str) -> None:
    with pytest.raises(StudioError, match="has no edit"):
        edits_asked(f"text.a2.{second}", diffclip, "x")
