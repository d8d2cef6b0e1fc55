"""Batches made by worker processes, delivered in order; the same bits with any number of workers, also with none."""

import os
import shutil
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from models.errors import StudioError
from train.data.augment import View
from train.data.batch import Batch, Tokenize, make_batch
from train.data.order import Plan
from train.data.sample import Source
from train.data.workers import PREFETCH, read_by_workers

SHARED = Path("/dev/shm")


@dataclass(frozen=True)
class _Slot:
    """What a worker needs to know of a step; the order of an epoch stays in the main process."""

    step: int
    epoch: int
    indices: np.ndarray


class _Slots:
    """The slots of steps, as PyTorch's loader wants them: something to iterate over that knows its length."""

    def __init__(self, plan: Plan, steps: range) -> None:
        self.plan, self.steps = plan, steps

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[_Slot]:
        for step in self.steps:
            yield _Slot(step, self.plan.epoch_of(step), self.plan.indices(step))


class _Batches(Dataset[Batch]):
    """slot -> Batch."""

    def __init__(self, source: Source, view: View, tokenize: Tokenize, seed: int) -> None:
        self.source, self.view, self.tokenize, self.seed = source, view, tokenize, seed

    def __getitem__(self, index: Any) -> Batch:
        slot: _Slot = index
        return make_batch(self.source, self.view, self.tokenize, self.seed, slot.step, slot.epoch, slot.indices)


def batches(
    source: Source,
    plan: Plan,
    view: View,
    tokenize: Tokenize,
    steps: range,
    workers: int = 0,
    pin: bool = False,
) -> Generator[Batch, None, None]:
    """This rank's batches of the steps `steps` of the run, in order.

    Steps may span epochs: workers live as long as the iterator and do not wait at an epoch's end. To go on after a
    stop, or at another picture size, ask for the steps that are left. Whoever may leave the iterator early closes it.

    Args:
        plan: made for this source's number of samples.
        view: how pictures reach the model.
        tokenize: captions -> ids (B, N); called in the workers.
        workers: processes; each makes whole batches, two ahead. 0 makes them in this process.
        pin: put them into pinned memory, for a CUDA device.

    Raises:
        StudioError: workers below 0, or more shared memory is needed than there is.
    """
    if workers < 0:
        raise StudioError(f"workers = {workers} is no number of processes: use 0 or more.")
    dataset, slots = _Batches(source, view, tokenize, plan.seed), _Slots(plan, steps)
    if workers:
        tokens = tokenize([""]).shape[1]
        needed = shared_bytes(plan.batch // plan.ranks, view.preprocess.input_size, tokens, workers)
        check_shared_memory(needed, free_shared_memory(), workers, processes_here())
        return read_by_workers(dataset, slots, workers, pin)  # type: ignore[arg-type]
    return (dataset[slot].pin_memory() if pin else dataset[slot] for slot in slots)


def shared_bytes(batch: int, size: tuple[int, int], tokens: int, workers: int) -> int:
    """Shared memory that workers fill with batches under way, and the one in use.

    `batch` is one rank's, `size` (height, width), `tokens` N.
    """
    sample = 3 * size[0] * size[1] + 8 * tokens + 16
    return (PREFETCH * workers + 1) * batch * sample


def free_shared_memory() -> int | None:
    """Free bytes in /dev/shm, through which batches come from workers; None where the system has none."""
    return shutil.disk_usage(SHARED).free if SHARED.is_dir() else None


def processes_here() -> int:
    """Processes of this machine that train together, each with its own workers, as torchrun tells it; or 1."""
    told = os.environ.get("LOCAL_WORLD_SIZE", "")
    return max(1, int(told)) if told.isdecimal() else 1


def check_shared_memory(needed: int, free: int | None, workers: int, processes: int = 1) -> None:
    """Refuse before a worker dies of "Bus error", which says nothing.

    `needed` and `workers` are of each of `processes` on this machine, all of which share what is free.

    Raises:
        StudioError: fewer bytes are free than needed; says what to do.
    """
    needed *= processes
    if free is not None and needed > free:
        each = f" for each of {processes} processes" if processes > 1 else ""
        raise StudioError(
            f"{workers} loader workers{each} need {needed / 2**20:,.0f} MiB of shared memory and {SHARED} has "
            f"{free / 2**20:,.0f} MiB free: start the container with --shm-size={-(-needed // 2**30) + 1}g "
            f"(or --ipc=host), or use fewer workers; 0 needs none."
        )
