"""The probe's numbers against plain loops over rows, and that it leaves no trace."""

import math

import pytest
import torch
from tiny import tiny_config
from torch import Tensor

from models.build import build_clip
from models.maps import attention_maps
from models.recorder import record
from models.towers import text_tower, vision_tower
from train.probe import Probe, look

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
