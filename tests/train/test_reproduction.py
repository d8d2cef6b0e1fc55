"""The shipped runs again, from the configs that made them."""

import json
from pathlib import Path
from typing import Any

import pytest

from train.__main__ import main

ROOT = Path(__file__).parents[2]
CONFIGS = {
    "clip-scenes": "clip_scenes",
    "diffclip-scenes": "diffclip_scenes",
    "diffclip-dynamic-scenes": "diffclip_star_scenes",
    "diffclip-vision-scenes": "diffclip_dagger_scenes",
}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[:50]]


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_the_first_fifty_steps_of_a_shipped_log_come_again(name: str, tmp_path: Path) -> None:
    folder = ROOT / "assets/checkpoints" / name
    config = ROOT / "train/configs" / f"{CONFIGS[name]}.toml"
    assert main(["fit", str(config), "--out", str(tmp_path / "run"), "stop_after=50"]) == 0
    again, shipped = lines(tmp_path / "run/log.jsonl"), lines(folder / "log.jsonl")
    assert len(again) == 50
    assert [line["lr"] for line in again] == [line["lr"] for line in shipped]
    losses = [(line["loss"], other["loss"]) for line, other in zip(again, shipped, strict=True)]
    print(f"{name}: {sum(one == other for one, other in losses)} of 50 losses have the same bits")
    assert max(abs(one - other) for one, other in losses) < 1e-2
