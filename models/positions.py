"""Position embeddings for another grid: the patches are resampled, the prefix stays as it is."""

import torch
import torch.nn.functional as F
from torch import Tensor

from models.layout import TokenGrid


def resize_positions(embedding: Tensor, old: TokenGrid, new: TokenGrid) -> Tensor:
    """Position embeddings (N, D) of one grid for another, patches by antialiased bicubic interpolation.

    The same grid gives the same tensor, so that a second resize to it changes nothing.
    """
    if (old.rows, old.cols) == (new.rows, new.cols):
        return embedding
    prefix, patches = embedding[: old.prefix], embedding[old.prefix :]
    image = patches.T.reshape(1, -1, old.rows, old.cols)
    resized = F.interpolate(image, size=(new.rows, new.cols), mode="bicubic", antialias=True, align_corners=False)
    return torch.cat([prefix, resized.reshape(-1, new.patches).T])
