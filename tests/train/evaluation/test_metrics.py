"""Ranks, accuracies and recalls: against loops, and where ties and NaN would flatter a model."""

import math

import numpy as np
import pytest
import torch

from train.evaluation.metrics import (
    Measured,
    bootstrap_interval,
    label_ranks,
    mean_class_recall,
    positive_ranks,
    recall,
    within,
)


def test_the_rank_of_a_label_is_its_place_in_the_sorted_scores() -> None:
    scores = torch.randn(50, 9, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(50) % 9
    order = scores.argsort(dim=1, descending=True)
    wanted = [int((order[i] == labels[i]).nonzero()) + 1 for i in range(50)]
    assert label_ranks(scores, labels).tolist() == wanted


def test_a_tie_and_a_nan_never_count_in_the_models_favour() -> None:
    scores = torch.tensor([[1.0, 1.0, 0.0], [2.0, 1.0, 1.0], [math.nan, 0.0, 0.0], [0.0, math.nan, -1.0]])
    assert label_ranks(scores, torch.tensor([0, 0, 0, 0])).tolist() == [2, 1, 3, 2]
    same = torch.ones(6, 1)
    ids = torch.arange(6)
    assert positive_ranks(same, same, ids, ids).tolist() == [6] * 6
    assert positive_ranks(same * math.nan, same, ids, ids).tolist() == [6] * 6


def brute_rank(scores: list[float], positive: list[bool]) -> int:
    """Sorted with negatives first among equals; the place of the first positive."""
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], positive[i]))
    return next(place for place, i in enumerate(order, 1) if positive[i])


def test_of_several_positives_the_best_counts_both_ways() -> None:
    generator = torch.Generator().manual_seed(1)
    images = torch.randint(-2, 3, (7, 3), generator=generator).double()  # whole numbers, so that there are ties
    texts = torch.randint(-2, 3, (20, 3), generator=generator).double()
    owners = torch.cat([torch.arange(7), torch.randint(0, 7, (13,), generator=generator)])
    ids = torch.arange(7)
    scores = (images @ texts.T).tolist()
    wanted = [brute_rank(scores[i], [o == i for o in owners.tolist()]) for i in range(7)]
    assert positive_ranks(images, texts, ids, owners).tolist() == wanted
    back = [brute_rank([row[j] for row in scores], [i == owners[j] for i in range(7)]) for j in range(20)]
    assert positive_ranks(texts, images, owners, ids).tolist() == back


def test_many_queries_are_ranked_as_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    images, texts = (torch.randn(30, 4, generator=torch.Generator().manual_seed(seed)) for seed in (2, 3))
    ids = torch.arange(30)
    whole = positive_ranks(images, texts, ids, ids)
    monkeypatch.setattr("train.evaluation.metrics._SCORES_AT_ONCE", 100)
    assert torch.equal(positive_ranks(images, texts, ids, ids), whole)


def test_too_few_candidates_leave_a_share_out() -> None:
    ranks = np.array([1, 2, 4, 4])
    assert within(ranks, 5, 4) is None
    assert recall(ranks, 10, np.arange(4), 9) is None
    five = within(ranks, 5, 5)
    assert five is not None
    assert five.value == 1.0
    two = within(ranks, 2, 4)
    assert two is not None
    assert two.value == 0.5


def test_mean_class_recall_is_over_the_classes_that_are_there() -> None:
    labels = np.array([0, 0, 0, 0, 3, 3])
    hits = np.array([True, True, True, False, True, False])
    found = mean_class_recall(hits, labels)
    assert found.value == pytest.approx((0.75 + 0.5) / 2)
    assert found.low < found.value < found.high
    assert mean_class_recall(np.ones(6, bool), labels) == Measured(1.0, 1.0, 1.0)


def test_the_interval_of_a_recall_draws_pictures_with_all_their_queries() -> None:
    hits = np.arange(200) % 2
    ranks, alone = np.where(hits, 1, 9), recall(np.where(hits, 1, 9), 1, np.arange(200), 20)
    fifths = recall(np.repeat(ranks, 5), 1, np.repeat(np.arange(200), 5), 20)
    assert alone is not None
    assert fifths is not None
    assert fifths == alone  # five equal captions know no more than one
    assert (alone.low, alone.high) == bootstrap_interval(hits)
    uneven = recall(np.array([1, 1, 9]), 1, np.array([0, 0, 1]), 20)
    assert uneven is not None
    assert uneven.value == pytest.approx(2 / 3)  # a share of captions, not of pictures


def test_intervals_are_those_of_one_draw_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("train.evaluation.metrics._DRAWN_AT_ONCE", 500)  # several parts, and a rest
    hits, labels = np.arange(37) % 3 == 0, np.arange(37) % 5 * 2
    generator = np.random.default_rng(0)
    means, recalls = [], []
    for drawn in (generator.integers(0, 37, 37) for _ in range(2000)):
        means.append(hits[drawn].mean())
        own = [hits[drawn][labels[drawn] == label] for label in range(10)]
        recalls.append(np.mean([part.mean() for part in own if len(part)]))
    assert bootstrap_interval(hits) == tuple(np.percentile(means, [2.5, 97.5]))
    found = mean_class_recall(hits, labels)
    assert (found.low, found.high) == pytest.approx(tuple(np.percentile(recalls, [2.5, 97.5])))
