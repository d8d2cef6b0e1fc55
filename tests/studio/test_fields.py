"""An emptied field gets a sentence that names it, on every tab that has one."""

import math
from typing import Any

import gradio as gr
import pytest

from models import StudioError
from studio.explain_all import IG, RELEVANCE, method_of
from studio.fields import layer_to_show, number_slider
from studio.filled import filled, filled_whole
from studio.service import Service
from studio.sparsity_view import Controls, segment_shown, show_sparsity
from studio.upload import Upload

NAMES = ("clip-scenes", "diffclip-scenes")


def controls(**settings: Any) -> Controls:
    first = (1.5, "the same α", 16, "qk", "readout", True, 2, "mean", "mean", "CLS", "cat", "a {}", None, None, "")
    return Controls(**dict[str, Any](zip(Controls.__dataclass_fields__, first, strict=True)) | settings)


@pytest.mark.parametrize("value", [3, 2.6, -1.0, 0])
def test_a_number_is_taken_as_it_is(value: float) -> None:
    assert filled(value, "Layer") == value
    assert filled_whole(value, "Layer") == round(value)


@pytest.mark.parametrize("value", [None, "", "three", math.nan, math.inf, True, [3]], ids=str)
def test_what_is_no_number_is_refused_with_the_fields_name(value: Any) -> None:
    with pytest.raises(StudioError, match=r"^The field “Layer” (is empty|holds .*): write a number.*\.$"):
        filled(value, "Layer")


@pytest.mark.parametrize(("method", "back", "steps", "field"), [(RELEVANCE, None, 8, "Layers"), (IG, 1, None, "Steps")])
def test_explain_names_the_emptied_field(method: str, back: Any, steps: Any, field: str) -> None:
    with pytest.raises(StudioError, match=f"“{field}.*” is empty"):
        method_of(method, "weights", "positive", back, steps, "blur")


def test_sparsity_names_the_emptied_field(service: Service, scene: Upload) -> None:
    with pytest.raises(StudioError, match="“Layer” is empty"):
        next(show_sparsity(service, scene, NAMES, controls(layer=None)))
    steps = segment_shown(service, scene, NAMES, controls(), "sclip", None, ["softmax"])  # type: ignore[arg-type]
    with pytest.raises(StudioError, match=r"“Ground below.*” is empty"):
        next(steps)


@pytest.mark.parametrize(("sent", "taken"), [(None, 4), (-3, 4), (999, 40), (12, 12), (12.5, 12.5)])
def test_a_slider_takes_the_nearest_value_that_it_has(sent: Any, taken: float) -> None:
    assert number_slider(4, 40, 14, label="Steps").preprocess(sent) == taken


@pytest.mark.parametrize("sent", ["3", [3], True], ids=str)
def test_a_slider_refuses_what_is_no_number_with_its_name(sent: Any) -> None:
    with pytest.raises(gr.Error, match="The field “Steps” holds"):
        number_slider(4, 40, 14, label="Steps").preprocess(sent)


def test_a_slider_stays_one_when_an_answer_changes_its_maximum() -> None:
    made = number_slider(0, 11, 0, label="Layer")
    assert made.get_config()["name"] == gr.Slider(0, 11).get_config()["name"]
    again = made.__class__(**made.constructor_args | {"maximum": 5, "render": False})
    assert again.preprocess(999) == 5


@pytest.mark.parametrize(
    ("keep", "said"), [(None, "“k of top-k” is empty"), (-3, "Of 17 keys -3"), (18, "from 1 to 17")]
)
def test_sparsity_says_how_many_keys_can_be_kept(service: Service, scene: Upload, keep: Any, said: str) -> None:
    asked = controls(match="both have top-k's support", keep=keep)
    shown = next(show_sparsity(service, scene, NAMES, asked))
    assert all(said in panel.message for panel in shown.strip.panels)


@pytest.mark.parametrize(
    ("asked", "depths", "shown"),
    [(64, (6, 12), (11, 5)), (9, (6, 12), (11, 9)), (3, (6, 6), (5, 3)), (64, (0, 4), (3, 3)), (2, (0, 0), (0, 0))],
)
def test_a_layer_slider_that_nobody_moved_stands_at_the_last_layer_that_all_models_have(
    asked: int, depths: tuple[int, ...], shown: tuple[int, int]
) -> None:
    assert layer_to_show(asked, depths) == shown
