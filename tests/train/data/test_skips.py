"""Skipped samples are counted by reason, and too many of them stop a run with a sentence that says which."""

from pathlib import Path

import pytest
import torch
from tar_files import broken_shard, write_shards

from models.errors import StudioError
from train.data.batch import Batch
from train.data.config import TarData
from train.data.sample import REASONS, Reason, Skip
from train.data.skips import SkipLimit, Tally, check_counts, check_epoch, check_source
from train.data.tars import open_tars


def batch(indices: list[int], *skips: tuple[int, Reason]) -> Batch:
    blank = torch.zeros(len(indices))
    skipped = tuple(Skip(index, f"key {index}", reason) for index, reason in skips)
    return Batch(0, blank, blank, blank.bool(), torch.tensor(indices), skipped)


def test_a_tally_counts_samples_and_skips_by_reason_and_no_padding() -> None:
    tally = Tally().plus(batch([4, 7, -1, -1], (7, "too large"))).plus(batch([1, 2], (1, "no image"), (2, "too large")))
    assert tally.counts[0] == 4
    assert dict(zip(REASONS, tally.counts[1:], strict=True)) == {
        **dict.fromkeys(REASONS, 0), "too large": 2, "no image": 1,
    }  # fmt: skip
    assert [skip.key for skip in tally.examples] == ["key 7", "key 1", "key 2"]


def test_a_run_stops_past_the_limit_and_says_what_was_skipped() -> None:
    limit = SkipLimit(0.01, 1000)
    tally = Tally()
    for first in range(0, 1000, 100):
        tally = tally.plus(batch(list(range(first, first + 100)), (first, "truncated picture")))
        check_counts(tally.counts, limit, tally.examples)  # one in a hundred is allowed
    more = tally.plus(batch([1000], (1000, "not a picture")))
    with pytest.raises(StudioError) as told:
        check_counts(more.counts, limit, more.examples)
    assert str(told.value).startswith(
        "11 of 1,001 samples could not be used (10 truncated picture, 1 not a picture), more than the 1.00% that may "
        "be skipped, for example 'key 0' (truncated picture), 'key 100' (truncated picture), "
        "'key 200' (truncated picture): repair the data"
    )


def test_an_epoch_is_judged_by_itself_and_chance_is_allowed_for() -> None:
    limit = SkipLimit(0.01, 1000)

    def counts(seen: int, skipped: int) -> tuple[int, ...]:
        return (seen, skipped, *[0] * (len(REASONS) - 1))

    check_epoch(counts(999, 999), limit)
    check_epoch(counts(4096, 64), limit)  # 41 are expected at the limit
    check_epoch(counts(4096, 4096), SkipLimit(1.0))
    with pytest.raises(StudioError, match=r"81 of the 4,096 samples of this epoch .* \(81 no caption\), far more than"):
        check_epoch(counts(4096, 81), limit, [Skip(0, "key", "no caption")])
    # A disk that is lost late: the run's share is small yet, and the epoch's is not.
    check_counts(counts(90_000_000, 8192), limit)
    with pytest.raises(StudioError, match="see whether the disk with the data is still there"):
        check_epoch(counts(500_000, 8192), limit)


def test_few_samples_are_judged_at_the_end_of_an_epoch_only() -> None:
    tally = Tally().plus(batch([0, 1, 2], (1, "no image")))
    check_counts(tally.counts, SkipLimit())
    with pytest.raises(StudioError, match="1 of 3 samples"):
        check_counts(tally.counts, SkipLimit(), epoch_ended=True)
    check_counts(Tally().counts, SkipLimit(0.0), epoch_ended=True)


def test_ranks_that_add_their_counts_stop_alike() -> None:
    good = Tally().plus(batch(list(range(1000))))
    large: list[tuple[int, Reason]] = [(index, "too large") for index in range(21)]
    bad = Tally().plus(batch(list(range(1000)), *large))
    check_counts(good.counts, SkipLimit())
    summed = torch.tensor(good.counts) + torch.tensor(bad.counts)
    with pytest.raises(StudioError, match="21 of 2,000"):
        check_counts(summed.tolist(), SkipLimit())


def test_samples_that_are_left_out_count_before_training(tmp_path: Path) -> None:
    source = open_tars(TarData(str(broken_shard(tmp_path))))
    with pytest.raises(StudioError, match=r"3 of 8 samples could not be used .*1 tar cut"):
        check_source(source, SkipLimit())
    check_source(source, SkipLimit(0.5))
    whole = open_tars(TarData(str(write_shards(tmp_path / "whole", [2]))))
    check_source(whole, SkipLimit(0.0))
    nothing = open_tars(TarData(str(tmp_path / "whole"), captions=("cap",)))
    with pytest.raises(StudioError, match="no sample can be used"):
        check_source(nothing, SkipLimit(1.0))


def test_a_limit_is_a_share() -> None:
    with pytest.raises(StudioError, match=r"skip\.share = 1\.5"):
        SkipLimit(1.5)
