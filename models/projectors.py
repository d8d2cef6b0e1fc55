"""From an attention module and its input to Q, K and V: one short function a type of attention.

A module counts as known by the very `forward` that is reproduced here, so a subclass that computes something else is
refused and not misread.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch.nn.functional as F
from open_clip.transformer import Attention as OpenClipAttention
from open_clip.transformer import AttentionalPooler
from timm.layers.attention import Attention as TimmAttention
from timm.layers.attention_pool import AttentionPoolLatent
from timm.layers.diff_attention import DiffAttention as TimmDiffAttention
from torch import Tensor, nn

from models.diff_attention import DifferentialAttention
from models.diff_attention_v2 import DifferentialAttentionV2
from models.errors import UnsupportedAttentionError
from models.head_outputs import head_outputs
from models.projections import Projections


def project(module: nn.Module, x: Tensor, mask: Tensor | None = None) -> Projections:
    """Projections of the attention `module` for its input x (B, N, D) and an additive mask.

    Args:
        module: our two forms of differential attention, `nn.MultiheadAttention`, timm's `Attention`, `DiffAttention`
            and `AttentionPoolLatent`, or open_clip's `Attention` and `AttentionalPooler`.
        x: what the module is called with; of a pooling head, the tokens that it pools.
        mask: (Nq, Nk), or broadcastable to (B, H, M, Nq, Nk).

    Raises:
        UnsupportedAttentionError: the module is of another type, or uses an option that is not covered.
    """
    if isinstance(module, DifferentialAttention):
        return _differential(module, x, mask)
    if isinstance(module, DifferentialAttentionV2):
        return _differential_v2(module, x, mask)
    for kind, projector in _PROJECTORS.items():
        if isinstance(module, kind) and type(module).forward is kind.forward:
            return projector(module, x, mask)
    raise UnsupportedAttentionError(
        f"{type(module).__module__}.{type(module).__name__} is an attention module whose projections are not known: "
        f"use a model with {', '.join(_full_name(kind) for kind in _PROJECTORS)} or DifferentialAttention."
    )


def _full_name(kind: type) -> str:
    return f"{kind.__module__.split('.')[0]} {kind.__name__}"


def _split(x: Tensor, heads: int) -> Tensor:
    """(B, N, D) -> (B, H, N, d)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def _join(mixed: Tensor) -> Tensor:
    """(B, H, N, e) -> (B, N, H * e)."""
    return mixed.transpose(1, 2).flatten(2)


def _differential(module: DifferentialAttention, x: Tensor, mask: Tensor | None) -> Projections:
    q, k, v = module.project(x)
    outputs = partial(
        head_outputs, linear=module.out_proj, head_norm=module.diff_norm, head_factor=1.0 - module.lambda_init
    )
    return Projections(q, k, v, module.scale, mask, module.lam().view(1, 1, 1, 1), module.merge, outputs)


def _differential_v2(module: DifferentialAttentionV2, x: Tensor, mask: Tensor | None) -> Projections:
    """Both queries of a pair read one K, which is seen twice and held once."""
    q, k, v = module.project(x)
    outputs = partial(head_outputs, linear=module.out_proj)
    shared = k.unsqueeze(2).expand(-1, -1, 2, -1, -1)
    return Projections(q, shared, v, module.scale, mask, module.lam(x), module.merge, outputs)


def _multihead(module: nn.MultiheadAttention, x: Tensor, mask: Tensor | None) -> Projections:
    if not module._qkv_same_embed_dim:
        raise UnsupportedAttentionError(
            "nn.MultiheadAttention with separate key widths is not covered for self-attention: "
            "use one with one in_proj_weight."
        )
    parts = F.linear(x, module.in_proj_weight, module.in_proj_bias).chunk(3, -1)
    return _of_multihead(module, parts, mask, pooling=False)


def _pooler(module: AttentionalPooler, x: Tensor, mask: Tensor | None) -> Projections:
    attn = module.attn
    keys, queries = module.ln_k(x), module.ln_q(module.query).unsqueeze(0).expand(x.shape[0], -1, -1)
    weights = (
        attn.in_proj_weight.chunk(3)
        if attn._qkv_same_embed_dim
        else (attn.q_proj_weight, attn.k_proj_weight, attn.v_proj_weight)
    )
    biases = (None,) * 3 if attn.in_proj_bias is None else attn.in_proj_bias.chunk(3)
    parts = tuple(map(F.linear, (queries, keys, keys), weights, biases))
    return _of_multihead(attn, parts, mask, pooling=True)


def _of_multihead(
    module: nn.MultiheadAttention, parts: tuple[Tensor, ...], mask: Tensor | None, pooling: bool
) -> Projections:
    if module.bias_k is not None or module.add_zero_attn:
        raise UnsupportedAttentionError(
            "nn.MultiheadAttention with a key bias or zero attention attends to keys that are no tokens, which is not "
            "covered: build it without add_bias_kv and add_zero_attn."
        )
    q, k, v = (_split(part, module.num_heads) for part in parts)
    outputs = partial(head_outputs, linear=module.out_proj)
    scale = q.shape[-1] ** -0.5
    return Projections(
        q.unsqueeze(2), k.unsqueeze(2), v, scale, mask, None, lambda m: module.out_proj(_join(m)), outputs, pooling
    )


def _timm(module: TimmAttention, x: Tensor, mask: Tensor | None) -> Projections:
    if module.gate is not None:
        raise UnsupportedAttentionError("timm Attention with an output gate is not covered: use one without a gate.")
    q, k, v = (_split(part, module.num_heads) for part in module.qkv(x).chunk(3, -1))
    q, k = module.q_norm(q), module.k_norm(k)

    def merge(mixed: Tensor) -> Tensor:
        return module.proj_drop(module.proj(module.norm(_join(mixed))))

    outputs = partial(head_outputs, linear=module.proj, joint_norm=module.norm)
    return Projections(q.unsqueeze(2), k.unsqueeze(2), v, module.scale, mask, None, merge, outputs)


def _timm_differential(module: TimmDiffAttention, x: Tensor, mask: Tensor | None) -> Projections:
    """timm counts pairs; raw heads 2i and 2i + 1 make pair i, as in ours."""
    parts = module.qkv(x).chunk(3, -1)
    q, k = (_split(part, 2 * module.num_heads) for part in parts[:2])
    q, k = (norm(part).unflatten(1, (-1, 2)) for norm, part in ((module.q_norm, q), (module.k_norm, k)))
    v = _split(parts[2], module.num_heads)
    kept = 1 - module.lambda_init

    def merge(mixed: Tensor) -> Tensor:
        return module.proj_drop(module.proj(module.norm(_join(module.sub_norm(mixed) * kept))))

    # The module itself rounds lambda to the dtype of its queries.
    lam = module._compute_lambda().type_as(q).view(1, 1, 1, 1)
    outputs = partial(
        head_outputs, linear=module.proj, head_norm=module.sub_norm, head_factor=kept, joint_norm=module.norm
    )
    return Projections(q, k, v, module.scale, mask, lam, merge, outputs)


def _timm_pool(module: AttentionPoolLatent, x: Tensor, mask: Tensor | None) -> Projections:
    """One query or more that are learned; `merge` ends before the pooling over them, behind the MLP."""
    if not isinstance(module.proj, nn.Linear):
        raise UnsupportedAttentionError(
            "timm AttentionPoolLatent without an output projection is not covered: build it with out_features."
        )
    if module.pos_embed is not None:
        x = x + module.pos_embed.unsqueeze(0).to(x.dtype)
    q = _split(module.q(module.latent.expand(x.shape[0], -1, -1)), module.num_heads)
    k, v = (_split(part, module.num_heads) for part in module.kv(x).chunk(2, -1))
    q, k = module.q_norm(q), module.k_norm(k)

    def merge(mixed: Tensor) -> Tensor:
        out = module.proj_drop(module.proj(_join(mixed)))
        return out if module.mlp is None else out + module.mlp(module.norm(out))

    outputs = partial(head_outputs, linear=module.proj)
    return Projections(q.unsqueeze(2), k.unsqueeze(2), v, module.scale, mask, None, merge, outputs, pooling=True)


def _open_clip(module: OpenClipAttention, x: Tensor, mask: Tensor | None) -> Projections:
    if module.logit_scale is not None:
        raise UnsupportedAttentionError(
            "open_clip Attention with scaled cosine scores is not covered: use one without scaled_cosine."
        )
    q, k, v = (
        _split(part, module.num_heads) for part in F.linear(x, module.in_proj_weight, module.in_proj_bias).chunk(3, -1)
    )
    q, k = module.ln_q(q), module.ln_k(k)
    factor: Tensor | float = 1.0 if module.head_scale is None else module.head_scale

    def merge(mixed: Tensor) -> Tensor:
        return module.out_drop(module.out_proj(module.ln_inner(_join(mixed * factor))))

    outputs = partial(head_outputs, linear=module.out_proj, head_factor=factor, joint_norm=module.ln_inner)
    return Projections(q.unsqueeze(2), k.unsqueeze(2), v, module.scale, mask, None, merge, outputs)


_PROJECTORS: dict[type[nn.Module], Callable[[Any, Tensor, Tensor | None], Projections]] = {
    nn.MultiheadAttention: _multihead,
    TimmAttention: _timm,
    TimmDiffAttention: _timm_differential,
    AttentionPoolLatent: _timm_pool,
    OpenClipAttention: _open_clip,
    AttentionalPooler: _pooler,
}
