"""What turns a row of attention scores into weights: one dial from softmax to sparsemax.

alpha-entmax (Peters, Niculae and Martins, ACL 2019) is the family with `p_i = [1 + (alpha - 1)(s_i - t)]_+ ** (1 /
(alpha - 1))`, t such that the row sums to 1. alpha = 1 is softmax, alpha = 2 sparsemax (Martins and Astudillo,
ICML 2016); above 1, scores that are low enough get a weight of exactly zero.

The solver is Newton's method from t = max(s), which is tau = max - 1 in the paper's letters. It looks for the root not
of sum(p) - 1 but of sum(p) ** (alpha - 1) - 1: the base of a p-norm, so convex as well, but nearly straight. Two steps
do near softmax and four at 1.5, from the left and never past the root.

Everything is computed in float32 or wider, whatever the dtype of the scores: in half precision the row sums of
entmax miss 1 by more than one part in a hundred. Keys masked with -inf get exactly zero; a row in which every
key is masked is all zeros, for every alpha. A row that holds NaN or +inf is all NaN.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from models.errors import StudioError

# The gradient with respect to alpha has terms in 1 / (alpha - 1) ** 2, which cancel; nearer to 1 too little is left.
LOWEST_LEARNABLE_ALPHA = 1.001
# Rows are solved this many entries at a time: few enough for the cache, enough to hide what a call costs.
_CHUNK = 2**19
_MAX_STEPS = 60
# Whether rows are done is asked from this step on, and on an accelerator, which has to wait for the answer, seldom.
_FIRST_QUESTION = 3
_STEPS_BETWEEN_QUESTIONS = 4
# Rows that are left go on alone when they are fewer than this share: copying them costs as much as a step.
_FEW = 0.15
# Up to this size, scores are shifted by their maximum and by a constant at once, which rounds the sum of both.
_SMALL_SCORE = 32.0
_LOG2_E = 1.4426950408889634


def entmax(scores: Tensor, alpha: float | Tensor) -> Tensor:
    """Weights of `scores` (..., Nk) along the last axis: same shape, float32 (float64 for float64), rows sum to 1.

    Args:
        scores: -inf masks a key.
        alpha: one number from 1 to 2, or a tensor of them that broadcasts to (..., 1): (H, 1, 1) is one a head of
            (B, H, Nq, Nk). A tensor that requires a gradient gets one (Correia, Niculae and Martins, EMNLP 2019).

    Raises:
        StudioError: alpha outside [1, 2], not a number, of a shape that does not fit the rows, or to be learned at
            a value below 1.001, where softmax has no gradient with respect to alpha.
    """
    check_alpha(alpha)
    wide = scores if scores.dtype == torch.float64 else scores.float()
    exponent = alpha.to(scores.device) if isinstance(alpha, Tensor) else torch.tensor(float(alpha), dtype=torch.float64)
    rows = (*scores.shape[:-1], 1)
    if not _broadcasts(exponent.shape, rows):
        raise StudioError(
            f"alpha of shape {tuple(exponent.shape)} does not fit scores of shape {tuple(scores.shape)}: it must "
            "broadcast to one number a row; give (H, 1, 1) for one a head."
        )
    return cast(Tensor, _Entmax.apply(wide, exponent))


@dataclass(frozen=True, eq=False)
class Normalizer:
    """Scores -> weights by `entmax` along the last axis; `alpha` from 1 (softmax) to 2 (sparsemax), or one a head.

    Two normalizers are equal if they hold the same number, or the very same tensor.

    Raises:
        StudioError: alpha outside [1, 2] or not a number.
    """

    alpha: float | Tensor = 1.0

    def __post_init__(self) -> None:
        check_alpha(self.alpha)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Normalizer) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __call__(self, scores: Tensor) -> Tensor:
        """Weights of `scores` (..., Nk): same shape, float32 (float64 for float64), rows sum to 1."""
        return entmax(scores, self.alpha)

    def _identity(self) -> tuple[str, float]:
        return ("tensor", id(self.alpha)) if isinstance(self.alpha, Tensor) else ("number", self.alpha)


def bounded_alpha(free: Tensor) -> Tensor:
    """An alpha that can be learned, from any real numbers: 1.001 + 0.999 sigmoid(free), which is about 1.5 at 0."""
    span = 2.0 - LOWEST_LEARNABLE_ALPHA
    return (LOWEST_LEARNABLE_ALPHA + span * torch.sigmoid(free)).clamp(max=2.0)


def check_alpha(alpha: float | Tensor) -> None:
    """Refuses what is no alpha.

    Raises:
        StudioError: a value outside [1, 2] or not a number; a value below 1.001 that requires a gradient.
    """
    if not isinstance(alpha, (Real, Tensor)) or (isinstance(alpha, Tensor) and alpha.numel() == 0):
        raise StudioError(f"alpha = {alpha!r} is not a number: give one from 1 (softmax) to 2 (sparsemax).")
    low, high = alpha.detach().aminmax() if isinstance(alpha, Tensor) else (alpha, alpha)
    if not (low >= 1.0 and high <= 2.0):
        wrong = low if not low >= 1.0 else high
        raise StudioError(
            f"alpha = {float(wrong):g} is outside [1, 2]: 1 is softmax, 1.5 is entmax, 2 is sparsemax; choose between."
        )
    if isinstance(alpha, Tensor) and alpha.requires_grad and float(low) < LOWEST_LEARNABLE_ALPHA:
        raise StudioError(
            f"alpha = {float(low):.7g} cannot be learned: the gradient with respect to alpha is defined from "
            f"{LOWEST_LEARNABLE_ALPHA} up and softmax has none; keep it above, as bounded_alpha does, or detach it."
        )


def _broadcasts(shape: tuple[int, ...], rows: tuple[int, ...]) -> bool:
    """Whether a tensor of `shape` broadcasts to `rows` without making them more."""
    missing = len(rows) - len(shape)
    return missing >= 0 and all(own in (1, row) for own, row in zip(shape, rows[missing:], strict=True))


_Step = Callable[[Tensor, float | Tensor, Tensor], Tensor]


class _Entmax(torch.autograd.Function):
    """alpha-entmax with the closed forms of both gradients."""

    @staticmethod
    def forward(ctx, scores: Tensor, alpha: Tensor) -> Tensor:  # type: ignore[override]
        weights = _solve(scores, alpha)
        ctx.save_for_backward(weights, alpha)
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """dL/ds = g * dL/dp - g (g . dL/dp) / sum(g), with g = p ** (2 - alpha) on the support (Peters et al.)."""
        weights, alpha = ctx.saved_tensors
        of_scores = of_alpha = None
        if ctx.needs_input_grad[0]:
            power = 2.0 - alpha.item() if alpha.numel() == 1 else (2.0 - alpha.double()).to(weights)
            slope = (weights**power).masked_fill_(weights == 0, 0.0)
            mean = (slope * grads[0]).sum(-1, keepdim=True) / _positive(slope.sum(-1, keepdim=True))
            of_scores = (grads[0] - mean).mul_(slope)
        if ctx.needs_input_grad[1]:
            of_rows = (_slope_in_alpha(weights, alpha) * grads[0]).sum(-1, keepdim=True)
            of_alpha = of_rows.sum_to_size(alpha.shape).to(alpha.dtype)
        return of_scores, of_alpha


def _slope_in_alpha(weights: Tensor, alpha: Tensor) -> Tensor:
    """dp/d alpha (..., Nk), float64 (Correia et al., proposition 1): with e = alpha - 1, h_i = -p_i log p_i and
    g = p ** (1 - e) by its sum, (p_i - g_i) / e ** 2 + (h_i - g_i sum(h)) / e.

    The first difference is written with expm1(-e log p), for near alpha = 1 the two terms nearly cancel.
    """
    excess = alpha.double() - 1.0
    p = weights.double()
    p = p / _positive(p.sum(-1, keepdim=True))
    present = p > 0
    log = torch.where(present, p, 1.0).log()
    raised = p * torch.expm1(-excess * log)
    total = 1.0 + raised.sum(-1, keepdim=True)
    entropy = -p * log
    share = (p + raised) / total
    first = (p * (total - 1.0) - raised) / total / excess**2
    return (first + (entropy - share * entropy.sum(-1, keepdim=True)) / excess) * present


def _positive(sums: Tensor) -> Tensor:
    """Non-negative sums to divide by: those of rows without a key, which are 0, made positive."""
    return sums.clamp(min=torch.finfo(sums.dtype).tiny)


def _solve(scores: Tensor, alpha: Tensor) -> Tensor:
    """alpha-entmax of scores (..., Nk) in float32 or float64, walked in chunks of rows."""
    weights = torch.empty(scores.shape, dtype=scores.dtype, device=scores.device)
    if scores.numel() == 0:
        return weights
    keys = scores.shape[-1]
    flat, out = scores.reshape(-1, keys), weights.view(-1, keys)
    excess = alpha.item() - 1.0 if alpha.numel() == 1 else alpha.double() - 1.0
    if isinstance(excess, Tensor):
        excess = excess.expand(*scores.shape[:-1], 1).reshape(-1, 1)
    size = max(1, _CHUNK // keys) if scores.device.type == "cpu" else len(flat)
    for start in range(0, len(flat), size):
        rows = slice(start, start + size)
        _solve_rows(flat[rows], excess[rows] if isinstance(excess, Tensor) else excess, out[rows])
    return weights


def _solve_rows(scores: Tensor, excess: float | Tensor, out: Tensor) -> None:
    """Weights of rows (rows, Nk) in `out`; `excess` is alpha - 1, for all rows or (rows, 1)."""
    top = scores.amax(-1, keepdim=True)
    # One number tells whether every row has a key and none NaN or +inf; such rows are solved as if all keys were equal.
    largest = float(top.abs().max())
    usual = math.isfinite(largest)
    highest = top if usual else top.masked_fill(~top.isfinite(), 0.0)
    scores = scores if usual else scores.masked_fill(~top.isfinite(), 0.0)
    if isinstance(excess, float) and excess == 0.5 and largest <= _SMALL_SCORE:
        # A pass less: the maximum's rounding moves only where t starts, and the solution makes good for it.
        _newton(_square_step, torch.sub(scores, highest - 2.0, out=out).relu_(), 0.0, 1.0, out)
        out.square_()
    else:
        _solve_shifted(torch.sub(scores, highest, out=out), excess, out)
    out.div_(out.sum(-1, keepdim=True))
    if not usual:
        out.masked_fill_(top.isneginf(), 0.0).masked_fill_(top.isnan() | top.isposinf(), torch.nan)


def _solve_shifted(shifted: Tensor, excess: float | Tensor, out: Tensor) -> None:
    """The same, up to a factor for each row, of rows with a maximum of 0, which may be `out` itself."""
    if isinstance(excess, Tensor):
        soft = (excess == 0.0).squeeze(-1)
        exponentials = shifted[soft].exp_()
        excess = excess.masked_fill(excess == 0.0, 1.0).to(out)
        _newton(_power_step, shifted.mul(excess).clamp_(min=-1.0), -1.0, excess, out)
        out[soft] = exponentials
    elif excess == 0.0:
        torch.exp(shifted, out=out)
    elif excess == 0.5:
        _newton(_square_step, shifted.add_(2.0).relu_(), 0.0, 1.0, out)
        out.square_()
    elif excess == 1.0:
        _newton(_linear_step, shifted.add_(1.0).relu_(), 0.0, 1.0, out)
    else:
        _newton(_power_step, shifted.mul(excess).clamp_(min=-1.0), -1.0, excess, out)


def _newton(step: _Step, bases: Tensor, floor: float, unit: float | Tensor, out: Tensor) -> None:
    """Lowers `bases` (rows, Nk) in place, each row by its t and no entry below `floor`, until the weights sum to 1.

    What the floor has caught stays caught, for t only grows; so a step starts from where the last one ended.
    `step(bases, unit, out)` says how far to lower and leaves its weights in `out`; t is counted in `unit` (alpha - 1,
    if bases are), and an error of t is at most an error of the same size in a weight, whatever alpha is.
    """
    close = _close_enough(step, unit, bases)
    every = 1 if bases.device.type == "cpu" else _STEPS_BETWEEN_QUESTIONS
    for taken in range(1, _MAX_STEPS + 1):
        advance = step(bases, unit, out)
        if taken < _FIRST_QUESTION or taken % every:
            bases.sub_(advance.relu_()).clamp_(min=floor)
            continue
        going = advance > close
        count = int(going.sum())
        if count == 0 and out is not bases:
            return
        bases.sub_(advance.relu_()).clamp_(min=floor)
        if count == 0:
            return
        if count <= len(bases) * _FEW:
            few = going.squeeze(-1).nonzero().squeeze(-1)
            left = bases.index_select(0, few)
            found = left if out is bases else torch.empty_like(left)
            _newton(step, left, floor, unit.index_select(0, few) if isinstance(unit, Tensor) else unit, found)
            out.index_copy_(0, few, found)
            return


def _close_enough(step: _Step, unit: float | Tensor, bases: Tensor) -> float | Tensor:
    """How long a step may be, at most, if it is the last."""
    precision = torch.finfo(bases.dtype).eps
    if step is _square_step:
        # What it looks for the root of, norm - 2, has a second derivative of at most Nk / norm, so Nk / 2, and falls
        # with sum / norm, so at least 1: Newton's step from a distance x ends within Nk / 4 * x ** 2.
        return math.sqrt(2 * precision * 4 / bases.shape[-1])
    # Towards alpha = 2 weights drop out to the very end, so a short step may hide a long way; near 1 t is larger.
    return unit * (4 - 3 * unit) * precision


# With S = sum(p) and G = sum(p ** (2 - alpha)) = -dS/dt, Newton's step to the root of S ** (alpha - 1) - 1 is
# (S ** (alpha - 1) - 1) / (alpha - 1) * S ** (2 - alpha) / G. The three functions are that formula, with as few passes
# over the row as each alpha allows. The highest key of a row keeps S and G from vanishing.


def _square_step(bases: Tensor, _: float | Tensor, __: Tensor) -> Tensor:
    """alpha = 1.5: p is the square of half the base, and the base is [2 + s - t]_+."""
    norm = torch.linalg.vector_norm(bases, dim=-1, keepdim=True)
    return (norm - 2.0).mul_(norm).div_(bases.sum(-1, keepdim=True))


def _linear_step(bases: Tensor, _: float | Tensor, __: Tensor) -> Tensor:
    """alpha = 2: p is the base, [1 + s - t]_+."""
    return (bases.sum(-1, keepdim=True) - 1.0).div_(bases.sign().sum(-1, keepdim=True))


def _power_step(bases: Tensor, excess: float | Tensor, out: Tensor) -> Tensor:
    """Any alpha: p = (1 + base) ** (1 / excess), and the base is excess * (s - t), at least -1.

    log1p keeps the logarithm of p right where excess is so small that 1 + base has lost the base.
    """
    total = torch.log1p(bases, out=out).mul_(_LOG2_E / excess).exp2_().sum(-1, keepdim=True)
    slope = out.div((bases + 1.0).clamp_(min=torch.finfo(out.dtype).tiny)).sum(-1, keepdim=True)
    return torch.expm1(excess * total.log()).mul_(total ** (1.0 - excess)).div_(slope)
