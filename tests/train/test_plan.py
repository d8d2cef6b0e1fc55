"""What a run will take: operations as PyTorch counts them, lengths and times by arithmetic."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny import tiny_config
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from models.build import build_clip
from models.errors import StudioError
from train.config import load_config
from train.flops import cost_of, matmul_rate
from train.meter import Meter
from train.plan import Given, Measured, Unknown, duration, plan, stage_plans

SHIPPED = Path(__file__).parents[2] / "train" / "configs"


@pytest.mark.parametrize("trunk", ["open_clip", "timm"])
@pytest.mark.parametrize("attention", ["standard", "differential"])
def test_operations_are_those_that_pytorch_counts(attention: str, trunk: str) -> None:
    config = tiny_config(attention, 290)
    config = replace(config, vision=replace(config.vision, trunk=trunk))
    clip, cost = build_clip(config).train(), cost_of(config)
    assert cost.parameters == sum(parameter.numel() for parameter in clip.parameters())
    # The counter knows no fused kernel of the CPU.
    with sdpa_kernel(SDPBackend.MATH):
        with FlopCounterMode(display=False) as vision:
            clip.encode_image(torch.randn(3, 3, 32, 32))
        with FlopCounterMode(display=False) as text:
            clip.encode_text(torch.ones(3, 16, dtype=torch.long))
    assert (vision.get_total_flops(), text.get_total_flops()) == (3 * cost.vision, 3 * cost.text)


def test_a_plan_tells_steps_epochs_parameters_operations_and_the_time_at_a_given_speed(config_file: Path) -> None:
    config = load_config(config_file)
    told = dict(plan(config, 0, 2, Given(4.0)))
    assert told["steps"] == "8 of 8 samples: 5 at 16 pixels, then 3 at 32 pixels"
    assert told["data"].startswith("64 samples")
    assert told["time"] == "16 s at 4 samples a second (given)"
    small, large = stage_plans(config)
    assert told["parameters"] == f"{large.cost.parameters:,}"
    total = 3 * (40 * (small.cost.vision + small.cost.text) + 24 * (large.cost.vision + large.cost.text))
    assert f"the run {total:.3g} FLOP" in told["operations"]
    assert "--measure" in dict(plan(config, 0, 1, Unknown()))["time"]
    with pytest.raises(StudioError, match="by 3 processes"):
        plan(config, 0, 3, Unknown())


def test_a_plan_of_data_that_are_not_there_needs_their_size() -> None:
    config = load_config(SHIPPED / "clip_cc12m_b16.toml", ["data.tars=nowhere/at-all"])
    with pytest.raises(StudioError, match="--samples"):
        plan(config, 0, 1, Unknown())
    told = dict(plan(config, 7_900_000, 16, Given(10_000.0)))
    assert told["steps"] == "77,120 of 4,096 samples: 77,120 at 224 pixels"
    assert told["epochs"].startswith("40, ")
    assert told["parameters"].startswith("149,")
    assert "35.1" in told["operations"] or "GFLOP" in told["operations"]
    assert told["time"].startswith("8 h 46 min")


def test_a_measured_speed_gives_a_time_for_every_stage(config_file: Path) -> None:
    told = dict(plan(load_config(config_file), 0, 1, Measured()))
    assert "at 16 pixels" in told["time"]
    assert "at 32 pixels" in told["time"]
    assert "cpu in float32" in told["time"]


def test_durations_are_read_at_a_glance() -> None:
    assert [duration(s) for s in (40, 600, 7500, 273_600)] == ["40 s", "10 min", "2 h 5 min", "3 days 4 h"]


def test_the_meter_shares_a_step_between_data_and_work() -> None:
    rate = matmul_rate(torch.device("cpu"), torch.float32, 0.02)
    assert rate > 1e8
    import time

    now = time.perf_counter()
    entries = Meter(10, 2, torch.device("cpu"), 1000, 1e6).entries(now - 2.0, now - 1.5)
    assert entries["data_wait"] == pytest.approx(0.25, abs=0.01)
    assert entries["samples_per_second"] == pytest.approx(5.0, abs=0.1)
    assert entries["samples_per_second_per_device"] == pytest.approx(2.5, abs=0.1)
    assert entries["mfu"] == pytest.approx(2.5e-3, rel=0.05)
    assert entries["memory_mib"] > 50
