"""A step from samples to new weights, and the steps that leave the weights as they are."""

import math
from dataclasses import replace

import pytest
import torch
from open_clip.model import CLIP
from pairs import Trunk, farthest, gradients, random_samples, weights, wide_clip

from models.build import vision_blocks
from models.errors import StudioError
from train.accumulate import Encoder, Samples, backward, parallel
from train.distributed import World
from train.ema import Ema
from train.finite import NonFiniteError, Skip
from train.loss import full_loss
from train.step import MAX_LOGIT_SCALE, StepRules, Trainer, make_trainer, train_step

WORLD = World()


def trainer_of(clip: CLIP, rules: StepRules | None = None, lr: float = 0.1, ema: Ema | None = None) -> Trainer:
    return make_trainer(WORLD, clip, torch.optim.SGD(clip.parameters(), lr=lr), rules or StepRules(), ema)


def narrow(samples: Samples) -> Samples:
    return replace(samples, pixels=samples.pixels.float())


def broken(samples: Samples) -> Samples:
    pixels = samples.pixels.clone()
    pixels[0, 0, 0, 0] = math.nan
    return replace(samples, pixels=pixels)


def test_a_step_goes_along_the_clipped_gradient_and_tells_its_norms() -> None:
    samples, clip, other = random_samples(8), wide_clip(), wide_clip()
    before = weights(clip)
    backward(Encoder(WORLD, parallel(WORLD, other)), full_loss, (samples,))
    found = gradients(other)
    norm = math.sqrt(sum(float((g**2).sum()) for g in found.values()))
    result = train_step(trainer_of(clip, StepRules(clip_norm=norm / 4)), samples, 1)
    expected = {name: before[name] - 0.1 * found[name] / 4 for name in found}
    # The bound is met up to the 1e-6 that PyTorch adds to the norm.
    assert farthest(weights(clip), expected) < 1e-6
    assert farthest(weights(clip), before) > 1e-3
    assert result.grad_norm == pytest.approx(norm)
    assert math.sqrt(sum(n**2 for n in result.layer_norms.values())) == pytest.approx(norm)
    assert {"vision embedding", "vision block 2", "vision head", "text block 1", "logit scale"} < set(
        result.layer_norms
    )
    assert (result.valid, result.skipped, result.skipped_in_a_row) == (8, "", 0)
    assert result.logit_scale == pytest.approx(clip.logit_scale.exp().item())


@pytest.mark.parametrize("start", [-0.5, 9.0])
def test_the_logit_scale_stays_between_1_and_100(start: float) -> None:
    clip = wide_clip()
    with torch.no_grad():
        clip.logit_scale.fill_(start)
    result = train_step(trainer_of(clip, lr=1e-9), random_samples(4), 1)
    assert clip.logit_scale.item() == (0.0 if start < 0 else MAX_LOGIT_SCALE)
    assert result.logit_scale == pytest.approx(1.0 if start < 0 else 100.0)


def test_a_batch_without_a_valid_sample_moves_nothing() -> None:
    clip, samples = wide_clip(), random_samples(4, invalid=(0, 1, 2, 3))
    before = weights(clip)
    optimizer = torch.optim.AdamW(clip.parameters(), lr=0.1, weight_decay=0.5)
    trainer = make_trainer(WORLD, clip, optimizer, StepRules(non_finite=Skip(3)), Ema(clip, 0.5))
    result = train_step(trainer, samples, 1, already_skipped=2)
    assert (result.loss, result.valid, result.skipped_in_a_row) == (0.0, 0, 2)
    assert result.skipped == "No sample of the batch could be used"
    assert farthest(weights(clip), before) == 0.0
    assert trainer.ema is not None
    assert trainer.ema.updates == 0


def test_a_step_that_is_not_finite_is_skipped_at_most_so_often_and_then_ends_the_run() -> None:
    clip, samples = wide_clip(), random_samples(4)
    before = weights(clip)
    trainer = trainer_of(clip, StepRules(accumulation=2, non_finite=Skip(2)))
    first = train_step(trainer, broken(samples), 1)
    second = train_step(trainer, broken(samples), 2, first.skipped_in_a_row)
    assert (first.skipped_in_a_row, second.skipped_in_a_row) == (1, 2)
    assert second.skipped == "The loss of step 2 is nan, the pixels of the batch are not finite"
    assert farthest(weights(clip), before) == 0.0
    with pytest.raises(
        NonFiniteError, match=r"step 3 .* after 2 skipped in a row: go on from the last .* skip_non_finite = 4"
    ):
        train_step(trainer, broken(samples), 3, second.skipped_in_a_row)
    healed = train_step(trainer, samples, 3, second.skipped_in_a_row)
    assert (healed.skipped, healed.skipped_in_a_row) == ("", 0)
    assert farthest(weights(clip), before) > 0


def test_the_first_such_step_ends_the_run_where_the_rule_is_to_stop() -> None:
    clip = wide_clip()
    with torch.no_grad():
        clip.visual.transformer.resblocks[1].ln_1.weight[0] = math.inf
    with pytest.raises(NonFiniteError, match=r"the weights visual\.transformer\.resblocks\.1\.ln_1\.weight \(vision"):
        train_step(trainer_of(clip), random_samples(4), 1)


def test_float16_halves_its_loss_scale_where_it_overflows_and_then_goes_on() -> None:
    clip, samples = wide_clip().float(), narrow(random_samples(8))
    trainer = trainer_of(clip, StepRules(autocast=torch.float16, accumulation=2))
    before = weights(clip)
    trainer.scaler.load_state_dict(trainer.scaler.state_dict() | {"scale": 2.0**24})
    result = train_step(trainer, samples, 1)
    assert result.skipped.startswith("The gradient overflows float16 at a loss scale of 1.67772e+07")
    assert result.skipped_in_a_row == 0
    assert farthest(weights(clip), before) == 0.0
    steps = 1
    while result.skipped:
        steps += 1
        assert steps < 24
        result = train_step(trainer, samples, steps)
    assert result.loss_scale == 2.0 ** (24 - steps + 1)
    assert {p.dtype for p in clip.parameters()} == {torch.float32}
    exact = wide_clip()
    plain = train_step(trainer_of(exact), random_samples(8), 1)
    assert result.loss == pytest.approx(plain.loss, abs=1e-2)
    assert result.grad_norm == pytest.approx(plain.grad_norm, rel=0.05)


@pytest.mark.parametrize("accumulation", [1, 2])
def test_bfloat16_autocast_is_near_the_exact_gradient_and_keeps_float32_weights(accumulation: int) -> None:
    clip, exact = wide_clip().float(), wide_clip()
    rules = StepRules(autocast=torch.bfloat16, accumulation=accumulation)
    result = train_step(trainer_of(clip, rules), narrow(random_samples(8)), 1)
    plain = train_step(trainer_of(exact), random_samples(8), 1)
    assert {p.grad.dtype for p in clip.parameters() if p.grad is not None} == {torch.float32}
    assert result.loss == pytest.approx(plain.loss, abs=0.05)
    assert result.loss != plain.loss
    assert result.grad_norm == pytest.approx(plain.grad_norm, rel=0.1)


@pytest.mark.parametrize("trunk", ["open_clip", "timm"])
def test_gradient_checkpointing_changes_no_gradient_also_where_patches_are_dropped(trunk: Trunk) -> None:
    found = []
    for checkpointing in (False, True):
        clip = wide_clip(trunk=trunk, patch_dropout=0.4)
        clip.set_grad_checkpointing(checkpointing)
        passes: list[int] = []
        # Recomputing ends where nothing more is needed, which may be before the block does.
        vision_blocks(clip)[0].register_forward_pre_hook(lambda *_, passes=passes: passes.append(1))
        torch.manual_seed(0)
        train_step(trainer_of(clip), random_samples(4), 1)
        found.append(gradients(clip))
        assert len(passes) == (2 if checkpointing else 1)
    assert farthest(*found) < 1e-12


def test_weights_in_half_precision_are_refused() -> None:
    clip = wide_clip().half()
    with pytest.raises(StudioError, match="half precision, where small updates vanish"):
        trainer_of(clip)


@pytest.mark.parametrize("wrong", [{"accumulation": 0}, {"clip_norm": 0.0}, {"autocast": torch.float64}])
def test_rules_that_cannot_be_followed_are_refused(wrong: dict) -> None:
    with pytest.raises(StudioError):
        StepRules(**wrong)
