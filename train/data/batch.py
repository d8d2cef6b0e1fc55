"""Batch: pixels, token ids, and which of them are real; made from a source, a view and indices."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from train.data.augment import CROP_CHANCES, View
from train.data.order import sample_chances
from train.data.sample import Sample, Skip, Source

Tokenize = Callable[[list[str]], Tensor]


@dataclass(frozen=True, eq=False)
class Batch:
    """One rank's part of a step. Its shapes are the same in every step, whatever could not be read.

    Pixels travel as bytes, a quarter of what normalised floats take between processes and to a device; `normalised`
    makes the model's input of them where they have arrived.

    Attributes:
        step: of the run, from 0.
        pixels: uint8 (B, 3, height, width), laid out channels last.
        tokens: int64 (B, N).
        valid: bool (B,); where it is False, pixels and tokens are 0 and the loss must leave row and column out.
        indices: int64 (B,), the samples' numbers in the source; -1 is padding.
        skipped: the samples that could not be read.
    """

    step: int
    pixels: Tensor
    tokens: Tensor
    valid: Tensor
    indices: Tensor
    skipped: tuple[Skip, ...]

    def to(self, device: torch.device | str) -> "Batch":
        """The batch with its tensors on a device; the copy is asynchronous from pinned memory."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> "Batch":
        """The batch in memory from which a GPU copies by itself; PyTorch's loader calls it."""
        return self._each(lambda tensor: tensor.pin_memory())

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        names = ("pixels", "tokens", "valid", "indices")
        return replace(self, **{name: change(getattr(self, name)) for name in names})


def normalised(pixels: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Bytes (B, 3, height, width) as model input, float32: (pixels / 255 - mean) / std, as Preprocess does it."""
    shape = (3, 1, 1)
    scaled = pixels.to(torch.float32, memory_format=torch.contiguous_format).div_(255)
    return scaled.sub_(scaled.new_tensor(mean).view(shape)).div_(scaled.new_tensor(std).view(shape))


def make_batch(
    source: Source, view: View, tokenize: Tokenize, seed: int, step: int, epoch: int, indices: np.ndarray
) -> Batch:
    """Read the samples `indices` (B,) of a source, -1 for none; everything random follows (seed, epoch, index)."""
    height, width = view.preprocess.input_size
    shape = (len(indices), 3, height, width)
    pixels = torch.zeros(shape, dtype=torch.uint8).contiguous(memory_format=torch.channels_last)
    rows = pixels.permute(0, 2, 3, 1).numpy()
    valid = torch.zeros(len(indices), dtype=torch.bool)
    captions: list[str] = []
    skipped: list[Skip] = []
    for row, index in enumerate(map(int, indices)):
        if index < 0:
            continue
        read = source.read(index, view.least_side)
        if isinstance(read, Sample):
            chances = sample_chances(seed, epoch, index)
            rows[row] = view(read.picture, chances)
            captions.append(read.captions[int(chances[CROP_CHANCES] * len(read.captions))])
            valid[row] = True
        else:
            skipped.append(read)
    # A batch without one readable sample still has the shape that the tokenizer gives.
    ids = tokenize(captions or [""])
    tokens = torch.zeros(len(indices), ids.shape[1], dtype=torch.long)
    if captions:
        tokens[valid] = ids
    return Batch(step, pixels, tokens, valid, torch.from_numpy(np.array(indices, dtype=np.int64)), tuple(skipped))
