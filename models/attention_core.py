"""Differential attention between the projections and the head norm, and the table of its fastest forms.

Three forms give the same numbers. Which is the fastest depends on the device, the dtype and how much there is to do;
`PATHS` says which one is taken where. It was measured by benchmarks/attention.py, not while a model runs: the same
call takes the same form on every run.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from models.attention_walk import tiling, walk
from models.errors import StudioError

# Bytes of A1 and A2 of a tile, for each thread. Smaller tiles lose more to the calls than they win from the caches.
TILE_BYTES = 2**20


@dataclass(frozen=True)
class Explicit:
    """Both maps as tensors for the whole batch; autograd finds the gradient. The only form that has second ones."""


@dataclass(frozen=True)
class TwoCalls:
    """PyTorch's fused attention once for each map, with V of width 2d: no map is held, but A1 V and A2 V are made."""


@dataclass(frozen=True)
class Walk:
    """Tile by tile with a gradient written out, products in `matmul` or where it is None in the dtype of Q."""

    matmul: torch.dtype | None
    tile_bytes: int = TILE_BYTES


Path = Explicit | TwoCalls | Walk
Work = Literal["one tile", "tiles"]
Kind = Literal["cpu float32", "cpu float64", "cpu bfloat16", "cpu bfloat16 emulated", "cuda"]

# Measured on an AMD EPYC (Zen 3) with AVX2 and without bfloat16 instructions, PyTorch 2.14.1, one thread: see "paths"
# in benchmarks/results/attention.json. Two kinds were not met there, so they rest on reasons: "cpu bfloat16" (a
# processor that multiplies bfloat16) walks as float32 does, and "cuda" takes the kernels that hold no maps.
# Whatever is not in the table is explicit.
PATHS: dict[tuple[Kind, Work], Path] = {
    ("cpu float32", "one tile"): Explicit(),
    ("cpu float32", "tiles"): Walk(None),
    ("cpu float64", "one tile"): Explicit(),
    ("cpu float64", "tiles"): Walk(None),
    ("cpu bfloat16 emulated", "one tile"): Walk(torch.float32),
    ("cpu bfloat16 emulated", "tiles"): Walk(torch.float32),
    ("cpu bfloat16", "one tile"): Explicit(),
    ("cpu bfloat16", "tiles"): Walk(None),
    ("cuda", "one tile"): TwoCalls(),
    ("cuda", "tiles"): TwoCalls(),
}


@lru_cache
def multiplies_bfloat16() -> bool:
    """Whether this processor has instructions that multiply bfloat16 matrices; others emulate them, far slower."""
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def kind_of(device: torch.device, dtype: torch.dtype) -> Kind | None:
    """The rows of the table that a tensor of this device and dtype belongs to, None for those that are not in it."""
    if device.type == "cuda":
        return "cuda"
    if device.type != "cpu":
        return None
    if dtype == torch.bfloat16:
        return "cpu bfloat16" if multiplies_bfloat16() else "cpu bfloat16 emulated"
    kinds: dict[torch.dtype, Kind] = {torch.float32: "cpu float32", torch.float64: "cpu float64"}
    return kinds.get(dtype)


def path_for(q: Tensor, mask: Tensor | None) -> Path:
    """The form that the table names for q (B, H, 2, N, d); explicit where the mask wants a gradient.

    While torch.compile traces, the compiler cuts the explicit form itself, and a walk would break its graph.
    """
    kind = kind_of(q.device, q.dtype)
    if kind is None or (mask is not None and mask.requires_grad):
        return Explicit()
    if torch.compiler.is_compiling():
        return TwoCalls() if kind == "cuda" else Explicit()
    how = tiling(q, TILE_BYTES)
    whole = len(q) <= how.samples and q.shape[1] <= how.pairs
    return PATHS[kind, "one tile" if whole else "tiles"]


def differential_heads(
    q: Tensor, k: Tensor, v: Tensor, lam: Tensor, scale: float, mask: Tensor | None, path: Path
) -> Tensor:
    """(A1 - lambda A2) V, with A_i = softmax(scale Q_i K_i^T + mask): what each head pair gives before its norm.

    Q, K are (B, H, 2, N, d), V is (B, H, N, e), `lam` a scalar in float32 or wider, `mask` additive (N, N) or None; the
    result is (B, H, N, e), in V's dtype, from two calls in float32 or wider. The softmax, lambda and the difference
    are in float32 or wider in every form; the products in Q's dtype, but for a walk that says otherwise.

    Raises:
        StudioError: the mask is not a floating (N, N).
    """
    check_additive(mask, q.shape[-2])
    match path:
        case Explicit():
            return _explicit(q, k, v, lam, scale, mask)
        case TwoCalls():
            return _two_calls(q, k, v, lam, scale, mask)
        case Walk(matmul, tile_bytes):
            return walk(q, k, v, lam, scale, mask, matmul or q.dtype, tile_bytes)


def check_additive(mask: Tensor | None, tokens: int) -> None:
    """Refuse a mask that cannot be added to the scores of `tokens` queries and keys.

    Raises:
        StudioError: it is not a floating (N, N).
    """
    if mask is not None and (mask.shape != (tokens, tokens) or not mask.is_floating_point()):
        raise StudioError(
            f"The attention mask is {mask.dtype} of shape {tuple(mask.shape)}, but it is added to the scores of every "
            f"head: give a floating tensor of shape ({tokens}, {tokens}) with -inf where a key is hidden."
        )


def _explicit(q: Tensor, k: Tensor, v: Tensor, lam: Tensor, scale: float, mask: Tensor | None) -> Tensor:
    scores = (q * scale) @ k.transpose(-2, -1)
    if mask is not None:
        scores = scores + mask
    wide = torch.promote_types(scores.dtype, torch.float32)
    a1, a2 = torch.softmax(scores.to(wide), dim=-1).unbind(2)
    return (a1 - lam * a2).to(v.dtype) @ v


def _two_calls(q: Tensor, k: Tensor, v: Tensor, lam: Tensor, scale: float, mask: Tensor | None) -> Tensor:
    added = None if mask is None else mask.to(q.dtype)
    first, second = (
        F.scaled_dot_product_attention(qi, ki, v, attn_mask=added, scale=scale)
        for qi, ki in zip(q.unbind(2), k.unbind(2), strict=True)
    )
    wide = torch.promote_types(v.dtype, torch.float32)
    return first.to(wide) - lam * second.to(wide)
