"""An evaluation over several processes: each takes its share, everything is gathered, every sample counts once.

All ranks go through as many batches, whatever each of them could read, and what they gather has the same shape on all
of them; so no rank waits for one that has nothing left to do. Between batches they may agree to stop.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

# All ranks' tensors (rows, ...) of one shape -> (size * rows, ...), in the order of ranks, the same on all of them.
Gather = Callable[[Tensor], Tensor]


class Stopped(Exception):
    """An evaluation was left because somebody asked for it; raised on all ranks at the same place."""


def alone(tensor: Tensor) -> Tensor:
    """The gathering of one process: what it has is all there is."""
    return tensor


def never() -> bool:
    """Nobody asks an evaluation to stop."""
    return False


@dataclass(frozen=True)
class Ranks:
    """This process among those that evaluate together: `rank` of `size`, how they gather, whether they shall stop.

    `stopped` is a collective with the same answer on all ranks.
    """

    rank: int = 0
    size: int = 1
    gather: Gather = alone
    stopped: Callable[[], bool] = never

    def go_on(self) -> None:
        """Called by all ranks between two batches: a collective.

        Raises:
            Stopped: the evaluation shall not be finished.
        """
        if self.stopped():
            raise Stopped


ALONE = Ranks()


def gather_shares(ranks: Ranks, part: Tensor, count: int) -> Tensor:
    """The parts (ceil(count / size), ...) of `order.rank_share`, without their padding: (count, ...), in order.

    The parts are contiguous, so all that is padding stands at the end.
    """
    return ranks.gather(part.contiguous())[:count]


def gather_uneven(ranks: Ranks, part: Tensor) -> Tensor:
    """Parts (rows, ...) of which each rank has as many rows as it likes, one after another in the order of ranks."""
    lengths = ranks.gather(torch.tensor([len(part)]))
    longest = int(lengths.max())
    padded = torch.cat([part, part.new_zeros(longest - len(part), *part.shape[1:])])
    every = ranks.gather(padded.contiguous()).unflatten(0, (len(lengths), longest))
    return torch.cat([rows[:length] for rows, length in zip(every, lengths.tolist(), strict=True)])
