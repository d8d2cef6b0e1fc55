"""What turns a row of attention scores into weights: one dial from softmax to sparsemax.

alpha-entmax (Peters, Niculae and Martins, ACL 2019) is the family with `p_i = [(alpha - 1) s_i - tau]_+ ** (1 /
(alpha - 1))`, tau such that the row sums to 1. alpha = 1 is softmax, alpha = 2 sparsemax (Martins and Astudillo,
ICML 2016); above 1, scores that are low enough get a weight of exactly zero.

Everything is computed in float32 or wider, whatever the dtype of the scores: in half precision the row sums of
entmax miss 1 by more than one part in a hundred. Keys masked with -inf get exactly zero; a row in which every
key is masked is all zeros, for every alpha.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from models.errors import StudioError

# Below this distance to alpha = 1 the exponent 1 / (alpha - 1) is so large that float32 loses the row sum.
_NEEDS_FLOAT64 = 0.1
_MAX_STEPS = 60


@dataclass(frozen=True)
class Normalizer:
    """Scores -> weights by alpha-entmax along the last axis; `alpha` from 1 (softmax) to 2 (sparsemax).

    Raises:
        StudioError: alpha outside [1, 2] or not a number.
    """

    alpha: float = 1.0

    def __post_init__(self) -> None:
        if not 1.0 <= self.alpha <= 2.0:
            raise StudioError(
                f"alpha = {self.alpha} is outside [1, 2]: 1 is softmax, 1.5 is entmax, 2 is sparsemax; choose between."
            )

    def __call__(self, scores: Tensor) -> Tensor:
        """Weights of `scores` (..., Nq, Nk): same shape, float32 (float64 for float64), rows sum to 1."""
        wide = scores if scores.dtype == torch.float64 else scores.float()
        blocked = torch.isneginf(wide).all(dim=-1, keepdim=True)
        # A finite stand-in keeps rows without any key from becoming NaN in value and in gradient.
        wide = wide.masked_fill(blocked, 0.0)
        weights = torch.softmax(wide, dim=-1) if self.alpha == 1.0 else _Entmax.apply(wide, self.alpha)
        assert isinstance(weights, Tensor)
        return weights.masked_fill(blocked, 0.0)


class _Entmax(torch.autograd.Function):
    """alpha-entmax with Newton's method for tau and the closed form of the gradient."""

    @staticmethod
    def forward(ctx, scores: Tensor, alpha: float) -> Tensor:  # type: ignore[override]
        weights = _solve(scores, alpha)
        ctx.alpha = alpha
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, None]:
        """dL/ds = g * dL/dp - g (g . dL/dp) / sum(g), with g = p ** (2 - alpha) on the support (Peters et al.)."""
        (weights,) = ctx.saved_tensors
        slope = torch.where(weights > 0, weights ** (2.0 - ctx.alpha), torch.zeros_like(weights))
        mean = (slope * grads[0]).sum(-1, keepdim=True) / slope.sum(-1, keepdim=True)
        return slope * (grads[0] - mean), None


def _solve(scores: Tensor, alpha: float) -> Tensor:
    """alpha-entmax of finite-or-minus-infinity scores, each row with at least one finite entry.

    f(tau) = sum(p(tau)) - 1 is convex and falls; at tau = -1, with the scores shifted to a maximum of 0, it is not
    negative. Newton's method from there climbs to the root from the left and never passes it.
    """
    wide = scores.double() if alpha - 1.0 < _NEEDS_FLOAT64 else scores
    z = (wide - wide.amax(dim=-1, keepdim=True)) * (alpha - 1.0)
    power = 1.0 / (alpha - 1.0)
    tau = torch.full_like(z[..., :1], -1.0)
    tolerance = 4 * torch.finfo(z.dtype).eps
    for _ in range(_MAX_STEPS):
        base = (z - tau).clamp_(min=0)
        weights = base**power
        excess = weights.sum(-1, keepdim=True) - 1.0
        if bool((excess <= tolerance).all()):
            break
        slope = torch.where(base > 0, base ** (power - 1.0), torch.zeros_like(base)).sum(-1, keepdim=True) * power
        tau = tau + excess.clamp(min=0) / slope
    weights = (z - tau).clamp_(min=0) ** power
    return (weights / weights.sum(-1, keepdim=True)).to(scores.dtype)
