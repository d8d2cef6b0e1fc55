"""AdamW, which parameters decay, and the learning rate of every step."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import nn

from train.settings import Decay, OptimConfig


def decays(name: str, parameter: nn.Parameter) -> bool:
    """Whether weight decay acts: on matrices, but not on biases, norms, lambda vectors, logit scale or positions."""
    return parameter.ndim >= 2 and "positional_embedding" not in name and "pos_embed" not in name


def published_decays(name: str, parameter: nn.Parameter) -> bool:
    """The same as SLIP's training code has it: tensors of two axes or more whose names hold no "bias", "ln" or "bn".

    So positions and, in timm's form, the class token decay too.
    """
    return parameter.ndim >= 2 and not any(part in name for part in ("bias", "ln", "bn"))


DECAYS: Mapping[Decay, Callable[[str, nn.Parameter], bool]] = MappingProxyType(
    {"matrices": decays, "published": published_decays}
)


def build_optimizer(model: nn.Module, config: OptimConfig) -> torch.optim.AdamW:
    """AdamW with two groups, decayed and not, in the order of `named_parameters`."""
    rule, named = DECAYS[config.decay], list(model.named_parameters())
    groups = [
        {"params": [p for n, p in named if rule(n, p)], "weight_decay": config.weight_decay},
        {"params": [p for n, p in named if not rule(n, p)], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.lr, betas=(config.beta1, config.beta2), eps=config.eps)


def learning_rate(config: OptimConfig, step: int, steps: int) -> float:
    """The rate of step `step` (from 0) of `steps`.

    With the schedule "cosine", warm-up leaves `start_lr` behind at once, `lr` is met at its end and `final_lr` at the
    last step. With "published", as SLIP's training code has it, the first step is taken at `start_lr`, the last of
    warm-up and the first after it at `lr`, and the last of all just above `final_lr`.
    """
    published, rise = config.schedule == "published", config.lr - config.start_lr
    if step < config.warmup_steps:
        if published:
            return config.start_lr + rise * step / max(1, config.warmup_steps - 1)
        return config.start_lr + rise * (step + 1) / config.warmup_steps
    left = steps - config.warmup_steps - (0 if published else 1)
    progress = (step - config.warmup_steps) / max(1, left)
    return config.final_lr + (config.lr - config.final_lr) * 0.5 * (1.0 + math.cos(math.pi * min(1.0, progress)))
