"""An emptied field gets a sentence that names it, on every tab that has one."""

import math
from typing import Any

import pytest

from models import StudioError
from studio.explain_all import IG, RELEVANCE, method_of
from studio.fields import filled, filled_whole
from studio.service import Service
from studio.sparsity_view import Controls, segment_shown, show_sparsity
from studio.uploads import Upload

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
