"""A batch in parts has the gradient of the batch at once, and random numbers are drawn the same twice."""

import pytest
import torch
from open_clip.model import CLIP
from pairs import Trunk, farthest, gradients, random_samples, weights, wide_clip
from torch import nn

from models.build import text_blocks, vision_blocks
from models.errors import StudioError
from train.accumulate import Encoder, backward, parallel
from train.distributed import World
from train.loss import contrastive_loss, full_loss
from train.rng import replayed, rng_state

WORLD = World()
INVALID = (2, 9)


@pytest.mark.parametrize("trunk", ["open_clip", "timm"])
@pytest.mark.parametrize("count", [1, 4])
def test_parts_have_the_loss_and_every_gradient_of_the_full_batch(trunk: Trunk, count: int) -> None:
    samples = random_samples(12, INVALID)
    plain = wide_clip(trunk=trunk)
    image = plain.encode_image(samples.pixels, normalize=True)
    text = plain.encode_text(samples.tokens, normalize=True)
    loss = contrastive_loss(image, text, plain.logit_scale, samples.valid)
    loss.backward()

    clip = wide_clip(trunk=trunk)
    done = backward(Encoder(WORLD, parallel(WORLD, clip)), full_loss, tuple(samples.chunks(count)))
    assert len(done.states) == count
    assert done.loss.item() == pytest.approx(loss.item(), abs=1e-10)
    assert farthest(gradients(clip), gradients(plain)) < 1e-10


def with_dropout() -> CLIP:
    """A CLIP that drops patches, and half of what each MLP gives."""
    clip = wide_clip(patch_dropout=0.5)
    for block in vision_blocks(clip) + text_blocks(clip):
        assert isinstance(block.mlp, nn.Sequential)
        block.mlp.append(nn.Dropout(0.5))
    return clip


@pytest.mark.parametrize("checkpointing", [False, True])
def test_replay_has_the_gradient_of_four_forward_passes_held_in_one_graph(checkpointing: bool) -> None:
    samples = random_samples(12, INVALID)
    plain = with_dropout()
    torch.manual_seed(5)
    encoded = [
        (plain.encode_image(part.pixels, normalize=True), plain.encode_text(part.tokens, normalize=True))
        for part in samples.chunks(4)
    ]
    image, text = (torch.cat(side) for side in zip(*encoded, strict=True))
    loss = contrastive_loss(image, text, plain.logit_scale, samples.valid)
    loss.backward()
    after = torch.rand(3)

    clip = with_dropout()
    clip.set_grad_checkpointing(checkpointing)
    torch.manual_seed(5)
    done = backward(Encoder(WORLD, parallel(WORLD, clip)), full_loss, tuple(samples.chunks(4)))
    assert torch.equal(torch.rand(3), after)
    assert done.loss.item() == pytest.approx(loss.item(), abs=1e-10)
    assert farthest(gradients(clip), gradients(plain)) < 1e-10
    one_pass = with_dropout()
    torch.manual_seed(5)
    backward(Encoder(WORLD, parallel(WORLD, one_pass)), full_loss, (samples,))
    # A full-batch pass draws other masks, so only the replay could have met the four passes.
    assert farthest(gradients(one_pass), gradients(plain)) > 1e-3


@pytest.mark.parametrize("count", [1, 2])
def test_a_frozen_tower_and_a_frozen_scale_get_no_gradient(count: int) -> None:
    clip = wide_clip()
    clip.visual.requires_grad_(False)
    clip.logit_scale.requires_grad_(False)
    before = weights(clip)
    backward(Encoder(WORLD, parallel(WORLD, clip)), full_loss, tuple(random_samples(4).chunks(count)))
    assert clip.logit_scale.grad is None
    assert all(p.grad is None for p in clip.visual.parameters())
    assert all(p.grad is not None for p in clip.transformer.parameters())
    assert farthest(before, weights(clip)) == 0.0


def test_pixels_are_prepared_one_part_at_a_time() -> None:
    seen: list[int] = []
    clip = wide_clip()
    samples = random_samples(8)

    def doubled(pixels: torch.Tensor) -> torch.Tensor:
        seen.append(len(pixels))
        return 2 * pixels

    backward(Encoder(WORLD, parallel(WORLD, clip), prepare=doubled), full_loss, tuple(samples.chunks(2)))
    assert seen == [4] * 4
    plain = wide_clip()
    contrastive_loss(
        plain.encode_image(2 * samples.pixels, normalize=True),
        plain.encode_text(samples.tokens, normalize=True),
        plain.logit_scale,
    ).backward()
    assert farthest(gradients(clip), gradients(plain)) < 1e-10


@pytest.mark.parametrize("count", [0, 3, 16])
def test_parts_that_are_not_equal_are_refused(count: int) -> None:
    with pytest.raises(StudioError, match="choose a divisor of 8"):
        list(random_samples(8).chunks(count))


def test_a_replay_leaves_the_generator_where_it_was_also_after_an_exception() -> None:
    torch.manual_seed(1)
    state = rng_state(WORLD.device)
    first = torch.rand(2)
    expected = torch.rand(2)
    torch.manual_seed(1)
    torch.rand(2)

    def fails() -> None:
        with replayed(state, WORLD.device):
            assert torch.equal(torch.rand(2), first)
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert torch.equal(torch.rand(2), expected)
