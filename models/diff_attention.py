"""Differential attention as DiffCLIP uses it: A1 - lambda * A2 in the place of one softmax map.

Source of the formula: Ye et al., "Differential Transformer" (arXiv 2410.05258), and Hammoud and Ghanem, "DiffCLIP"
(arXiv 2503.06626), in the form of the published weights: heads 2i and 2i + 1 make pair i, V is not split (width 2d a
pair), one lambda a layer, an RMSNorm over each pair's output, then times (1 - lambda_init). Parameter names are the
published ones, so a published checkpoint fits as it is.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from models.attention_core import differential_heads, path_for
from models.errors import StudioError

LambdaInit = Callable[[int], float]


def constant_lambda(value: float) -> LambdaInit:
    """lambda_init of DiffCLIP: the same in every layer."""
    return lambda layer: value


def depth_lambda(layer: int) -> float:
    """lambda_init of DiffCLIP* and of the Differential Transformer: 0.8 - 0.6 exp(-0.3 l), l from 0."""
    return 0.8 - 0.6 * math.exp(-0.3 * layer)


def widen(x: Tensor) -> Tensor:
    """`x` in float32, or as it is where it is wider: softmax, lambda and norms are never computed in half precision."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def check_head_pairs(num_heads: int, width: int, where: str) -> None:
    """Heads are paired, so their number must be even, and must divide the width.

    Raises:
        StudioError: names `where` and the nearest counts that work.
    """
    if num_heads >= 2 and num_heads % 2 == 0 and width % num_heads == 0:
        return
    valid = [n for n in range(2, width + 1, 2) if width % n == 0]
    nearest = sorted(valid, key=lambda n: (abs(n - num_heads), n))[:2]
    raise StudioError(
        f"{where} has {num_heads} heads at width {width}, but differential attention pairs heads, so their number must "
        f"be even and divide the width: choose {' or '.join(map(str, sorted(nearest))) or 'another width'}."
    )


def check_self_attention(query: Tensor, key: Tensor, value: Tensor, need_weights: bool) -> None:
    """What differential attention cannot do behind the calling convention of `nn.MultiheadAttention`.

    Raises:
        StudioError: cross-attention, or weights are asked for.
    """
    if query is not key or key is not value:
        raise StudioError("Differential attention is self-attention: query, key and value must be one tensor.")
    if need_weights:
        raise StudioError("Differential attention returns no weights: use models.record() and attention_maps().")


class DifferentialAttention(nn.Module):
    """Self-attention with weights A1 - lambda * A2, called like timm's attention: x (B, N, D) -> (B, N, D).

    `num_heads` counts raw heads; they make num_heads / 2 pairs, H in the shapes below. Forward passes take the form
    that models/attention_core.py names for the device and dtype; whoever wants maps makes them from `project`.

    Raises:
        StudioError: a number of heads that is odd or does not divide `dim`.
    """

    def __init__(self, dim: int, num_heads: int, lambda_init: float = 0.8, bias: bool = True) -> None:
        super().__init__()
        check_head_pairs(num_heads, dim, "The attention")
        self.num_heads = num_heads
        self.pairs = num_heads // 2
        self.head_width = dim // num_heads
        self.scale = self.head_width**-0.5
        self.lambda_init = lambda_init
        self.q_proj = nn.Linear(dim, dim, bias=bias)
        self.k_proj = nn.Linear(dim, dim, bias=bias)
        self.v_proj = nn.Linear(dim, dim, bias=bias)
        self.out_proj = nn.Linear(dim, dim, bias=bias)
        self.diff_norm = nn.RMSNorm(2 * self.head_width, eps=1e-5)
        self.lambda_q1, self.lambda_k1, self.lambda_q2, self.lambda_k2 = (
            nn.Parameter(torch.empty(self.head_width).normal_(0.0, 0.1)) for _ in range(4)
        )

    def lambda_terms(self) -> tuple[Tensor, Tensor]:
        """The two exponential terms of lambda, exp(q1 . k1) and exp(q2 . k2), in float32 or wider."""
        q1, k1, q2, k2 = map(widen, (self.lambda_q1, self.lambda_k1, self.lambda_q2, self.lambda_k2))
        return torch.exp((q1 * k1).sum()), torch.exp((q2 * k2).sum())

    def lam(self) -> Tensor:
        """lambda = exp(q1 . k1) - exp(q2 . k2) + lambda_init, a scalar in float32 or wider."""
        first, second = self.lambda_terms()
        return first - second + self.lambda_init

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Q, K (B, H, 2, N, d) and V (B, H, N, 2d) of the input x (B, N, D)."""
        batch, tokens, _ = x.shape
        pairs = (batch, tokens, self.pairs, 2, self.head_width)
        q = self.q_proj(x).view(pairs).permute(0, 2, 3, 1, 4)
        k = self.k_proj(x).view(pairs).permute(0, 2, 3, 1, 4)
        v = self.v_proj(x).view(batch, tokens, self.pairs, 2 * self.head_width).transpose(1, 2)
        return q, k, v

    def merge(self, heads: Tensor) -> Tensor:
        """What follows the weighted sum of V: head RMSNorm, (1 - lambda_init), concatenation, output projection.

        `heads` is (B, H, N, 2d), the result (B, N, D).
        """
        normed = self.diff_norm(widen(heads.transpose(1, 2))) * (1.0 - self.lambda_init)
        return self.out_proj(normed.flatten(2).to(self.out_proj.weight.dtype))

    def attend(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        """The forward pass: x (B, N, D) and an additive mask (N, N) or None -> (B, N, D).

        Raises:
            StudioError: the mask is not a floating (N, N).
        """
        q, k, v = self.project(x)
        return self.merge(differential_heads(q, k, v, self.lam(), self.scale, attn_mask, path_for(q, attn_mask)))

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        """x (B, N, D) -> (B, N, D), the calling convention of timm's attention.

        Raises:
            StudioError: `is_causal`, which timm's image blocks never set; give the mask.
        """
        if is_causal:
            raise StudioError("Differential attention takes its causal mask as attn_mask, not as is_causal=True.")
        return self.attend(x, attn_mask)


class DifferentialMultiheadAttention(DifferentialAttention):
    """The same module behind the calling convention of `nn.MultiheadAttention` in open_clip's blocks."""

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        need_weights: bool = False,
        attn_mask: Tensor | None = None,
    ) -> tuple[Tensor, None]:
        """query = key = value = x (B, N, D) -> ((B, N, D), None).

        Raises:
            StudioError: cross-attention, or weights are asked for: record() gives the maps.
        """
        check_self_attention(query, key, value, need_weights)
        return self.attend(query, attn_mask), None
