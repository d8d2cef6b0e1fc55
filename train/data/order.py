"""Which samples a step takes: pure functions of (number of samples, seed, step, rank), stable between versions.

All randomness is Philox4x64 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011), which is a function
of a key, here (seed, epoch), and a counter. NumPy promises the raw stream of a bit generator, not what its
distributions make of it, so only raw numbers are used.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.random import Philox
from numpy.typing import NDArray

from models.errors import StudioError

Order = Literal["shuffled", "as it is"]
CHANCES = 24  # random numbers that one sample may use in one epoch
_ORDER, _SAMPLE = 0, 1  # highest word of the counter: no stream runs into another


def epoch_order(n: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """A permutation of 0 .. n - 1 that depends on (n, seed, epoch) alone; all permutations are equally likely.

    The samples are sorted by one raw number each.
    """
    return np.argsort(_stream(seed, epoch, 0, _ORDER).random_raw(n), kind="stable").astype(np.int64, copy=False)


def sample_chances(seed: int, epoch: int, index: int) -> NDArray[np.float64]:
    """(24,) numbers in [0, 1), evenly spread, that belong to this visit of sample `index` alone."""
    raw = _stream(seed, epoch, index, _SAMPLE).random_raw(CHANCES)
    return (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _stream(seed: int, epoch: int, index: int, use: int) -> Philox:
    key = np.array([seed, epoch], dtype=np.uint64)
    return Philox(key=key, counter=np.array([0, index, 0, use], dtype=np.uint64))


@dataclass(frozen=True)
class Plan:
    """The steps of a run and what each takes; the position of a run is the number of steps taken, one integer.

    Step s of an epoch takes positions s * batch to (s + 1) * batch - 1 of the epoch's order, of which rank r takes
    the r-th of `ranks` equal parts. So the batches of the ranks, in their order, are the batch of one process, and
    all ranks end together whatever the shards are. The n % batch samples that are left of an epoch are left out, other
    ones each epoch if they are shuffled; an evaluation, where each counts once, has `rank_share`.

    Attributes:
        samples: n, of the source.
        batch: samples a step, over all ranks.
        order: "shuffled" anew each epoch, or "as it is".

    Raises:
        StudioError: a batch that ranks cannot share equally, or that is larger than the data.
    """

    samples: int
    batch: int
    seed: int
    order: Order = "shuffled"
    ranks: int = 1
    rank: int = 0

    def __post_init__(self) -> None:
        if self.batch < 1 or self.batch % self.ranks:
            raise StudioError(
                f"A batch of {self.batch} cannot be shared equally by {self.ranks} processes: use a multiple of it."
            )
        if not 0 <= self.rank < self.ranks:
            raise StudioError(f"Rank {self.rank} is not one of {self.ranks} processes: ranks count from 0.")
        if self.seed < 0:
            raise StudioError(f"Seed {self.seed} names no order: seeds count from 0.")
        if self.steps_per_epoch < 1:
            raise StudioError(
                f"The data hold {self.samples:,} samples, fewer than one batch of {self.batch:,}: "
                "use a smaller batch, or more data."
            )

    @property
    def steps_per_epoch(self) -> int:
        """Steps in which an epoch is visited, the same on every rank."""
        return self.samples // self.batch

    def epoch_of(self, step: int) -> int:
        """The epoch (from 0) in which step `step` (from 0) of the run is taken."""
        return step // self.steps_per_epoch

    def indices(self, step: int) -> NDArray[np.int64]:
        """Samples (batch / ranks,) that this rank takes in step `step` (from 0) of the run."""
        epoch, within = divmod(step, self.steps_per_epoch)
        own = self.batch // self.ranks
        start = within * self.batch + self.rank * own
        if self.order == "shuffled":
            return _kept_order(self.samples, self.seed, epoch)[start : start + own].copy()
        return np.arange(start, start + own)


@lru_cache(maxsize=1)
def _kept_order(n: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """The order of the epoch at hand: sorting a million numbers anew for each step would take a second."""
    order = epoch_order(n, seed, epoch)
    order.flags.writeable = False
    return order


def rank_share(n: int, ranks: int, rank: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The rank's part of 0 .. n - 1 for an evaluation, (ceil(n / ranks),) on every rank, and which of it are real.

    Parts are contiguous and padded with -1, so the gathered parts, masked, are 0 .. n - 1 in order.
    """
    own = -(-n // ranks)
    indices = np.arange(rank * own, (rank + 1) * own)
    valid = indices < n
    return np.where(valid, indices, -1), valid
