"""Batches: the same bits with any number of workers and ranks, from any step on, whatever the signals and the data."""

import multiprocessing
import os
import signal
import time
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tar_files import broken_shard, encoded, write_shards
from torch import Tensor

from models.errors import StudioError
from models.preprocess import Preprocess
from train.data.augment import View
from train.data.batch import Batch, normalised
from train.data.config import CsvData, RandomCrop, TarData
from train.data.loader import batches, check_shared_memory, free_shared_memory, shared_bytes
from train.data.open import open_source
from train.data.order import Plan
from train.data.sample import Sample, Skip, Source
from train.evaluation.reading import picture_batches
from train.signals import STOPPING

HALF, QUARTER = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)
VIEW = View(Preprocess(16, HALF, QUARTER), RandomCrop())


def tokenize(texts: list[str]) -> Tensor:
    """Seven bytes of each text."""
    return torch.tensor([list(text.encode()[:7].ljust(7)) for text in texts])


def equal(one: Batch, other: Batch) -> bool:
    names = ("pixels", "tokens", "valid", "indices")
    same = all(torch.equal(getattr(one, name), getattr(other, name)) for name in names)
    return same and one.step == other.step and one.skipped == other.skipped


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    folder = tmp_path_factory.mktemp("uneven")
    return open_source(TarData(str(write_shards(folder, [9, 9, 1]))), 16, folder / "cache")


@pytest.mark.filterwarnings("ignore:This DataLoader will create 3 worker processes")
def test_two_ranks_give_the_bits_of_one_with_any_number_of_workers(source: Source) -> None:
    plan = Plan(len(source), 4, seed=1)
    steps = range(2 * plan.steps_per_epoch + 1)
    whole = list(batches(source, plan, VIEW, tokenize, steps))
    assert [batch.step for batch in whole] == list(steps)
    for workers in (0, 1, 3):
        ranks = [
            list(batches(source, replace(plan, ranks=2, rank=rank), VIEW, tokenize, steps, workers)) for rank in (0, 1)
        ]
        assert len(ranks[0]) == len(ranks[1]) == len(steps)
        for one, parts in zip(whole, zip(*ranks, strict=True), strict=True):
            for name in ("pixels", "tokens", "valid", "indices"):
                assert torch.equal(torch.cat([getattr(part, name) for part in parts]), getattr(one, name)), name
    first = torch.cat([batch.indices for batch in whole[: plan.steps_per_epoch]])
    assert len(first) == len(first.unique()) == 16


def test_one_shard_for_two_ranks_with_more_workers_than_shards_ends_for_both(tmp_path: Path) -> None:
    source = open_source(TarData(str(write_shards(tmp_path, [7]))), 16)
    plans = [Plan(7, 2, seed=0, ranks=2, rank=rank) for rank in (0, 1)]
    parts = [list(batches(source, plan, VIEW, tokenize, range(3), 2)) for plan in plans]
    visited = [int(index) for rank in parts for batch in rank for index in batch.indices]
    assert [len(part) for part in parts] == [3, 3]
    assert len(set(visited)) == 6


@pytest.mark.parametrize(("start", "workers"), [(1, 2), (5, 0), (6, 1)])
def test_a_run_that_goes_on_equals_the_tail_of_the_whole(source: Source, start: int, workers: int) -> None:
    plan = Plan(len(source), 4, seed=1)
    whole = list(batches(source, plan, VIEW, tokenize, range(9), 1))
    rest = list(batches(source, plan, VIEW, tokenize, range(start, 9), workers))
    assert len(rest) == 9 - start
    assert all(equal(one, other) for one, other in zip(whole[start:], rest, strict=True))


def test_a_sample_is_cropped_anew_in_each_epoch(source: Source) -> None:
    plan = Plan(len(source), 19, seed=1, order="as it is")
    first, second = batches(source, plan, VIEW, tokenize, range(2))
    assert torch.equal(first.indices, second.indices)
    assert torch.equal(first.tokens, second.tokens)
    assert all(not torch.equal(one, other) for one, other in zip(first.pixels, second.pixels, strict=True))


def test_broken_samples_keep_their_place_masked_and_every_readable_one_is_visited_once(tmp_path: Path) -> None:
    source = open_source(TarData(str(broken_shard(tmp_path))), 16)
    plan = Plan(len(source), 5, seed=3)
    epoch = list(batches(source, plan, VIEW, tokenize, range(2), 2))
    assert {tuple(batch.pixels.shape) for batch in epoch} == {(5, 3, 16, 16)}
    assert {tuple(batch.tokens.shape) for batch in epoch} == {(5, 7)}
    for batch in epoch:
        assert sorted(batch.indices[batch.valid].tolist()) == [0, 1, 2]
        skips = sorted((skip.index, skip.reason) for skip in batch.skipped)
        assert skips == [(3, "truncated picture"), (4, "not a picture")]
        assert not batch.pixels[~batch.valid].any()
        assert not batch.tokens[~batch.valid].any()
        assert batch.tokens[batch.valid].any(dim=1).all()


def test_a_batch_without_a_readable_sample_has_the_shape_of_the_others(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("image,caption\ngone.jpg,one\nlost.jpg,two\n")
    source = open_source(CsvData(str(tmp_path / "a.csv")), 16)
    (batch,) = batches(source, Plan(2, 2, seed=0), VIEW, tokenize, range(1))
    assert (batch.pixels.shape, batch.tokens.shape) == ((2, 3, 16, 16), (2, 7))
    assert not batch.valid.any()
    assert [skip.reason for skip in batch.skipped] == ["no image", "no image"]


def test_each_of_several_captions_is_drawn_about_as_often(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(encoded(0))
    (tmp_path / "a.csv").write_text("image,caption\n" + "a.jpg,one|two|six\n" * 30)
    source = open_source(CsvData(str(tmp_path / "a.csv"), between_captions="|"), 16)
    drawn = torch.cat([batch.tokens for batch in batches(source, Plan(30, 30, 0), VIEW, tokenize, range(10))])
    counts = [int((drawn == tokenize([text])[0]).all(dim=1).sum()) for text in ("one", "two", "six")]
    assert sum(counts) == 300
    assert min(counts) > 70


def test_workers_outlive_the_signals_that_stop_a_run(source: Source) -> None:
    plan = Plan(len(source), 4, seed=1)
    wanted = list(batches(source, plan, VIEW, tokenize, range(40)))
    before = set(multiprocessing.active_children())
    received: list[int] = []
    old = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    try:
        loaded = batches(source, plan, VIEW, tokenize, range(40), 2)
        got = [next(loaded)]
        workers = set(multiprocessing.active_children()) - before
        assert len(workers) == 2
        for worker in workers:
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGTERM)
            os.kill(worker.pid, signal.SIGINT)
        got += loaded
    finally:
        signal.signal(signal.SIGTERM, old)
    assert not received
    assert all(equal(one, other) for one, other in zip(wanted, got, strict=True))


def test_an_iterator_that_is_left_by_an_error_leaves_no_worker_behind(source: Source) -> None:
    before = set(multiprocessing.active_children())
    loaded = batches(source, Plan(len(source), 4, seed=1), VIEW, tokenize, range(1000), 2)
    with pytest.raises(RuntimeError) as raised, closing(loaded):  # noqa: PT012
        next(loaded)
        assert len(set(multiprocessing.active_children()) - before) == 2
        raise RuntimeError("of a step")
    assert raised.tb is not None  # which keeps the frame and all it holds
    assert set(multiprocessing.active_children()) <= before


@dataclass(frozen=True)
class Stuck:
    """A source whose second sample is never read, as on a network disk that is gone."""

    whole: Source

    def __len__(self) -> int:
        return len(self.whole)

    def read(self, index: int, least_side: int = 0) -> Sample | Skip:
        if index:
            time.sleep(600)
        return self.whole.read(index, least_side)


def test_a_worker_that_does_not_end_is_killed(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    # For how long torch itself hopes that it ends, twice: five seconds.
    monkeypatch.setattr("torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL", 0.5)
    before, began = set(multiprocessing.active_children()), time.monotonic()
    plan = Plan(len(source), 1, seed=1, order="as it is")
    with closing(batches(Stuck(source), plan, VIEW, tokenize, range(2), 1)) as loaded:  # type: ignore[arg-type]
        next(loaded)
    assert set(multiprocessing.active_children()) <= before
    assert time.monotonic() - began < 60


def test_workers_are_born_deaf_to_the_signals_that_stop_a_run(source: Source) -> None:
    before = set(multiprocessing.active_children())
    with closing(batches(source, Plan(len(source), 4, seed=1), VIEW, tokenize, range(1000), 1)) as loaded:
        next(loaded)
        (worker,) = set(multiprocessing.active_children()) - before
        status = dict(line.split(":", 1) for line in Path(f"/proc/{worker.pid}/status").read_text().splitlines())
    bits = [1 << (number - 1) for number in STOPPING]
    for name in ("SigBlk", "SigIgn"):
        assert all(int(status[name], 16) & bit for bit in bits), name
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) & set(STOPPING)


def test_too_little_shared_memory_is_told_before_a_worker_starts() -> None:
    needed = shared_bytes(256, (224, 224), 77, 4)
    assert needed > 9 * 256 * 3 * 224 * 224
    with pytest.raises(StudioError, match=r"4 loader workers need 332 MiB .*64 MiB free.*--shm-size=2g.*0 needs none"):
        check_shared_memory(needed, 64 * 2**20, 4)
    check_shared_memory(needed, needed, 4)
    with pytest.raises(StudioError, match=r"4 loader workers for each of 8 processes need 2,65\d MiB .*--shm-size=4g"):
        check_shared_memory(needed, 8 * needed - 1, 4, 8)
    check_shared_memory(needed, None, 4)
    free = free_shared_memory()
    assert free is None or free >= 0


def test_the_workers_of_all_processes_of_a_machine_are_counted(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    free = free_shared_memory()
    if free is None:
        pytest.skip("This system has no /dev/shm.")
    # As much as half of what is free: enough for one process, too much for four.
    side = int((free / 2 / (3 * 3 * 4)) ** 0.5)
    view, plan = View(Preprocess(side, HALF, QUARTER)), Plan(len(source), 4, seed=1)
    batches(source, plan, view, tokenize, range(1), 1)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    with pytest.raises(StudioError, match="1 loader workers for each of 4 processes need"):
        batches(source, plan, view, tokenize, range(1), 1)
    with pytest.raises(StudioError, match="for each of 4 processes need"):
        picture_batches(source, Preprocess(side // 4, HALF, QUARTER), np.arange(4), 1)


def test_no_shared_memory_is_asked_of_a_loader_without_workers(source: Source) -> None:
    big = View(Preprocess(5000, HALF, QUARTER), RandomCrop())
    plan = Plan(10**6, 10**6 - 10**6 % 4, seed=0)
    with pytest.raises(StudioError, match="loader workers need"):
        batches(source, plan, big, tokenize, range(1), 4)
    batches(source, plan, big, tokenize, range(1), 0)
    with pytest.raises(StudioError, match="workers = -1"):
        batches(source, plan, big, tokenize, range(1), -1)


def test_a_batch_moves_as_a_whole(source: Source) -> None:
    (batch,) = batches(source, Plan(len(source), 4, seed=1), VIEW, tokenize, range(1))
    moved = batch.to("meta")
    assert {getattr(moved, name).device.type for name in ("pixels", "tokens", "valid", "indices")} == {"meta"}
    assert (moved.step, moved.skipped) == (batch.step, batch.skipped)
    assert batch.pixels.is_contiguous(memory_format=torch.channels_last)
    assert normalised(batch.pixels, HALF, QUARTER).is_contiguous()
    assert np.isclose(float(normalised(torch.full((1, 3, 1, 1), 255, dtype=torch.uint8), HALF, QUARTER)[0, 0]), 2)
