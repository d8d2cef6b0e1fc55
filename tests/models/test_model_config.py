"""Configs: numbers with which no model can work are refused when the config is made, wherever they come from."""

import math
from dataclasses import replace

import pytest
from tiny import tiny_config

from models.config import LambdaConfig, OpenClipConfig, model_config
from models.errors import StudioError

IMPOSSIBLE = [0.0, -1.0, math.nan, math.inf]


@pytest.mark.parametrize("value", IMPOSSIBLE)
@pytest.mark.parametrize("setting", ["norm_eps", "mlp_ratio"])
@pytest.mark.parametrize("tower", ["vision", "text"])
def test_an_epsilon_or_a_ratio_that_is_not_above_zero_is_refused(tower: str, setting: str, value: float) -> None:
    config = tiny_config("differential", 290)
    with pytest.raises(StudioError, match=rf"{tower}\.{setting} = .*: give a finite number above 0\.$"):
        replace(getattr(config, tower), **{setting: value})
    plain = config.to_dict()
    plain[tower][setting] = value
    with pytest.raises(StudioError, match=rf"{tower}\.{setting} = "):
        model_config(plain)


@pytest.mark.parametrize("rule", ["constant", "depth"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_lambda_init_that_is_not_finite_is_refused(rule: str, value: float) -> None:
    with pytest.raises(StudioError, match=r"lambda_init\.value = .*: give a finite number, as 0\.8\.$"):
        LambdaConfig(rule, value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", IMPOSSIBLE)
def test_an_epsilon_given_to_a_model_of_open_clips_zoo_is_checked_for_each_tower(value: float) -> None:
    with pytest.raises(StudioError, match=r"vision\.norm_eps"):
        OpenClipConfig({}, norm_eps=(value, 1e-5))
    with pytest.raises(StudioError, match=r"text\.norm_eps"):
        OpenClipConfig({}, norm_eps=(1e-5, value))


def test_small_numbers_that_can_work_are_taken() -> None:
    vision = replace(tiny_config("standard", 290).vision, norm_eps=1e-12, mlp_ratio=0.5)
    assert (vision.norm_eps, vision.mlp_ratio) == (1e-12, 0.5)
    assert [LambdaConfig(value=value).of_layer()(3) for value in (0.0, -0.5)] == [0.0, -0.5]
