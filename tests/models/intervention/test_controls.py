"""Controls: exactly as sparse or as concentrated as what they are held against, and never on a masked key."""

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from models import Normalizer
from models.errors import StudioError
from models.intervention.controls import (
    identity_weights,
    matched_entropy_weights,
    random_mask_weights,
    row_entropy,
    shuffled_keys,
    topk_weights,
    uniform_weights,
)
from models.statistics import shuffled_differences

CONTROLS: dict[str, Callable[[Tensor], Tensor]] = {
    "topk": lambda scores: topk_weights(scores, 4),
    "random": lambda scores: random_mask_weights(scores, 4, torch.Generator().manual_seed(1)),
    "entropy": lambda scores: matched_entropy_weights(scores, row_entropy(Normalizer(1.5)(scores))),
    "identity": identity_weights,
    "uniform": uniform_weights,
}


@pytest.fixture
def scores() -> Tensor:
    return 2.0 * torch.randn(2, 3, 11, 11, generator=torch.Generator().manual_seed(8))


@pytest.fixture
def causal(scores: Tensor) -> Tensor:
    return scores.masked_fill(torch.ones(11, 11, dtype=torch.bool).triu(1), float("-inf"))


def support(weights: Tensor) -> Tensor:
    return (weights > 0).sum(-1)


@pytest.mark.parametrize("control", CONTROLS)
def test_rows_sum_to_one_and_masked_keys_get_nothing(causal: Tensor, control: str) -> None:
    weights = CONTROLS[control](causal)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 11))
    assert bool((weights >= 0).all())
    assert torch.equal(weights, weights.tril())


@pytest.mark.parametrize("control", CONTROLS)
def test_a_row_without_any_key_is_all_zeros(scores: Tensor, control: str) -> None:
    scores[0, 1, 5] = float("-inf")
    weights = CONTROLS[control](scores)
    assert torch.equal(weights[0, 1, 5], torch.zeros(11))
    torch.testing.assert_close(weights.sum(-1).sum(), torch.tensor(65.0))


@pytest.mark.parametrize("control", CONTROLS)
def test_half_precision_scores_give_float32_weights_and_double_ones_double(scores: Tensor, control: str) -> None:
    assert CONTROLS[control](scores.bfloat16()).dtype == torch.float32
    assert CONTROLS[control](scores.double()).dtype == torch.float64


@pytest.mark.parametrize("alpha", [1.25, 1.5, 2.0])
def test_topk_and_random_mask_have_the_support_of_entmax_in_every_row(scores: Tensor, causal: Tensor, alpha: float):
    for given in (scores, causal):
        wanted = support(Normalizer(alpha)(given))
        assert int(wanted.min()) < int(wanted.max())
        assert torch.equal(support(topk_weights(given, wanted)), wanted)
        assert torch.equal(support(random_mask_weights(given, wanted, torch.Generator().manual_seed(2))), wanted)


def test_topk_is_softmax_over_the_highest_scores(scores: Tensor) -> None:
    weights = topk_weights(scores, 3)
    for row, got in zip(scores.flatten(0, 2), weights.flatten(0, 2), strict=True):
        best = sorted(range(11), key=lambda key: -float(row[key]))[:3]
        wanted = torch.zeros(11)
        wanted[best] = torch.softmax(row[best], dim=0)
        torch.testing.assert_close(got, wanted)


def test_topk_of_equal_scores_keeps_exactly_k() -> None:
    assert torch.equal(topk_weights(torch.zeros(1, 5), 2), torch.tensor([[0.5, 0.5, 0.0, 0.0, 0.0]]))


def test_a_random_mask_keeps_the_ratios_of_softmax_and_ignores_the_scores_in_its_choice(scores: Tensor) -> None:
    weights = random_mask_weights(scores, 4, torch.Generator().manual_seed(3))
    other = random_mask_weights(-scores, 4, torch.Generator().manual_seed(3))
    assert torch.equal(weights > 0, other > 0)
    soft = torch.softmax(scores, -1) * (weights > 0)
    torch.testing.assert_close(weights, soft / soft.sum(-1, keepdim=True))


def test_a_random_mask_of_a_picture_does_not_depend_on_its_batch(scores: Tensor) -> None:
    together = random_mask_weights(scores, 4, torch.Generator().manual_seed(3))
    alone = random_mask_weights(scores[1:], 4, torch.Generator().manual_seed(3))
    assert torch.equal(together[1:], alone)
    assert not torch.equal(together[:, 0] > 0, together[:, 1] > 0)


def test_random_masks_choose_every_key_equally_often() -> None:
    weights = random_mask_weights(torch.zeros(1, 1, 4000, 8), 2, torch.Generator().manual_seed(0))
    chosen = (weights > 0).float().mean(dim=(0, 1, 2))
    assert float((chosen - 0.25).abs().max()) < 0.03


@pytest.mark.parametrize("alpha", [1.0, 1.05, 1.5, 2.0])
@pytest.mark.parametrize("spread", [0.01, 1.0, 30.0])
def test_entropy_is_matched(scores: Tensor, causal: Tensor, alpha: float, spread: float) -> None:
    for given in (scores, causal):
        target = row_entropy(Normalizer(alpha)((given * spread).double()))
        weights = matched_entropy_weights((given * spread).double(), target)
        assert float((row_entropy(weights) - target).abs().max()) < 1e-6


def test_matched_entropy_is_a_temperature_and_that_of_softmax_is_one(scores: Tensor) -> None:
    torch.testing.assert_close(
        matched_entropy_weights(scores, row_entropy(torch.softmax(scores, -1))), torch.softmax(scores, -1)
    )
    weights = matched_entropy_weights(scores, torch.full((2, 3, 11), 1.0))
    slope = (weights[..., 0] / weights[..., 1]).log() / (scores[..., 0] - scores[..., 1])
    again = (weights[..., 2] / weights[..., 3]).log() / (scores[..., 2] - scores[..., 3])
    torch.testing.assert_close(slope, again, rtol=1e-3, atol=1e-4)


def test_an_entropy_out_of_reach_gives_the_nearest_that_can_be_had() -> None:
    tied = torch.tensor([[3.0, 3.0, 1.0, -math.inf]])
    torch.testing.assert_close(matched_entropy_weights(tied, torch.zeros(1)), torch.tensor([[0.5, 0.5, 0.0, 0.0]]))
    third = torch.tensor([[1 / 3, 1 / 3, 1 / 3, 0.0]])
    torch.testing.assert_close(matched_entropy_weights(tied, torch.full((1,), 9.0)), third)


def test_a_sharper_target_gives_a_sharper_row(scores: Tensor) -> None:
    highest = [matched_entropy_weights(scores, torch.full((2, 3, 11), nats)).amax(-1) for nats in (2.0, 1.0, 0.3, 0.01)]
    for softer, sharper in pairwise(highest):
        assert bool((sharper > softer).all())


def test_identity_needs_a_key_for_every_query() -> None:
    with pytest.raises(StudioError, match="1 and 5"):
        identity_weights(torch.zeros(2, 3, 1, 5))


def test_shuffled_keys_are_the_first_permutation_of_the_statistical_control() -> None:
    a2 = torch.rand(2, 3, 7, 7)
    order = shuffled_keys(2, 7, seed=5)
    assert order[:2].tolist() == [0, 1]
    assert sorted(order.tolist()) == list(range(7))
    assert torch.equal(next(shuffled_differences(torch.zeros_like(a2), a2, prefix=2, seed=5)), -a2[..., order])
