"""What a run will take: operations as PyTorch counts them, lengths and times by arithmetic."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import tiny_config
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from models.build import build_clip
from models.errors import StudioError
from models.patch_dropout import set_patch_dropout
from train.__main__ import main
from train.config import load_config
from train.feed import index_folder
from train.flops import cost_of, matmul_rate
from train.loop import fit
from train.meter import Meter
from train.plan import Given, Measured, Unknown, duration, plan, stage_plans
from train.scenes.shards import write_shards

SHIPPED = Path(__file__).parents[2] / "train" / "configs"


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("trunk", ["open_clip", "timm"])
@pytest.mark.parametrize("attention", ["standard", "differential"])
def test_operations_are_those_that_pytorch_counts(attention: str, trunk: str, dropout: float) -> None:
    config = tiny_config(attention, 290)
    config = replace(config, vision=replace(config.vision, trunk=trunk))
    clip, cost = build_clip(config).train(), cost_of(config, dropout)
    set_patch_dropout(clip, dropout)
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
    assert told["parameters"] == "149,619,969"
    # 196 patches of 768 values; 12 blocks of 197 tokens, each with 12 D^2 weights and two products with maps; 512 out.
    vision = 2 * 196 * 768**2 + 12 * (2 * 197 * 12 * 768**2 + 4 * 197**2 * 768) + 2 * 768 * 512
    text = 12 * (2 * 77 * 12 * 512**2 + 4 * 77**2 * 512) + 2 * 512 * 512
    counted = f"{(vision + text) / 1e9:.4g} GFLOP a sample at 224 pixels (vision {vision / 1e9:.4g}, text"
    assert told["operations"].startswith(counted)
    assert told["time"].startswith("8 h 46 min")


def test_a_plan_leaves_the_index_of_tars_where_the_run_finds_it(
    config_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_shards(tmp_path / "tars", 20, 5, 16)
    settings = [f'data={{tars="{tmp_path / "tars"}"}}', "model.text.vocab_size=49408"]
    assert main(["plan", str(config_file), *settings, "--out", str(tmp_path / "runs" / "mine")]) == 0
    assert "20 samples, 2 steps an epoch" in capsys.readouterr().out
    index = tmp_path / "runs" / "data-index"
    assert index == index_folder(tmp_path / "runs" / "mine")
    assert len(list(index.glob("tars-*.json"))) == 1
    assert not (tmp_path / "runs" / "mine").exists()


@pytest.mark.parametrize("setting", ["data={scenes=1, count=4}", "data={tars='nowhere'}"])
def test_data_that_do_not_fill_a_batch_are_told(config_file: Path, setting: str) -> None:
    config = load_config(config_file, [setting])
    with pytest.raises(StudioError, match="hold 4 samples, fewer than one batch of 8"):
        plan(config, 0 if "count" in setting else 4, 1, Unknown())


def test_a_batch_that_parts_cannot_share_is_told_by_plan_and_before_a_run_begins(
    config_file: Path, tmp_path: Path
) -> None:
    config = load_config(config_file, ["accumulation=4"])
    assert "in 4 parts" in dict(plan(config, 0, 2, Unknown()))["memory"]
    said = r"accumulation = 4 does not split a process's 2 samples \(batch_size = 8 over 4\) into equal parts"
    with pytest.raises(StudioError, match=said):
        plan(config, 0, 4, Unknown())
    with pytest.raises(StudioError, match="accumulation = 3 does not split a process's 8 samples"):
        fit(load_config(config_file, ["accumulation=3"]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def saved_bytes(clip: Any, twice: bool) -> float:
    """What one sample's forward pass keeps for the backward pass, beside weights."""
    clip.set_grad_checkpointing(twice)
    held: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        held.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        outputs = clip.encode_image(torch.randn(4, 3, 32, 32)), clip.encode_text(torch.ones(4, 16, dtype=torch.long))
    weights = {parameter.untyped_storage().data_ptr() for parameter in clip.parameters()}
    del outputs
    return sum(t.untyped_storage().nbytes() for place, t in held.items() if place not in weights) / 4


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_the_memory_for_activations_is_about_what_is_kept_for_the_backward_pass(dropout: float) -> None:
    config = tiny_config("standard", 290)
    config = replace(config, vision=replace(config.vision, layers=8))
    clip, cost = build_clip(config).train(), cost_of(config, dropout)
    set_patch_dropout(clip, dropout)
    plain, twice = saved_bytes(clip, False), saved_bytes(clip, True)
    assert plain == pytest.approx(cost.activation_bytes, rel=0.25)
    # The forward pass keeps the inputs of blocks; the backward pass adds one block.
    assert 0.5 * cost.checkpointed_bytes < twice < cost.checkpointed_bytes < 0.6 * plain


@contextmanager
def encoded() -> Iterator[list[tuple[int, int]]]:
    """While open, the vision towers' blocks note what they get: (pictures, tokens)."""
    seen: list[tuple[int, int]] = []

    def note(module: nn.Module, args: tuple[Any, ...]) -> None:
        if type(module).__name__ == "ResidualAttentionBlock" and args[0].shape[-1] == 16 and module.training:
            seen.append(tuple(args[0].shape[:2]))

    handle = nn.modules.module.register_module_forward_pre_hook(note)
    try:
        yield seen
    finally:
        handle.remove()


def test_what_is_measured_is_a_step_of_the_config(config_file: Path) -> None:
    model = ["model.text.width=8", "model.vision.layers=1"]
    settings = [*model, "patch_dropout=0.5", "accumulation=2", "stages=[{samples=64, image_size=32}]"]
    with encoded() as seen:
        told = dict(plan(load_config(config_file, settings), 0, 2, Measured()))["time"]
    # Each of 3 steps: two parts without a graph, then both again; 4 samples are a process's, 16 patches lose 8.
    assert seen == [(2, 9)] * 12
    assert "steps of 4 samples" in told


def test_a_measured_speed_gives_a_time_for_every_stage(config_file: Path) -> None:
    told = dict(plan(load_config(config_file), 0, 1, Measured()))
    assert "at 16 pixels" in told["time"]
    assert "at 32 pixels in float32" in told["time"]


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
