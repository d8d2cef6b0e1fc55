"""The order of an epoch: every sample once, over any number of ranks, from one integer."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from models.errors import StudioError
from train.data.order import Plan, epoch_order, rank_share, sample_chances

GOLDEN_ORDER = [0, 2, 1, 5, 4, 3, 6, 7]
GOLDEN_OTHER = [0, 6, 2, 1, 3, 4, 7, 5]
GOLDEN_CHANCES = [0.02057007587983306, 0.8366651559978908, 0.7722626667772229]


def test_the_order_is_the_same_in_every_version() -> None:
    assert epoch_order(8, 0, 0).tolist() == GOLDEN_ORDER
    assert epoch_order(8, 3, 5).tolist() == GOLDEN_OTHER
    assert sample_chances(3, 5, 7)[:3].tolist() == GOLDEN_CHANCES


def test_an_order_is_a_permutation_and_all_are_equally_likely() -> None:
    assert np.array_equal(np.sort(epoch_order(1000, 1, 2)), np.arange(1000))
    seen = Counter(tuple(epoch_order(3, 4, epoch).tolist()) for epoch in range(3000))
    assert len(seen) == 6
    assert all(400 < count < 600 for count in seen.values())


def test_chances_of_a_sample_are_even_and_belong_to_its_visit_alone() -> None:
    every = np.stack([sample_chances(1, 0, index) for index in range(2000)])
    assert every.min() >= 0
    assert every.max() < 1
    assert np.allclose(every.mean(axis=0), 0.5, atol=0.03)
    assert np.abs(np.corrcoef(every.T) - np.eye(every.shape[1])).max() < 0.1
    visits = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    assert len({tuple(sample_chances(*visit)) for visit in visits}) == 4


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_training_visits_every_sample_of_whole_batches_once_in_each_epoch(ranks: int) -> None:
    plans = [Plan(17, 4, seed=9, ranks=ranks, rank=rank) for rank in range(ranks)]
    assert {plan.steps_per_epoch for plan in plans} == {4}
    left = set()
    for epoch in range(6):
        steps = range(4 * epoch, 4 * epoch + 4)
        assert {plan.epoch_of(step) for plan in plans for step in steps} == {epoch}
        visited = np.concatenate([plan.indices(step) for step in steps for plan in plans])
        assert len(visited) == len(set(visited.tolist())) == 16
        left |= set(range(17)) - set(visited.tolist())
    assert len(left) > 1  # not always the same sample is left out


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_as_it_is_takes_one_sample_after_the_other(ranks: int) -> None:
    plans = [Plan(17, 4, 0, "as it is", ranks, rank) for rank in range(ranks)]
    parts = [plan.indices(step) for step in range(plans[0].steps_per_epoch) for plan in plans]
    assert {len(part) for part in parts} == {4 // ranks}
    assert np.concatenate(parts).tolist() == list(range(16))


def test_the_parts_of_the_ranks_are_the_batch_of_one_process() -> None:
    one = Plan(50, 12, seed=2)
    for step in range(9):
        parts = [replace(one, ranks=3, rank=rank).indices(step) for rank in range(3)]
        assert np.array_equal(np.concatenate(parts), one.indices(step))


def test_a_stop_in_the_middle_of_an_epoch_misses_and_repeats_nothing() -> None:
    plan = Plan(8, 2, seed=5)
    before = [plan.indices(step) for step in range(2)]
    resumed = Plan(8, 2, seed=5)
    after = [resumed.indices(step) for step in range(2, 4)]
    assert sorted(np.concatenate(before + after).tolist()) == list(range(8))
    # One integer is the position: no step before it needs to have been asked for.
    assert np.array_equal(Plan(8, 2, seed=5).indices(11), [plan.indices(step) for step in range(12)][11])


def test_parts_of_an_evaluation_are_in_order_and_of_one_length() -> None:
    for n, ranks in ((17, 4), (3, 4), (8, 2), (0, 2)):
        parts = [rank_share(n, ranks, rank) for rank in range(ranks)]
        assert len({len(indices) for indices, _ in parts}) == 1
        gathered = np.concatenate([indices for indices, _ in parts])
        assert gathered[np.concatenate([valid for _, valid in parts])].tolist() == list(range(n))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch": 5, "ranks": 2}, "cannot be shared equally by 2"),
        ({"batch": 18}, "fewer than one batch of 18"),
        ({"batch": 4, "ranks": 2, "rank": 2}, "Rank 2"),
        ({"batch": 4, "seed": -1}, "Seed -1"),
    ],
)
def test_a_plan_that_cannot_be_kept_is_refused(settings: dict, message: str) -> None:
    with pytest.raises(StudioError, match=message):
        Plan(**{"samples": 17, "seed": 0, **settings})
