"""Q, K, V of a layer, worked out again from the input its attention module was given.

Today's fast attention kernels never hold the weights as a tensor, so there is nothing to hook; projecting the
module's own input with its own parameters is exact, and `reconstruct(projections, weights)` must give what the
module gave. One short function per attention type.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch.nn.functional as F
from timm.layers.attention import Attention as TimmAttention
from torch import Tensor, nn

from models.diff_attention import DifferentialAttention
from models.errors import UnsupportedAttentionError


@dataclass(frozen=True)
class Projections:
    """One layer, one batch: everything an attention map is made from.

    Attributes:
        q: (B, H, M, Nq, d); M = 1 for CLIP, 2 for DiffCLIP.
        k: (B, H, M, Nk, d).
        v: (B, H, Nk, e); e = d for CLIP, 2d for DiffCLIP.
        scale: the factor on QK^T, d ** -0.5.
        mask: (Nq, Nk) additive, or None; the causal mask of a text tower.
        lam: lambda, broadcastable to (B, H, Nq, 1), or None for CLIP.
        merge: (B, H, Nq, e) -> (B, Nq, D), what the module does after weights @ V.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    scale: float
    mask: Tensor | None
    lam: Tensor | None
    merge: Callable[[Tensor], Tensor]


def project(module: nn.Module, x: Tensor, mask: Tensor | None) -> Projections:
    """Projections of the attention `module` for its input x (B, N, D) and additive mask (N, N).

    Raises:
        UnsupportedAttentionError: the module is of another type, or uses an option that is not covered.
    """
    if isinstance(module, DifferentialAttention):
        return _differential(module, x, mask)
    if isinstance(module, nn.MultiheadAttention):
        return _multihead(module, x, mask)
    if isinstance(module, TimmAttention):
        return _timm(module, x, mask)
    raise UnsupportedAttentionError(
        f"{type(module).__module__}.{type(module).__name__} is an attention module whose projections are not known: "
        "use a model with nn.MultiheadAttention, timm Attention or DifferentialAttention."
    )


def reconstruct(projections: Projections, weights: Tensor) -> Tensor:
    """The module's output (B, Nq, D) for attention weights (B, H, Nq, Nk): merge(weights @ V)."""
    return projections.merge(weights.to(projections.v.dtype) @ projections.v)


def _differential(module: DifferentialAttention, x: Tensor, mask: Tensor | None) -> Projections:
    q, k, v = module.project(x)
    return Projections(q, k, v, module.scale, mask, module.lam().view(1, 1, 1, 1), module.merge)


def _split(x: Tensor, heads: int) -> Tensor:
    """(B, N, D) -> (B, H, N, d)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def _multihead(module: nn.MultiheadAttention, x: Tensor, mask: Tensor | None) -> Projections:
    if module.in_proj_weight is None or module.bias_k is not None or module.add_zero_attn:
        raise UnsupportedAttentionError(
            "nn.MultiheadAttention with separate key widths, key bias or zero attention is not covered: "
            "use self-attention with one in_proj_weight."
        )
    heads = module.num_heads
    q, k, v = (_split(part, heads) for part in F.linear(x, module.in_proj_weight, module.in_proj_bias).chunk(3, -1))

    def merge(mixed: Tensor) -> Tensor:
        return module.out_proj(mixed.transpose(1, 2).flatten(2))

    return Projections(q.unsqueeze(2), k.unsqueeze(2), v, q.shape[-1] ** -0.5, mask, None, merge)


def _timm(module: TimmAttention, x: Tensor, mask: Tensor | None) -> Projections:
    if getattr(module, "gate", None) is not None:
        raise UnsupportedAttentionError("timm Attention with an output gate is not covered: use one without a gate.")
    q, k, v = (_split(part, module.num_heads) for part in module.qkv(x).chunk(3, -1))
    q, k = module.q_norm(q), module.k_norm(k)

    def merge(mixed: Tensor) -> Tensor:
        return module.proj_drop(module.proj(module.norm(mixed.transpose(1, 2).flatten(2))))

    return Projections(q.unsqueeze(2), k.unsqueeze(2), v, module.scale, mask, None, merge)
