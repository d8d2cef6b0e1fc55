"""Heads beside one another: pairs counted one by one, heads found again after shuffling, ranks with ties."""

import itertools

import pytest
import torch
from torch import Tensor

from models.errors import StudioError
from models.heads import head_cosines, head_redundancy, match_heads, rank_correlation


def heads(count: int = 5, seed: int = 0) -> Tensor:
    return (torch.randn(count, 7, 11, generator=torch.Generator().manual_seed(seed)) * 2).softmax(-1)


def test_redundancy_equals_the_mean_over_all_pairs_of_heads() -> None:
    weights = heads() - 0.5 * heads(seed=1)
    pairs = [
        torch.nn.functional.cosine_similarity(weights[a], weights[b], dim=-1).mean()
        for a, b in itertools.combinations(range(5), 2)
    ]
    assert float(head_redundancy(weights)) == pytest.approx(float(torch.stack(pairs).mean()), rel=1e-5)
    stacked = torch.stack([weights, heads(seed=2)])
    torch.testing.assert_close(head_redundancy(stacked)[0], head_redundancy(weights))


def test_redundancy_is_one_for_equal_heads_zero_for_disjoint_ones_and_undefined_for_one() -> None:
    same = heads(1).expand(4, 7, 11) * torch.tensor([1.0, 2.0, 3.0, 4.0]).reshape(4, 1, 1)
    assert float(head_redundancy(same)) == pytest.approx(1, abs=1e-5)
    apart = torch.eye(4).unsqueeze(1).expand(4, 3, 4)
    assert float(head_redundancy(apart)) == pytest.approx(0, abs=1e-6)
    assert bool(head_redundancy(heads(1)).isnan())


def test_a_query_with_an_empty_row_in_some_head_is_left_out() -> None:
    weights = heads()
    without = head_redundancy(weights[:, 1:])
    weights[2, 0] = 0
    torch.testing.assert_close(head_redundancy(weights), without)


def test_heads_are_found_again_after_shuffling_and_scaling() -> None:
    order = torch.tensor([3, 0, 4, 1, 2])
    matches = match_heads(heads(), 2 * heads()[order])
    assert torch.equal(order[matches.partner], torch.arange(5))
    torch.testing.assert_close(matches.cosine, torch.ones(5))


def test_models_of_different_head_counts_are_compared_and_of_different_tokens_refused() -> None:
    assert head_cosines(heads(4), heads(6, seed=1)).shape == (4, 6)
    torch.testing.assert_close(head_cosines(heads(4), heads(6, seed=1)).T, head_cosines(heads(6, seed=1), heads(4)))
    with pytest.raises(StudioError, match="same tokens"):
        match_heads(heads(), heads()[..., :10])


def test_an_empty_head_has_no_partner_and_is_nobodys() -> None:
    empty = heads()
    empty[1] = 0
    assert match_heads(empty, heads()).cosine.isnan().tolist() == [False, True, False, False, False]
    assert 1 not in match_heads(heads(), empty).partner.tolist()


def test_rank_correlation_of_hand_worked_rows_with_ties() -> None:
    first = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert float(rank_correlation(first, torch.tensor([10.0, 20.0, 40.0, 30.0]))) == pytest.approx(1 - 6 * 2 / 60)
    # ranks 1.5, 1.5, 3, 4 against 1, 2, 3, 4: covariance 4.5, variances 4.5 and 5
    assert float(rank_correlation(torch.tensor([5.0, 5.0, 7.0, 9.0]), first)) == pytest.approx(4.5 / 22.5**0.5)
    assert bool(rank_correlation(torch.ones(4), first).isnan())
    assert bool(rank_correlation(torch.tensor([1.0, torch.nan, 2.0, 3.0]), first).isnan())


def test_rank_correlation_depends_on_ranks_alone() -> None:
    first, second = heads(), heads(seed=1)
    torch.testing.assert_close(rank_correlation(first.log(), second**3), rank_correlation(first, second))
    torch.testing.assert_close(rank_correlation(-first, second), -rank_correlation(first, second))
    torch.testing.assert_close(rank_correlation(first, first), torch.ones(5, 7))
