"""DIFF V2: differential attention with shared keys and values, and a lambda for every token and head.

Source of the formula: the authors' second version of the Differential Transformer (microsoft/unilm,
Diff-Transformer/Diff-Transformer-V2), without its rotary positions. Beside attention with H heads of width d it has
2H heads of queries, of which 2i and 2i + 1 make pair i and read one K and one V of width d:

    head i = A1 V - sigmoid(x w_i) A2 V

There is no RMSNorm, no (1 - lambda_init) and no lambda vector, and both maps come from one call of ordinary attention.

Parameters. Keys, values and output projection are as large as in standard attention of the same width and heads, the
queries twice as large, so a layer has 5 D^2 + H D weights where standard and DiffCLIP's attention have 4 D^2: of a
transformer block with an MLP of four times the width it is 8 % more. With lambda at 0 it is standard attention of the
even queries, exactly.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.attention_core import check_additive
from models.diff_attention import check_self_attention, widen
from models.errors import StudioError


class DifferentialAttentionV2(nn.Module):
    """Self-attention with weights A1 - lambda * A2, called like timm's attention: x (B, N, D) -> (B, N, D).

    `num_heads` is H, the heads after pairing; `q_proj` makes 2H of them. `lambda_proj` starts at zero, so that every
    lambda starts at 1/2.

    Raises:
        StudioError: a number of heads that does not divide `dim`.
    """

    def __init__(self, dim: int, num_heads: int, bias: bool = True) -> None:
        super().__init__()
        if num_heads < 1 or dim % num_heads:
            raise StudioError(
                f"The attention has {num_heads} heads at width {dim}: choose a number of heads that divides the width."
            )
        self.num_heads = num_heads
        self.head_width = dim // num_heads
        self.scale = self.head_width**-0.5
        self.q_proj = nn.Linear(dim, 2 * dim, bias=bias)
        self.k_proj = nn.Linear(dim, dim, bias=bias)
        self.v_proj = nn.Linear(dim, dim, bias=bias)
        self.out_proj = nn.Linear(dim, dim, bias=bias)
        self.lambda_proj = nn.Linear(dim, num_heads, bias=False)
        nn.init.zeros_(self.lambda_proj.weight)

    def lam(self, x: Tensor) -> Tensor:
        """lambda = sigmoid(x w) of each head and query (B, H, N, 1), between 0 and 1, in float32 or wider."""
        with torch.autocast(x.device.type, enabled=False):
            logits = F.linear(widen(x), widen(self.lambda_proj.weight))
        return torch.sigmoid(logits).transpose(1, 2).unsqueeze(-1)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Q (B, H, 2, N, d), and K and V (B, H, N, d) that both members of a pair share, of the input x (B, N, D)."""
        q = self.q_proj(x).unflatten(-1, (self.num_heads, 2, self.head_width)).permute(0, 2, 3, 1, 4)
        k, v = (
            linear(x).unflatten(-1, (self.num_heads, self.head_width)).transpose(1, 2)
            for linear in (self.k_proj, self.v_proj)
        )
        return q, k, v

    def merge(self, heads: Tensor) -> Tensor:
        """What follows the weighted sum of V: concatenation and output projection; (B, H, N, d) -> (B, N, D)."""
        return self.out_proj(heads.transpose(1, 2).flatten(2).to(self.out_proj.weight.dtype))

    def attend(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        """The forward pass: x (B, N, D) and an additive mask (N, N) or None -> (B, N, D).

        The queries of a pair stand one behind the other, 2N of them, so that K and V are read once and not repeated.

        Raises:
            StudioError: the mask is not a floating (N, N).
        """
        check_additive(attn_mask, x.shape[1])
        q, k, v = self.project(x)
        mask = None if attn_mask is None else attn_mask.to(q.dtype).repeat(2, 1)
        both = F.scaled_dot_product_attention(q.flatten(2, 3), k, v, attn_mask=mask, scale=self.scale)
        first, second = widen(both).unflatten(2, (2, -1)).unbind(2)
        return self.merge(first - self.lam(x) * second)

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        """x (B, N, D) -> (B, N, D), the calling convention of timm's attention.

        Raises:
            StudioError: `is_causal`, which timm's image blocks never set; give the mask.
        """
        if is_causal:
            raise StudioError("Differential attention takes its causal mask as attn_mask, not as is_causal=True.")
        return self.attend(x, attn_mask)


class DifferentialMultiheadAttentionV2(DifferentialAttentionV2):
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
