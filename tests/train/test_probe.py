"""The probe's numbers against plain loops over rows, and that it leaves no trace."""

import math
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import tiny_config
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from models.build import build_clip
from models.maps import attention_maps
from models.recorder import record
from models.towers import text_tower, vision_tower
from train.config import load_config
from train.logbook import read_log
from train.loop import fit
from train.probe import Probe, is_out_of_memory, look

END = 5


def probe() -> Probe:
    tokens = torch.randint(1, 30, (2, 16), generator=torch.Generator().manual_seed(1))
    tokens[:, END], tokens[:, END + 1 :] = 39, 0
    return Probe(torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(2)), tokens)


def entropy_of(row: list[float], keys: int) -> float:
    return -sum(p * math.log(p) for p in row if p > 0) / math.log(max(2, keys))


def test_the_numbers_are_means_over_pictures_heads_and_queries() -> None:
    clip, looked = build_clip(tiny_config("differential", 40)), probe()
    found = look(clip, looked)
    for tower, run, queries in (
        (vision_tower(clip), lambda: clip.encode_image(looked.pixels), range(17)),
        (text_tower(clip), lambda: clip.encode_text(looked.tokens), range(END + 1)),
    ):
        with record(tower) as recording, torch.no_grad():
            run()
        numbers = found[tower.name]
        assert all(len(numbers[key]) == len(recording) for key in ("entropy_a1", "entropy_a2", "overlap", "cancelled"))
        maps = attention_maps(recording[1])
        a1, a2, lam = maps.a1, maps.a2, float(maps.lam)  # type: ignore[arg-type]
        rows: list[tuple[Tensor, Tensor, int]] = [
            (a1[b, h, q], a2[b, h, q], q + 1 if tower.name == "text" else 17)  # type: ignore[index]
            for b in range(2)
            for h in range(a1.shape[1])
            for q in queries
        ]
        entropy = sum(entropy_of(one.tolist(), keys) for one, _, keys in rows) / len(rows)
        overlap = sum(float(one @ two / one.norm() / two.norm()) for one, two, _ in rows) / len(rows)
        taken = sum(sum(min(x, lam * y) for x, y in zip(o.tolist(), t.tolist(), strict=True)) for o, t, _ in rows)
        assert numbers["entropy_a1"][1] == pytest.approx(entropy, rel=1e-3)
        assert numbers["overlap"][1] == pytest.approx(overlap, rel=1e-3)
        assert numbers["cancelled"][1] == pytest.approx(taken / len(rows), rel=1e-3)


def test_clip_has_one_map_and_one_entropy() -> None:
    found = look(build_clip(tiny_config("standard", 40)), probe())
    assert set(found["vision"]) == set(found["text"]) == {"entropy_a1"}


def test_a_lambda_of_token_and_head_is_told_by_mean_and_spread() -> None:
    clip = build_clip(tiny_config("differential_v2", 40))
    vision = look(clip, probe())["vision"]
    assert vision["lambda"] == [0.5, 0.5, 0.5]
    assert vision["lambda_spread"] == [0.0, 0.0, 0.0]


def test_a_look_changes_neither_modes_nor_random_numbers_nor_gradients() -> None:
    clip = build_clip(tiny_config("differential", 40)).train()
    clip.visual.eval()  # type: ignore[union-attr]
    state, modes = torch.get_rng_state(), [module.training for module in clip.modules()]
    look(clip, probe())
    assert torch.equal(torch.get_rng_state(), state)
    assert [module.training for module in clip.modules()] == modes
    assert all(not module._forward_hooks for module in clip.modules())
    assert all(parameter.grad is None for parameter in clip.parameters())


class MapsAlive(TorchDispatchMode):
    """Counts how many tensors with the last two axes of an attention map (Nq, Nk) are held at one time."""

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.shape = (tokens, tokens)
        self.alive: weakref.WeakSet[Tensor] = weakref.WeakSet()
        self.most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and tuple(result.shape[-2:]) == self.shape:
            self.alive.add(result)
            self.most = max(self.most, len(self.alive))
        return result


def most_maps_at_once(layers: int) -> int:
    config = tiny_config("differential", 40)
    clip = build_clip(replace(config, vision=replace(config.vision, layers=layers)))
    with MapsAlive(17) as maps:
        look(clip, probe())
    return maps.most


def test_a_deep_model_is_looked_at_with_the_maps_of_one_layer_at_a_time() -> None:
    assert 0 < most_maps_at_once(12) <= most_maps_at_once(2) + 1


@contextmanager
def without_memory(kind: type[Exception], text: str) -> Iterator[list[int]]:
    """While open, a forward pass in eval mode, which only the probe makes here, finds no memory; counts them."""
    tried: list[int] = []

    def refuse(module: nn.Module, _: Any) -> None:
        if not module.training and type(module).__name__ == "VisionTransformer":
            tried.append(1)
            raise kind(text)

    handle = nn.modules.module.register_module_forward_pre_hook(refuse)
    try:
        yield tried
    finally:
        handle.remove()


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (torch.OutOfMemoryError, "CUDA out of memory. Tried to allocate 2.00 GiB."),
        (RuntimeError, "DefaultCPUAllocator: can't allocate memory: you tried to allocate 400000000 bytes."),
        (MemoryError, ""),
    ],
)
def test_a_probe_that_finds_no_memory_is_given_up_and_the_run_goes_on_as_without_one(
    config_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: type[Exception], text: str
) -> None:
    settings = ["stop_after=4", "log.norms_every=0"]
    with without_memory(kind, text) as tried:
        fit(load_config(config_file, [*settings, "log.probe_every=1"]), tmp_path / "short")
    fit(load_config(config_file, [*settings, "log.probe_every=0"]), tmp_path / "none")
    assert len(tried) == 1
    lines, others = read_log(tmp_path / "short" / "log.jsonl"), read_log(tmp_path / "none" / "log.jsonl")
    assert [line["loss"] for line in lines] == [line["loss"] for line in others]
    said = "memory is too short for 16 samples: set log.probe_samples lower."
    assert [line.get("unprobed") for line in lines] == [said, None, None, None]
    assert capsys.readouterr().err.count(f"warning: no attention is probed: {said}") == 1


def test_another_error_of_the_probe_is_not_taken_for_a_want_of_memory(config_file: Path, tmp_path: Path) -> None:
    with without_memory(RuntimeError, "shapes do not fit"), pytest.raises(RuntimeError, match="do not fit"):
        fit(load_config(config_file), tmp_path / "run")
    with pytest.raises(RuntimeError) as full:
        torch.empty(10**16)
    assert is_out_of_memory(full.value)
