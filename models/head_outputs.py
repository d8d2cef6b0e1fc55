"""What an attention module does after `weights @ V`, written as one matrix a head.

Between the weighted sum of V and the output projection stand norms, gains and factors. Given the size of each row,
which the norms divide by, all of it is linear, so the output is a sum over heads and keys, and one may ask what each
of them put in (Kobayashi et al., "Attention is Not Only a Weight", EMNLP 2020).
"""

from dataclasses import dataclass

import torch
from timm.layers.norm import RmsNorm, RmsNormFp32
from torch import Tensor, nn

from models.diff_attention import widen
from models.errors import UndefinedMapError

_RMS_NORMS = (nn.RMSNorm, RmsNorm, RmsNormFp32)


@dataclass(frozen=True)
class HeadOutputs:
    """output[i] = bias + sum over heads h of row_scale[h, i] * mixed[h, i] @ weight[h], exactly.

    Attributes:
        weight: (H, e, D), gains and factors folded into the output projection.
        bias: (D,), or None.
        row_scale: (B, H or 1, Nq, 1), what the norms multiply a row with; depends on the row.
    """

    weight: Tensor
    bias: Tensor | None
    row_scale: Tensor


def head_outputs(
    mixed: Tensor,
    linear: nn.Linear,
    head_norm: nn.Module | None = None,
    head_factor: Tensor | float = 1.0,
    joint_norm: nn.Module | None = None,
) -> HeadOutputs:
    """The chain head norm, factor, concatenation, joint norm, linear, as `HeadOutputs` for `mixed` (B, H, Nq, e).

    Args:
        mixed: weights @ V, whose rows set what the norms divide by.
        linear: the output projection, D_concat -> D.
        head_norm: a norm over the e channels of each head, or None.
        head_factor: a number, or (H, 1, 1), that multiplies each head's rows.
        joint_norm: a norm over the concatenated heads, or None.

    Raises:
        UndefinedMapError: a norm that is not linear given the size of its row, or is not known.
    """
    heads, width = mixed.shape[1], mixed.shape[3]
    mixed = widen(mixed)
    gain, scale = _scale(head_norm, mixed)
    factor = torch.as_tensor(head_factor, dtype=mixed.dtype, device=mixed.device)
    rows = mixed * scale * gain * factor
    weight, bias = widen(linear.weight).T, None if linear.bias is None else widen(linear.bias)
    joint_gain, joint_scale = _scale(joint_norm, rows.transpose(1, 2).flatten(2))
    if isinstance(joint_norm, nn.LayerNorm):
        offset = 0.0 if joint_norm.bias is None else widen(joint_norm.bias) @ weight
        bias = offset if bias is None else bias + offset
        # A LayerNorm takes the mean over channels off each row; on the matrix it is the mean over its rows.
        weight = joint_gain.unsqueeze(-1) * weight
        weight = weight - weight.mean(0, keepdim=True)
    else:
        weight = joint_gain.unsqueeze(-1) * weight
    per_head = factor * gain.unsqueeze(-1) * weight.unflatten(0, (heads, width))
    return HeadOutputs(per_head, bias if isinstance(bias, Tensor) else None, scale * joint_scale.unsqueeze(1))


def _scale(norm: nn.Module | None, rows: Tensor) -> tuple[Tensor, Tensor]:
    """(gain of each channel, what each row is multiplied with (..., 1)) of a norm over the last axis."""
    if norm is None or isinstance(norm, nn.Identity):
        return rows.new_ones(rows.shape[-1]), rows.new_ones((*rows.shape[:-1], 1))
    if isinstance(norm, nn.LayerNorm):
        spread = rows.var(-1, keepdim=True, correction=0)
    elif isinstance(norm, _RMS_NORMS):
        spread = rows.square().mean(-1, keepdim=True)
    else:
        raise UndefinedMapError(
            f"What each key puts into the output is not known behind a {type(norm).__name__}: "
            "LayerNorm and RMSNorm are; look at the attention weights instead."
        )
    eps = torch.finfo(rows.dtype).eps if norm.eps is None else norm.eps
    gain = rows.new_ones(rows.shape[-1]) if norm.weight is None else widen(norm.weight)
    return gain, torch.rsqrt(spread + eps)
