"""Pictures of a source in batches, as the model's own preprocessing has them, in this process or in others."""

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from models.errors import StudioError
from models.preprocess import Preprocess
from train.data.augment import View
from train.data.loader import check_shared_memory, free_shared_memory, processes_here, shared_bytes
from train.data.sample import REASONS, Sample, Source
from train.data.workers import read_by_workers

BATCH = 50
_NO_CHANCES = np.zeros(0)


@dataclass(frozen=True, eq=False)
class PictureBatch:
    """Some pictures of a source.

    Attributes:
        pixels: uint8 (B, 3, height, width), 0 where there is no picture.
        status: (B,); 0 is a picture that was read, -1 padding, and 1 + i one that was skipped for `REASONS[i]`.
        captions: of each row, none where there is no picture.
    """

    pixels: Tensor
    status: Tensor
    captions: tuple[tuple[str, ...], ...]


class _Batches(Dataset[PictureBatch]):
    """Number of a batch -> the batch."""

    def __init__(self, source: Source, preprocess: Preprocess, indices: NDArray[np.int64]) -> None:
        self.source, self.view, self.indices = source, View(preprocess), indices

    def __len__(self) -> int:
        return -(-len(self.indices) // BATCH)

    def __getitem__(self, index: int) -> PictureBatch:
        indices = self.indices[index * BATCH : (index + 1) * BATCH]
        pixels = torch.zeros(len(indices), 3, *self.view.preprocess.input_size, dtype=torch.uint8)
        status, captions = torch.full((len(indices),), -1), []
        for row, number in enumerate(map(int, indices)):
            captions.append(())
            if number < 0:
                continue
            read = self.source.read(number, self.view.least_side)
            if isinstance(read, Sample):
                pixels[row] = torch.from_numpy(self.view(read.picture, _NO_CHANCES)).permute(2, 0, 1)
                status[row], captions[row] = 0, read.captions
            else:
                status[row] = 1 + REASONS.index(read.reason)
        return PictureBatch(pixels, status, tuple(captions))


def picture_batches(
    source: Source, preprocess: Preprocess, indices: NDArray[np.int64], workers: int = 0
) -> Generator[PictureBatch, None, None]:
    """The samples `indices` of a source in their order; -1 is padding. Whoever may leave it early closes it.

    Raises:
        StudioError: workers below 0, or more shared memory is needed than there is.
    """
    if workers < 0:
        raise StudioError(f"workers = {workers} is no number of processes: use 0 or more.")
    made = _Batches(source, preprocess, indices)
    if not workers:
        return (made[number] for number in range(len(made)))
    needed = shared_bytes(BATCH, preprocess.input_size, 1, workers)
    check_shared_memory(needed, free_shared_memory(), workers, processes_here())
    return read_by_workers(made, None, workers)
