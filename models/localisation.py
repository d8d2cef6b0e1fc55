"""Numbers about attention rows against a mask of the picture: where the weight lies, and how well weights rank patches.

Every function but `patch_coverage`, which the masks are made from, takes weights (..., Nk), one row a query, and gives
one number a row (...,). `inside` and `outside` are True (Nk,) on the keys of the object and of the ground. Ranks
(`auroc`, `average_precision`) leave out keys that are in neither; mass and lift know the object alone and divide by all
keys. Undefined numbers are NaN, never 0. The maps of a differential head are ranked with their signs, and of their mass
the positive part is taken: the row norm behind the head makes the scale of a row irrelevant, but not its signs.
"""

import numpy as np
import torch
from torch import Tensor

from models.errors import StudioError
from models.geometry import ImageGeometry
from models.layout import TokenGrid

# A patch counts as object at this share of its area or more; below the second it counts as ground.
OBJECT_COVERAGE, GROUND_COVERAGE = 0.5, 0.1
_SAMPLES = 16


def mass_inside(weights: Tensor, inside: Tensor) -> Tensor:
    """Share of a non-negative row's mass on the keys where `inside` (Nk,) is true; NaN where it is true nowhere."""
    if not bool(inside.any()):
        return _undefined(weights)
    return (weights * inside).sum(-1) / weights.sum(-1)


def lift(weights: Tensor, inside: Tensor) -> Tensor:
    """`mass_inside` by the share of keys that are inside: 1 for a uniform row, however large the object is."""
    return mass_inside(weights, inside) / inside.to(weights.dtype).mean()


def negative_mass_inside(weights: Tensor, inside: Tensor) -> Tensor:
    """Share of a row's negative mass on the keys inside; NaN for a row without negative entries or an empty mask.

    0.1 for an object on a tenth of the keys says that the subtraction does not know where the object is; less, that it
    spares the object; more, that it takes from it.
    """
    return mass_inside(weights.clamp(max=0).abs(), inside)


def auroc(weights: Tensor, inside: Tensor, outside: Tensor) -> Tensor:
    """Chance that a key inside has a higher weight than a key outside, ties half; signed rows are taken as they are.

    The area under the receiver operating characteristic, which is the Mann-Whitney statistic. NaN where there is no
    key inside or none outside, and for a row that holds NaN.
    """
    counted = _counts(weights, inside, outside)
    if counted is None:
        return _undefined(weights)
    positive, negative = counted
    below = torch.searchsorted(negative, positive, side="left")
    not_above = torch.searchsorted(negative, positive, side="right")
    share = ((below + not_above).double() / (2 * negative.shape[-1])).mean(-1)
    return _defined(weights, share)


def average_precision(weights: Tensor, inside: Tensor, outside: Tensor) -> Tensor:
    """Mean, over the keys inside, of the precision among all keys of no lower weight; signed rows as they are.

    Equal weights enter together, so that the order of keys does not matter: a constant row has the share of keys that
    are inside. It is the sum over thresholds of precision times gain in recall, without interpolation. NaN where there
    is no key inside or none outside, and for a row that holds NaN.
    """
    counted = _counts(weights, inside, outside)
    if counted is None:
        return _undefined(weights)
    positive, negative = counted
    hits = positive.shape[-1] - torch.searchsorted(positive, positive, side="left")
    misses = negative.shape[-1] - torch.searchsorted(negative, positive, side="left")
    return _defined(weights, (hits.double() / (hits + misses)).mean(-1))


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


def _counts(weights: Tensor, inside: Tensor, outside: Tensor) -> tuple[Tensor, Tensor] | None:
    """The weights inside and outside, each in rising order, or None where one of them has no key."""
    positive, negative = (weights[..., keys].sort(dim=-1).values.contiguous() for keys in (inside, outside))
    return None if positive.shape[-1] == 0 or negative.shape[-1] == 0 else (positive, negative)


def _undefined(weights: Tensor) -> Tensor:
    return torch.full(weights.shape[:-1], torch.nan, dtype=weights.dtype, device=weights.device)


def _defined(weights: Tensor, numbers: Tensor) -> Tensor:
    """Numbers in the dtype of the weights, NaN for rows that hold NaN."""
    return numbers.masked_fill(weights.isnan().any(-1), torch.nan).to(weights.dtype)
