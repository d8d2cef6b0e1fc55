"""Numbers about attention rows, from floats: what stands under a map, and the control that must stand beside it.

Every function takes weights (..., Nk), one row a query, and gives one number a row (...,). Rows of A1 - lambda A2 hold
negative entries; each function says what it makes of them. Undefined numbers are NaN, never 0.
"""

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from models.errors import StudioError
from models.geometry import ImageGeometry
from models.layout import TokenGrid

# A patch counts as object at this share of its area or more; below the second it counts as ground.
OBJECT_COVERAGE, GROUND_COVERAGE = 0.5, 0.1
_SAMPLES = 16


def row_sum(weights: Tensor) -> Tensor:
    """Sum of each row: 1 for a normalised map, 1 - lambda for a difference."""
    return weights.sum(-1)


def negative_mass(weights: Tensor) -> Tensor:
    """Share of a row's absolute mass that is negative, sum of |w| over w < 0 by the sum of |w|; 0 to 1."""
    return weights.clamp(max=0).abs().sum(-1) / weights.abs().sum(-1)


def positive_part(weights: Tensor) -> Tensor:
    """The row with its negative entries set to zero (..., Nk)."""
    return weights.clamp(min=0)


def entropy(weights: Tensor) -> Tensor:
    """Entropy of a non-negative row after division by its sum, by log Nk: 0 one key, 1 uniform.

    Raises:
        StudioError: a negative entry, for which entropy is undefined; take the positive part or absolute values.
    """
    if bool((weights < 0).any()):
        raise StudioError("Entropy is undefined for negative weights: take positive_part(weights) or weights.abs().")
    share = weights / weights.sum(-1, keepdim=True)
    return -torch.xlogy(share, share).sum(-1) / math.log(weights.shape[-1])


def support(weights: Tensor) -> Tensor:
    """Number of keys whose weight is not exactly zero."""
    return (weights != 0).sum(-1)


def prefix_share(weights: Tensor, prefix: int) -> Tensor:
    """Share of a row's absolute mass on the prefix tokens (CLS, registers)."""
    size = weights.abs()
    return size[..., :prefix].sum(-1) / size.sum(-1)


def mass_inside(weights: Tensor, inside: Tensor) -> Tensor:
    """Share of a non-negative row's mass on the keys where `inside` (Nk,) is true; NaN where it is true nowhere."""
    if not bool(inside.any()):
        return torch.full(weights.shape[:-1], float("nan"))
    return (weights * inside).sum(-1) / weights.sum(-1)


def auroc(weights: Tensor, inside: Tensor, outside: Tensor) -> Tensor:
    """Chance that a key inside has a higher weight than a key outside, ties half; signed rows are taken as they are.

    NaN where there is no key inside or none outside.
    """
    positive, negative = (
        weights[..., inside].contiguous(),
        weights[..., outside].sort(dim=-1).values.contiguous(),
    )
    if positive.shape[-1] == 0 or negative.shape[-1] == 0:
        return torch.full(weights.shape[:-1], float("nan"))
    below = torch.searchsorted(negative, positive, side="left")
    not_above = torch.searchsorted(negative, positive, side="right")
    return ((below + not_above).double() / (2 * negative.shape[-1])).mean(-1).to(weights.dtype)


def shuffled_differences(
    a1: Tensor, subtracted: Tensor, prefix: int, count: int = 20, seed: int = 0
) -> Iterator[Tensor]:
    """The control for every number that suggests cleaning: A1 - lambda A2 with A2 shuffled over the patch keys.

    A shuffled A2 knows nothing of the picture; what it "cleans" too is what subtracting any spread-out map does.
    One permutation serves all heads and queries; the prefix keys stay where they are. Yields `count` maps (..., Nk).
    """
    generator = torch.Generator().manual_seed(seed)
    patches = a1.shape[-1] - prefix
    for _ in range(count):
        order = torch.cat([torch.arange(prefix), prefix + torch.randperm(patches, generator=generator)])
        yield a1 - subtracted[..., order]


def patch_coverage(mask: np.ndarray, geometry: ImageGeometry, grid: TokenGrid) -> np.ndarray:
    """Share of each patch (R, C) that a mask over the original picture's pixels (height, width) covers, 0 to 1.

    Raises:
        StudioError: the mask is not of the picture's size.
    """
    if mask.shape != geometry.original:
        raise StudioError(
            f"The mask is {mask.shape}, the picture {geometry.original} (height, width): they must agree."
        )
    inside = mask.astype(bool)
    top, left, bottom, right = geometry.seen_box
    rows = _sample_points(top, bottom, grid.rows, mask.shape[0])
    cols = _sample_points(left, right, grid.cols, mask.shape[1])
    points = inside[np.ix_(rows, cols)].reshape(grid.rows, _SAMPLES, grid.cols, _SAMPLES)
    return points.mean(axis=(1, 3))


def _sample_points(near: float, far: float, patches: int, pixels: int) -> np.ndarray:
    """Pixel indices of _SAMPLES evenly spaced points in each patch of one axis."""
    position = near + (np.arange(patches * _SAMPLES) + 0.5) / (patches * _SAMPLES) * (far - near)
    return np.clip(np.floor(position).astype(int), 0, pixels - 1)
