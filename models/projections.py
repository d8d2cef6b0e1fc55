"""Q, K and V of a layer: everything that an attention map is made from.

Today's fast attention kernels never hold the weights as a tensor, so there is nothing to hook; projecting the
module's own input with its own parameters is exact (`models/projectors.py`), and `reconstruct(projections, weights)`
must give what the module gave.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from models.head_outputs import HeadOutputs


@dataclass(frozen=True)
class Projections:
    """One layer, one batch: everything an attention map is made from.

    Attributes:
        q: (B, H, M, Nq, d); M = 1 for CLIP, 2 for differential attention.
        k: (B, H, M, Nk, d).
        v: (B, H, Nk, e); e = d for CLIP and DIFF V2, 2d for DiffCLIP.
        scale: the factor on QK^T, d ** -0.5.
        mask: additive, (Nq, Nk) or broadcastable to (B, H, M, Nq, Nk), or None; the causal mask of a text tower.
        lam: lambda, broadcastable to (B, H, Nq, 1), or None for CLIP: one number a layer in DiffCLIP, one a head and
            query in DIFF V2.
        merge: (B, H, Nq, e) -> (B, Nq, D), what the module does after weights @ V.
        outputs: (B, H, Nq, e) -> the linear part of `merge`, one matrix a head, for the rows it is given.
        pooling: whether the queries are learned and are no tokens, as in an attention-pooling head.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    scale: float
    mask: Tensor | None
    lam: Tensor | None
    merge: Callable[[Tensor], Tensor]
    outputs: Callable[[Tensor], HeadOutputs]
    pooling: bool = False


def mix(projections: Projections, weights: Tensor) -> Tensor:
    """weights @ V (B, H, Nq, e) for attention weights (B, H, Nq, Nk)."""
    return weights.to(projections.v.dtype) @ projections.v


def reconstruct(projections: Projections, weights: Tensor) -> Tensor:
    """The module's output (B, Nq, D) for attention weights (B, H, Nq, Nk): merge(weights @ V)."""
    return projections.merge(mix(projections, weights))
