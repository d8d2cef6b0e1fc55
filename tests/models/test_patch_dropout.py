"""Patches are dropped while training, the class token never."""

from dataclasses import replace
from typing import Literal

import pytest
import torch
from tiny import tiny_config

from models.build import build_clip, vision_blocks
from models.errors import StudioError
from models.patch_dropout import set_patch_dropout


@pytest.mark.parametrize("trunk", ["open_clip", "timm"])
def test_a_share_of_the_patches_is_dropped_in_training_and_none_in_evaluation(
    trunk: Literal["open_clip", "timm"],
) -> None:
    config = tiny_config("differential", 40)
    clip = build_clip(replace(config, vision=replace(config.vision, trunk=trunk)))
    names = list(clip.state_dict())
    seen: list[torch.Tensor] = []
    vision_blocks(clip)[0].register_forward_pre_hook(lambda _, args: seen.append(args[0].detach()))
    pixels = torch.randn(2, 3, 32, 32)

    def tokens(train: bool) -> torch.Tensor:
        clip.train(train)
        clip.encode_image(pixels)
        return seen[-1]

    whole = tokens(train=True)
    set_patch_dropout(clip, 0.75)
    dropped = tokens(train=True)
    assert (whole.shape[1], dropped.shape[1]) == (17, 5)
    assert torch.equal(dropped[:, 0], whole[:, 0])
    # Every token that is left is one of those that were there, each once.
    for picture in range(2):
        same = (dropped[picture, :, None] == whole[picture, None]).all(-1)
        assert same.sum(1).tolist() == [1] * 5
        assert int(same.any(0).sum()) == 5
    assert tokens(train=False).shape[1] == 17
    assert list(clip.state_dict()) == names
    set_patch_dropout(clip, 0.0)
    assert torch.equal(tokens(train=True), whole)


def test_shares_out_of_range_and_towers_without_patches_are_refused() -> None:
    clip = build_clip(tiny_config("standard", 40))
    for share in (1.0, -0.1):
        with pytest.raises(StudioError, match="0 to below 1"):
            set_patch_dropout(clip, share)
    clip.visual = torch.nn.Linear(1, 1)  # type: ignore[assignment]
    with pytest.raises(StudioError, match="Linear has no patch dropout"):
        set_patch_dropout(clip, 0.5)
