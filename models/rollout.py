"""Attention rollout: how much of each input token is in each token of the last layer, if attention were all there is.

Abnar and Zuidema, "Quantifying Attention Flow in Transformers" (ACL 2020): heads are fused, the residual branch counts
as half, rows are brought to a sum of 1, and the layers are multiplied with the later ones on the left. Rows of a sum of
sources, which sum to their number, are brought to 1 before the residual is added, so that it stays half. The MLP, the
norms, the size of the values and, in a differential head, the RMSNorm and (1 - lambda_init) are left out.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Literal

import torch
from torch import Tensor

from models.errors import StudioError, UndefinedMapError
from models.maps import AttentionMaps

Fusion = Literal["mean", "max", "min"]


def rollout(
    layers: Iterable[AttentionMaps],
    part: Literal["weights", "a1", "a2"] = "weights",
    heads: Fusion = "mean",
    start: int = 0,
) -> Tensor:
    """Rollout (B, N, N) of the maps of consecutive layers; row q holds the shares of the input tokens, summing to 1.

    Behind a pooling head, which may only come last, it is (B, Nq, N): the head has learned queries and no residual
    branch, and tokens that it is not given have a share only through the others.

    Args:
        layers: in the order in which they run, as `(attention_maps(p) for p in recording)`.
        part: the map of a differential head that is followed, "a1" or "a2"; "weights" is CLIP's only map.
        heads: how the heads of a layer become one map: their mean, or the largest or smallest entry.
        start: the first of `layers` that counts; the tokens that enter it stand for the input.

    Raises:
        UndefinedMapError: maps with negative entries, or a layer behind a pooling head.
        StudioError: an unknown way to fuse heads, or no layer at all.
    """
    if heads not in ("mean", "max", "min"):
        raise StudioError(f"Heads cannot be fused by {heads!r}: choose mean, max or min.")
    if start < 0:
        raise StudioError(f"Rollout cannot start at layer {start}: choose 0 or a later one.")
    total, pooled = None, False
    for maps in islice(layers, start, None):
        if pooled:
            raise UndefinedMapError("Rollout ends with a pooling head: give no layer behind it.")
        fused, pooled = _fuse(_not_negative(maps, part), heads), maps.pooling
        total = _pool(fused, total) if pooled else _step(fused, total)
    if total is None:
        raise StudioError(f"Rollout from layer {start} has no layer to follow: start earlier.")
    return total


def _not_negative(maps: AttentionMaps, part: Literal["weights", "a1", "a2"]) -> Tensor:
    if part not in ("weights", "a1", "a2"):
        raise UndefinedMapError(f"Rollout of {part!r} is unknown: choose weights, a1 or a2.")
    chosen = maps.part("weights" if maps.pooling else part)
    if (chosen is not maps.a1 and part == "weights") or bool((chosen < 0).any()):
        raise UndefinedMapError(
            "Rollout multiplies shares, and A1 - lambda A2 has negative entries and rows that do not sum to 1: "
            "choose a1 or a2, or look at the difference layer by layer."
        )
    return chosen


def _fuse(maps: Tensor, heads: Fusion) -> Tensor:
    """(B, H, Nq, Nk) -> (B, Nq, Nk), of rows that sum to 1; a row without mass, as of an ablated head, stays empty."""
    shares = maps / maps.sum(-1, keepdim=True).clamp(min=torch.finfo(maps.dtype).tiny)
    return shares.mean(1) if heads == "mean" else shares.amax(1) if heads == "max" else shares.amin(1)


def _step(fused: Tensor, total: Tensor | None) -> Tensor:
    identity = torch.eye(fused.shape[-1], dtype=fused.dtype, device=fused.device)
    mixed = 0.5 * fused + 0.5 * identity
    mixed = mixed / mixed.sum(-1, keepdim=True)
    return mixed if total is None else mixed @ total


def _pool(fused: Tensor, total: Tensor | None) -> Tensor:
    share = fused / fused.sum(-1, keepdim=True).clamp(min=torch.finfo(fused.dtype).tiny)
    # A head that pools patches alone is given the last tokens; what it is not given comes first.
    return share if total is None else share @ total[:, -fused.shape[-1] :]
