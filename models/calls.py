"""How attention modules are called and how they answer: the conventions of each type, in one place.

Every type takes the same three things, tokens, a mask and whether attention is causal, under other names, in other
places and with other meanings: True blocks a key for `nn.MultiheadAttention` and allows it for timm.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from open_clip.transformer import Attention as OpenClipAttention
from timm.layers.attention_pool import AttentionPoolLatent
from torch import Tensor, nn

from models.errors import UnsupportedAttentionError


@dataclass(frozen=True)
class Call:
    """What an attention module was given.

    Attributes:
        x: the tokens (B, N, D).
        mask: additive, (Nq, Nk) or broadcastable to (B, H, M, Nq, Nk), or None.
    """

    x: Tensor
    mask: Tensor | None


def read_call(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
    """The tokens and the additive mask that `module` is called with, whatever its convention.

    Raises:
        UnsupportedAttentionError: cross-attention, a padding mask, rotated positions, or tokens without a batch axis.
    """
    given = _signature(type(module).forward).bind(module, *args, **kwargs).arguments
    given.pop("self", None)
    x = given.get("query", given.get("x", next(iter(given.values()), None)))
    kind = type(module).__name__
    if not isinstance(x, Tensor) or x.dim() != 3:
        raise UnsupportedAttentionError(
            f"{kind} was called with {_described(x)}: its first argument must be tokens (batch, N, width)."
        )
    if any(given.get(name, x) is not x for name in ("key", "value")):
        raise UnsupportedAttentionError(
            f"{kind} was called with keys or values other than its queries: only self-attention is covered."
        )
    for name in ("key_padding_mask", "rope"):
        if given.get(name) is not None:
            raise UnsupportedAttentionError(f"{kind} was called with {name}, which is not covered: call it without.")
    first = getattr(module, "batch_first", True)
    x = x if first else x.transpose(0, 1)
    return Call(x, _additive(module, x, given.get("attn_mask"), bool(given.get("is_causal", False))))


def tensor_of(module: nn.Module, output: Any) -> Tensor:
    """The answer of `module` as one tensor with the batch in front: (B, Nq, D), or (B, D) of a head that pools."""
    out = output[0] if isinstance(output, tuple) else output
    return out if getattr(module, "batch_first", True) else out.transpose(0, 1)


def pooled(module: nn.Module, merged: Tensor) -> Tensor:
    """What `tensor_of` gives for `merged` (B, Nq, D): a pooling head keeps its first query, or their mean."""
    if isinstance(module, AttentionPoolLatent) and module.pool in ("token", "avg"):
        return merged[:, 0] if module.pool == "token" else merged.mean(1)
    return merged


def answer(module: nn.Module, merged: Tensor, output: Any) -> Any:
    """`merged` (B, Nq, D) in the form in which `module` gave `output`: pooled, sequence first, or one of a pair."""
    out = pooled(module, merged)
    out = out if getattr(module, "batch_first", True) else out.transpose(0, 1)
    out = out.to(tensor_of(module, output).dtype)
    return (out, *output[1:]) if isinstance(output, tuple) else out


def _additive(module: nn.Module, x: Tensor, mask: Tensor | None, causal: bool) -> Tensor | None:
    if mask is None:
        tokens = x.shape[1]
        return torch.full((tokens, tokens), float("-inf"), dtype=x.dtype, device=x.device).triu(1) if causal else None
    torch_style = isinstance(module, (nn.MultiheadAttention, OpenClipAttention))
    if mask.dtype == torch.bool:
        blocked = mask if torch_style else ~mask
        mask = torch.zeros(mask.shape, dtype=x.dtype, device=x.device).masked_fill(blocked, float("-inf"))
    if mask.dim() == 2:
        return mask
    if mask.dim() == 3 and torch_style:
        mask = mask.unflatten(0, (x.shape[0], -1))
    return mask.reshape((1,) * (4 - mask.dim()) + mask.shape).unsqueeze(2)


@lru_cache(maxsize=64)
def _signature(forward: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(forward)


def _described(value: object) -> str:
    return f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
