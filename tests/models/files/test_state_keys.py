"""Names of weights: wrappers that all share go, anything else stays; differences are reported; the logit scale."""

import math

import pytest
import torch

from models.errors import CheckpointError
from models.files.state_keys import WRAPPERS, checked_logit_scale, common_wrapper, fit_report, prefix_note

INNER = ["visual.proj", "logit_scale", "encoder.module.weight", "modulelist.0"]


@pytest.mark.parametrize("prefix", [*WRAPPERS, "module._orig_mod.", "module.clip_model.", "model.module.model."])
def test_a_wrapper_that_every_name_carries_is_found_whole(prefix: str) -> None:
    assert common_wrapper([prefix + name for name in INNER]) == prefix


@pytest.mark.parametrize(
    "keys",
    [
        INNER,
        ["module.a", "b", "module.c"],
        ["b", "module.a"],
        ["visual.conv1.weight", "visual.proj"],
        ["text.a", "text.b"],
        ["text.a", "visual.b"],
        ["modulelist.x", "modulelist.y"],
        ["module.", "module.a"],
        ["module", "module.a"],
        [],
    ],
)
def test_anything_else_that_names_begin_with_stays(keys: list[str]) -> None:
    assert common_wrapper(keys) == ""


def test_a_wrapper_goes_only_as_deep_as_all_names_carry_it() -> None:
    assert common_wrapper(["module.model.a", "module.b"]) == "module."
    assert common_wrapper(["module.module.", "module.module.a"]) == "module."


def test_some_names_with_a_wrapper_are_counted() -> None:
    assert prefix_note(["module.a", "b", "c.module.d"]) == "1 of 3 keys begin with 'module.'"
    assert prefix_note(["module.a", "clip.b", "c"]) == (
        "1 of 3 keys begin with 'module.', 1 of 3 keys begin with 'clip.'"
    )
    assert prefix_note(["module.a", "module.b"]) == ""
    assert prefix_note(INNER) == ""


WANTED = {
    **{f"visual.blocks.{i}.weight": (4, 4) for i in range(10)},
    "ln_final.weight": (4,),
    "ln_final.bias": (4,),
    "logit_scale": (),
}


def test_weights_that_fit_have_no_report() -> None:
    assert fit_report(WANTED, dict(reversed(WANTED.items()))) == ""


def test_one_missing_weight_is_named() -> None:
    found = {name: shape for name, shape in WANTED.items() if name != "logit_scale"}
    assert fit_report(WANTED, found) == "1 of 13 weights are missing (logit_scale)."


def test_a_missing_tower_is_told_as_one_group() -> None:
    found = {name: shape for name, shape in WANTED.items() if not name.startswith("visual.")}
    report = fit_report(WANTED, found)
    assert report == (
        "10 of 13 weights are missing (visual.* 10 of 10: visual.blocks.0.weight, visual.blocks.1.weight, "
        "visual.blocks.2.weight, …)."
    )


def test_missing_unknown_and_reshaped_weights_make_one_sentence() -> None:
    found = {
        f"module.{name}" if name == "ln_final.bias" else name: (3,) if name == "ln_final.weight" else shape
        for name, shape in WANTED.items()
    }
    report = fit_report(WANTED, found)
    assert report == (
        "1 of 13 weights are missing (ln_final.* 1 of 2: ln_final.bias); "
        "1 of 13 are unknown (module.* 1 of 1: module.ln_final.bias); 1 of 13 keys begin with 'module.'; "
        "1 have another shape (ln_final.weight is (3,), not (4,))."
    )


def test_names_of_a_stranger_cannot_break_or_flood_the_sentence() -> None:
    report = fit_report({}, {"a\nb": (1,), "c" * 100_000: (1,)})
    assert "\n" not in report
    assert len(report) < 500


@pytest.mark.parametrize("scale", [torch.tensor(4.6052), torch.tensor([4.6052]), torch.tensor([4.6], dtype=torch.half)])
def test_a_logit_scale_becomes_one_number_without_shape(scale: torch.Tensor) -> None:
    checked = checked_logit_scale(scale)
    assert checked.shape == ()
    assert checked.dtype == scale.dtype
    assert float(checked) == float(scale)


@pytest.mark.parametrize("value", [100.0, 14.3, 1 / 0.07, 4.8])
def test_a_logit_scale_that_was_exponentiated_is_refused_with_its_logarithm(value: float) -> None:
    with pytest.raises(CheckpointError, match="looks already exponentiated") as caught:
        checked_logit_scale(torch.tensor(value))
    assert f"{math.log(value):.4g}" in str(caught.value)


@pytest.mark.parametrize(
    "scale", [torch.tensor(float("nan")), torch.tensor(float("-inf")), torch.ones(2), torch.ones(1, 1)]
)
def test_a_logit_scale_that_is_no_finite_number_is_refused(scale: torch.Tensor) -> None:
    with pytest.raises(CheckpointError, match="logit_scale"):
        checked_logit_scale(scale)
