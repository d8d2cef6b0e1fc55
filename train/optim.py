"""AdamW, which parameters decay, and the learning rate of every step."""

import math

import torch
from torch import nn

from train.config import OptimConfig


def decays(name: str, parameter: nn.Parameter) -> bool:
    """Whether weight decay acts: on matrices, but not on biases, norms, lambda vectors, logit scale or positions."""
    return parameter.ndim >= 2 and "positional_embedding" not in name


def build_optimizer(model: nn.Module, config: OptimConfig) -> torch.optim.AdamW:
    """AdamW with two groups, decayed and not, in the order of `named_parameters`."""
    named = list(model.named_parameters())
    groups = [
        {"params": [p for n, p in named if decays(n, p)], "weight_decay": config.weight_decay},
        {"params": [p for n, p in named if not decays(n, p)], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.lr, betas=(config.beta1, config.beta2), eps=config.eps)


def learning_rate(config: OptimConfig, step: int, steps: int) -> float:
    """The rate of step `step` (from 0) of `steps`: `lr` is met at the end of warm-up, `final_lr` at the last step."""
    if step < config.warmup_steps:
        return config.lr * (step + 1) / config.warmup_steps
    progress = (step - config.warmup_steps) / max(1, steps - 1 - config.warmup_steps)
    return config.final_lr + (config.lr - config.final_lr) * 0.5 * (1.0 + math.cos(math.pi * min(1.0, progress)))
