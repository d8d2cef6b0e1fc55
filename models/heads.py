"""Numbers about heads beside one another: how alike those of a layer are, and which of two models' go together.

Weights are (H, Nq, Nk) or, where a function says (..., H, Nq, Nk), with more axes before. Undefined numbers are NaN.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from models.errors import StudioError


@dataclass(frozen=True)
class HeadMatches:
    """For each head of a first model the head of a second that is most like it.

    Attributes:
        partner: index (H1,) of the second model's head; several heads may share one.
        cosine: how alike they are (H1,).
    """

    partner: Tensor
    cosine: Tensor


def head_redundancy(weights: Tensor) -> Tensor:
    """Mean cosine between the rows of two heads of a layer (..., H, Nq, Nk), over queries and pairs of heads (...,).

    1 if all heads look at the same, 0 if no two share a key. A query for which some head has a row of zeros is left
    out; NaN for a layer of one head.
    """
    heads = weights.shape[-3]
    unit = weights / torch.linalg.vector_norm(weights, dim=-1, keepdim=True)
    # The square of a sum of unit vectors is their number plus twice the cosine of each pair.
    pairs = (unit.sum(-3).square().sum(-1) - heads) / torch.tensor(heads * (heads - 1), dtype=weights.dtype)
    return pairs.nanmean(-1)


def head_cosines(first: Tensor, second: Tensor) -> Tensor:
    """Cosine (H1, H2) of each head of one layer (H1, Nq, Nk) with each of another (H2, Nq, Nk), the mean over queries.

    Raises:
        StudioError: maps of different queries or keys.
    """
    if first.dim() != 3 or second.dim() != 3 or first.shape[1:] != second.shape[1:]:
        raise StudioError(
            f"Heads (H, Nq, Nk) of shapes {tuple(first.shape)} and {tuple(second.shape)} cannot be compared: "
            "give maps of the same tokens."
        )
    left, right = (each / torch.linalg.vector_norm(each, dim=-1, keepdim=True) for each in (first, second))
    return torch.einsum("aqk,bqk->abq", left, right).nanmean(-1)


def match_heads(first: Tensor, second: Tensor) -> HeadMatches:
    """The best partner in `second` (H2, Nq, Nk) of each head in `first` (H1, Nq, Nk), by `head_cosines`.

    Heads have no order across models, so head 3 of one is to be compared with its partner and not with head 3.

    Raises:
        StudioError: maps of different queries or keys.
    """
    best = head_cosines(first, second).nan_to_num(nan=-torch.inf).max(dim=-1)
    return HeadMatches(best.indices, best.values.masked_fill(best.values.isneginf(), torch.nan))


def rank_correlation(first: Tensor, second: Tensor) -> Tensor:
    """Spearman's rho between rows (..., n) of two tensors (...,): Pearson's correlation of mid-ranks, -1 to 1.

    NaN where a row is constant or holds NaN.
    """
    left, right = (ranks - ranks.mean(-1, keepdim=True) for ranks in (_mid_ranks(first), _mid_ranks(second)))
    scale = torch.linalg.vector_norm(left, dim=-1) * torch.linalg.vector_norm(right, dim=-1)
    return ((left * right).sum(-1) / scale).to(first.dtype)


def _mid_ranks(values: Tensor) -> Tensor:
    """Rank of each value in its row, float64; equal values share the mean of their ranks."""
    values = values.contiguous()
    rising = values.sort(dim=-1).values
    below = torch.searchsorted(rising, values, side="left")
    not_above = torch.searchsorted(rising, values, side="right")
    ranks = (below + not_above + 1).double() / 2
    return ranks.masked_fill(values.isnan().any(-1, keepdim=True), torch.nan)
