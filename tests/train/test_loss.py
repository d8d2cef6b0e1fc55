"""The contrastive loss against its formula, and what samples that could not be read do to it."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from train.distributed import World
from train.loss import GATHERINGS, Gathering, contrastive_loss

GATHERING_NAMES: tuple[Gathering, ...] = ("full", "published")


def embeddings(count: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    image, text = torch.randn(2, count, 5, generator=generator, dtype=torch.float64)
    scale = torch.tensor(1.2, dtype=torch.float64)
    return tuple(  # type: ignore[return-value]
        t.to(dtype).requires_grad_() for t in (F.normalize(image, dim=1), F.normalize(text, dim=1), scale)
    )


def by_hand(image: Tensor, text: Tensor, logit_scale: Tensor, rows: list[int]) -> float:
    """The loss of some of the pairs, term by term."""
    factor, total = math.exp(logit_scale), 0.0
    for i in rows:
        for one, other in ((image, text), (text, image)):
            logits = [factor * float(one[i] @ other[j]) for j in rows]
            total -= factor * float(one[i] @ other[i]) - math.log(sum(map(math.exp, logits)))
    return total / (2 * len(rows))


@torch.no_grad()
def test_the_loss_is_the_mean_of_both_cross_entropies_over_valid_pairs() -> None:
    image, text, scale = embeddings(6)
    assert contrastive_loss(image, text, scale).item() == pytest.approx(by_hand(image, text, scale, [*range(6)]))
    valid = torch.tensor([True, False, True, True, False, True])
    masked = contrastive_loss(image, text, scale, valid).item()
    assert masked == pytest.approx(by_hand(image, text, scale, [0, 2, 3, 5]), abs=1e-12)


def test_no_gradient_reaches_an_invalid_sample_and_the_others_are_as_without_it() -> None:
    whole, fewer = embeddings(6), embeddings(6)
    valid = torch.tensor([True, False, True, True, False, True])
    contrastive_loss(*whole, valid).backward()
    contrastive_loss(fewer[0][valid], fewer[1][valid], fewer[2]).backward()
    for masked, chosen in zip(whole, fewer, strict=True):
        assert masked.grad is not None
        assert chosen.grad is not None
        torch.testing.assert_close(masked.grad, chosen.grad, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", GATHERING_NAMES)
def test_a_batch_without_a_valid_sample_has_loss_zero_and_gradients_zero(name: Gathering) -> None:
    image, text, scale = embeddings(4)
    loss = GATHERINGS[name](World(), image, text, scale, torch.zeros(4, dtype=torch.bool))
    loss.share.backward()
    assert loss.share.item() == 0.0
    assert int(loss.valid) == 0
    for tensor in (image, text, scale):
        assert tensor.grad is not None
        assert not tensor.grad.any()


@pytest.mark.parametrize("name", GATHERING_NAMES)
def test_with_one_process_both_gatherings_are_the_plain_loss_and_its_gradient(name: Gathering) -> None:
    plain, gathered = embeddings(6), embeddings(6)
    valid = torch.tensor([True, True, False, True, True, True])
    expected = contrastive_loss(*plain, valid)
    expected.backward()
    loss = GATHERINGS[name](World(), *gathered, valid)
    loss.share.backward()
    assert loss.mean(World()).item() == pytest.approx(expected.item(), abs=1e-14)
    for one, other in zip(plain, gathered, strict=True):
        assert one.grad is not None
        assert other.grad is not None
        torch.testing.assert_close(one.grad, other.grad, rtol=0, atol=1e-14)


def test_half_precision_embeddings_are_compared_in_float32() -> None:
    image, text, scale = embeddings(64, torch.bfloat16)
    loss = contrastive_loss(image, text, scale)
    exact = contrastive_loss(image.double(), text.double(), scale.double())
    assert loss.dtype == torch.float32
    assert abs(loss.item() - exact.item()) < 1e-5
