"""Another picture size in the middle of a run: what goes along and what starts anew."""

from dataclasses import replace

import pytest
import torch
from tiny import tiny_config

from models.build import build_clip
from models.layout import TokenGrid
from models.positions import resize_positions
from train.ema import Ema
from train.optim import build_optimizer
from train.resolution import POSITIONS, at_resolution
from train.settings import OptimConfig


@pytest.mark.parametrize("trunk", ["open_clip", "timm"])
def test_a_new_resolution_keeps_weights_moments_and_averages_but_the_moments_of_positions(trunk: str) -> None:
    small, large = (
        replace(config, vision=replace(config.vision, trunk=trunk))
        for config in (tiny_config("differential", 290, size) for size in (16, 32))
    )
    clip, optim = build_clip(small), OptimConfig(1e-3, 1)
    optimizer, ema = build_optimizer(clip, optim), Ema(clip, 0.5)
    clip.encode_image(torch.randn(2, 3, 16, 16)).sum().backward()
    optimizer.step()
    ema.update(clip)
    grown, grown_optimizer, grown_ema = at_resolution(clip, optimizer, ema, large, optim)
    assert grown.encode_image(torch.randn(1, 3, 32, 32)).shape == (1, 24)
    assert grown_ema is not None
    assert grown_ema.updates == 1
    old, new = dict(clip.named_parameters()), dict(grown.named_parameters())
    for name, parameter in new.items():
        if name in POSITIONS:
            assert parameter not in grown_optimizer.state
            wanted = resize_positions(old[name].reshape(5, -1), TokenGrid(1, 2, 2), TokenGrid(1, 4, 4))
            assert torch.equal(parameter.reshape(17, -1), wanted)
            assert grown_ema.averages[name].shape == parameter.shape
        else:
            assert torch.equal(parameter, old[name])
            assert (parameter in grown_optimizer.state) == (old[name] in optimizer.state)
            assert torch.equal(grown_ema.averages[name], ema.averages[name])
    assert sum(name in POSITIONS for name in new) == 1
    assert at_resolution(clip, optimizer, ema, small, optim) == (clip, optimizer, ema)
