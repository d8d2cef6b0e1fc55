"""The loss against a double loop; the rate at its corners; exactly which parameters decay."""

import math
from itertools import pairwise

import pytest
import torch
from tiny import tiny_config

from models.build import build_clip
from train.config import OptimConfig
from train.loss import contrastive_loss
from train.optim import build_optimizer, decays, learning_rate


def test_the_loss_is_the_mean_of_both_cross_entropies() -> None:
    image, text = (torch.nn.functional.normalize(torch.randn(5, 7, dtype=torch.float64), dim=-1) for _ in range(2))
    scale = torch.tensor(1.3, dtype=torch.float64)
    total = 0.0
    for a, b in ((image, text), (text, image)):
        for i in range(5):
            logits = [math.exp(1.3) * float(a[i] @ b[j]) for j in range(5)]
            total += math.log(sum(map(math.exp, logits))) - logits[i]
    assert float(contrastive_loss(image, text, scale)) == pytest.approx(total / 10)


def test_the_rate_meets_its_corners() -> None:
    config = OptimConfig(lr=1.0, warmup_steps=4, final_lr=0.1)
    rates = [learning_rate(config, step, 20) for step in range(20)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert rates[4] == 1.0
    assert rates[-1] == pytest.approx(0.1)
    assert all(a >= b for a, b in pairwise(rates[4:]))


@pytest.mark.parametrize("attention", ["standard", "differential"])
def test_lambda_norms_biases_positions_and_logit_scale_do_not_decay(attention: str) -> None:
    clip = build_clip(tiny_config(attention, 290))
    spared = {name for name, parameter in clip.named_parameters() if not decays(name, parameter)}
    wanted = {
        name
        for name, _ in clip.named_parameters()
        if name.endswith("bias")
        or any(part in name for part in ("ln_", "diff_norm", "lambda_", "positional_embedding", "class_embedding"))
        or name == "logit_scale"
    }
    assert spared == wanted
    groups = build_optimizer(clip, OptimConfig(1e-3, 1, weight_decay=0.3)).param_groups
    assert [group["weight_decay"] for group in groups] == [0.3, 0.0]
    assert sum(len(group["params"]) for group in groups) == len(list(clip.parameters()))
