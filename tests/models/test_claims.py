"""A config that asks for far more than the weights beside it hold is refused before anything of that size is built."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoint_folders import write_checkpoint
from safetensors.torch import save_file

from models import LoadedModel, load_model
from models.claims import check_claim
from models.config import OpenClipConfig
from models.errors import CheckpointError
from models.tokenizer import DomainTokenizer

MUCH = [2**40, 10**9, 10**400]


@pytest.mark.parametrize(
    "place",
    [
        "vision.layers",
        "vision.width",
        "vision.image_size",
        "text.layers",
        "text.vocab_size",
        "text.context_length",
        "embed_dim",
    ],
)
def test_a_checkpoint_whose_config_asks_for_too_much_is_refused_at_once(
    diffclip: LoadedModel, tokenizer: DomainTokenizer, tmp_path: Path, place: str
) -> None:
    folder = write_checkpoint(tmp_path / "mine", diffclip, "mine", tokenizer)
    whole = (folder / "config.json").read_text(encoding="utf-8")
    for much in MUCH:
        config: dict[str, Any] = json.loads(whole)
        *outer, last = place.split(".")
        inner = config["model"]
        for name in outer:
            inner = inner[name]
        inner[last] = much
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        begun = time.monotonic()
        with pytest.raises(CheckpointError, match=r"asks for .* use the config that belongs to"):
            load_model(folder)
        assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    "model",
    [
        {"vision_cfg": {"layers": 10**9, "width": 8}, "text_cfg": {}},
        {"vision_cfg": {"layers": [10**9, 10**9, 1, 1]}, "text_cfg": {}},
        {"vision_cfg": {"layers": 1, "width": 8, "image_size": 10**7, "patch_size": 16}, "text_cfg": {}},
        {"vision_cfg": {}, "text_cfg": {"layers": 10**9, "width": 8}},
        {"vision_cfg": {}, "text_cfg": {"context_length": 10**6, "width": 8}},
        {"vision_cfg": {}, "text_cfg": {"vocab_size": 10**12, "width": 8}},
    ],
    ids=str,
)
def test_a_config_of_open_clips_is_held_to_the_weights_too(model: dict[str, Any], tmp_path: Path) -> None:
    save_file({"visual.proj": torch.ones(4, 4)}, tmp_path / "open_clip_model.safetensors")
    config = {"model_cfg": {"embed_dim": 4, **model}}
    (tmp_path / "open_clip_config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"asks for .* use the config that belongs to"):
        load_model(tmp_path)


def test_a_config_is_taken_with_its_own_weights_and_with_somewhat_fewer(clip: LoadedModel) -> None:
    state = clip.module.state_dict()
    check_claim(clip.config, state, Path("mine"))
    check_claim(clip.config, {}, Path("mine"))
    check_claim(OpenClipConfig({"vision_cfg": "x", "text_cfg": None}), {}, Path("mine"))


def test_a_config_that_is_nested_without_end_is_no_config(
    diffclip: LoadedModel, tokenizer: DomainTokenizer, tmp_path: Path
) -> None:
    folder = write_checkpoint(tmp_path / "mine", diffclip, "mine", tokenizer)
    for name in ("config.json", "tokenizer.json"):
        whole = (folder / name).read_text(encoding="utf-8")
        (folder / name).write_text("[" * 100_000, encoding="utf-8")
        with pytest.raises(CheckpointError):
            load_model(folder)
        (folder / name).write_text(whole, encoding="utf-8")
