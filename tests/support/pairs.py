"""Tiny CLIPs in float64 and random pairs for them."""

from dataclasses import replace
from typing import Literal

import torch
from open_clip.model import CLIP
from tiny import tiny_config
from torch import Tensor

from models.build import build_clip
from models.patch_dropout import set_patch_dropout
from train.accumulate import Samples

Trunk = Literal["open_clip", "timm"]
VOCABULARY = 40


def wide_clip(trunk: Trunk = "open_clip", patch_dropout: float = 0.0) -> CLIP:
    """A DiffCLIP in float64, training, of the seed 0."""
    config = tiny_config("differential", VOCABULARY)
    clip = build_clip(replace(config, vision=replace(config.vision, trunk=trunk))).double().train()
    set_patch_dropout(clip, patch_dropout)
    return clip


def random_samples(count: int, invalid: tuple[int, ...] = (), seed: int = 0) -> Samples:
    """`count` pairs of noise and random ids, in float64; what is invalid is filled with zeros."""
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randn(count, 3, 32, 32, generator=generator, dtype=torch.float64)
    tokens = torch.randint(1, VOCABULARY, (count, 16), generator=generator)
    valid = torch.ones(count, dtype=torch.bool)
    for index in invalid:
        pixels[index], tokens[index], valid[index] = 0.0, 0, False
    return Samples(pixels, tokens, valid)


def part(samples: Samples, start: int, stop: int) -> Samples:
    """The samples from `start` to before `stop`."""
    return Samples(samples.pixels[start:stop], samples.tokens[start:stop], samples.valid[start:stop])


def gradients(clip: CLIP) -> dict[str, Tensor]:
    """The gradient of every parameter, all of which have one."""
    found = {name: p.grad.clone() for name, p in clip.named_parameters() if p.grad is not None}
    assert found.keys() == dict(clip.named_parameters()).keys()
    return found


def weights(clip: CLIP) -> dict[str, Tensor]:
    """A copy of every parameter."""
    return {name: p.detach().clone() for name, p in clip.named_parameters()}


def farthest(first: dict[str, Tensor], second: dict[str, Tensor]) -> float:
    """The largest difference of two tensors of one name."""
    assert first.keys() == second.keys()
    return max(float((first[name] - second[name]).abs().max()) for name in first)
