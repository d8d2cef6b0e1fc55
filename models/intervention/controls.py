"""Weights that a claim about attention must be held against: as sparse, as concentrated, or as spread, but not it.

Pure functions of scores (..., Nq, Nk), where -inf masks a key; the weights are float32 (float64 for float64) and rows
sum to 1. A masked key never gets a weight, and a row in which every key is masked is all zeros.
"""

import torch
from torch import Tensor

from models.diff_attention import widen
from models.errors import StudioError
from models.normalizers import Normalizer
from models.statistics import patch_order

# Of the matched entropy, in nats: where scores are nearly equal a far smaller difference is another temperature.
_TOLERANCE = 1e-12
_MAX_STEPS = 100
_LOG_RANGE = 60.0  # of log b: beyond it a row is uniform or one-hot
_LONGEST_STEP = 3.0  # in log b: far from the root the entropy is flat, and Newton's step leaps away
_FAR_BELOW = -1e30  # stands for the score -inf: its exponential is 0, and 0 times it is 0
_CHUNK = 2**17  # entries at a time, so that a step finds the last one's numbers in the cache


def topk_weights(scores: Tensor, keep: int | Tensor) -> Tensor:
    """Softmax over the `keep` highest scores of each row, of equal ones those with the lower index.

    `keep` is a number or one for each row (..., Nq).
    """
    return _softmax_over_first(scores, scores.argsort(dim=-1, descending=True, stable=True), keep)


def random_mask_weights(scores: Tensor, keep: int | Tensor, generator: torch.Generator) -> Tensor:
    """Softmax over `keep` keys of each row that are drawn at random among those that are not masked.

    The pictures share one draw, so that what a picture gets does not depend on those that it is batched with.

    Args:
        scores: (..., B, H, Nq, Nk).
        keep: how many keys, a number or one for each row (..., B, H, Nq).
        generator: where the draw comes from, on the CPU.
    """
    drawn = (*scores.shape[:-4], 1, *scores.shape[-3:])
    noise = torch.rand(drawn, generator=generator, dtype=torch.float64).to(scores.device)
    noise = noise.expand(scores.shape).masked_fill(torch.isneginf(scores), -1.0)
    return _softmax_over_first(scores, noise.argsort(dim=-1, descending=True, stable=True), keep)


def matched_entropy_weights(scores: Tensor, target: Tensor) -> Tensor:
    """Softmax of each row at the temperature at which its entropy is `target` (..., Nq), in nats.

    The entropy falls as the scores are multiplied by more: d H / d log b = -b^2 Var(s) under softmax(b s), so Newton's
    method in log b, kept inside a bracket, finds the one root. A target that no temperature reaches (above the
    logarithm of the number of keys, or below that of the number of highest scores) gives the nearest that one does.
    """
    with torch.no_grad():
        factor = _inverse_temperature(scores.double(), target.double())
    return Normalizer()(widen(scores) * factor.to(widen(scores).dtype))


def identity_weights(scores: Tensor) -> Tensor:
    """Every query attends to the key of its own index.

    Raises:
        StudioError: other queries than keys, as in a pooling head.
    """
    queries, keys = scores.shape[-2:]
    if queries != keys:
        raise StudioError(f"Identity attention needs as many queries as keys, not {queries} and {keys}.")
    eye = torch.eye(keys, dtype=widen(scores[..., :0]).dtype, device=scores.device)
    return eye.expand(scores.shape).masked_fill(torch.isneginf(scores), 0.0)


def uniform_weights(scores: Tensor) -> Tensor:
    """The same weight for every key that is not masked."""
    allowed = (~torch.isneginf(scores)).to(widen(scores[..., :0]).dtype)
    return allowed / allowed.sum(-1, keepdim=True).clamp(min=1)


def shuffled_keys(prefix: int, keys: int, seed: int) -> Tensor:
    """An order of the keys (Nk,) in which the patches are permuted and the prefix stays: `a2[..., order]`."""
    return patch_order(prefix, keys, torch.Generator().manual_seed(seed))


def row_entropy(weights: Tensor) -> Tensor:
    """Entropy in nats (..., Nq) of rows that sum to 1."""
    return -torch.xlogy(weights, weights).sum(-1)


def _softmax_over_first(scores: Tensor, order: Tensor, keep: int | Tensor) -> Tensor:
    """Softmax over those keys of each row that are among the first `keep` of `order`."""
    place = torch.arange(scores.shape[-1], device=scores.device).expand_as(order)
    rank = torch.empty_like(order).scatter_(-1, order, place)
    limit = keep if isinstance(keep, int) else keep.unsqueeze(-1)
    return Normalizer()(scores.masked_fill(rank >= limit, float("-inf")))


def _inverse_temperature(scores: Tensor, target: Tensor) -> Tensor:
    """b (..., Nq, 1) such that softmax(b scores) has the entropy `target`, both in float64."""
    keys = scores.shape[-1]
    top = scores.amax(-1, keepdim=True)
    shifted = (scores - top.masked_fill(top.isneginf(), 0.0)).clamp(min=_FAR_BELOW).reshape(-1, keys)
    # An entropy of 0 lies at b = infinity; below this one a row is one-hot to any precision that matters.
    wanted = target.clamp(min=1e-9).reshape(-1)
    log_b = torch.empty_like(wanted)
    size = max(1, _CHUNK // keys)
    for start in range(0, len(wanted), size):
        rows = slice(start, start + size)
        log_b[rows] = _solve_rows(shifted[rows], wanted[rows])
    return log_b.exp().view(target.shape).unsqueeze(-1)


def _solve_rows(shifted: Tensor, target: Tensor) -> Tensor:
    """log b (rows,) of rows with a maximum of 0. Newton's step is taken on log H, which is nearly straight where H is
    small; rows that are done are left out of the next step.
    """
    result = torch.zeros_like(target)
    active = torch.arange(len(target), device=target.device)
    log_b = torch.zeros_like(target)
    low, high = torch.full_like(target, -_LOG_RANGE), torch.full_like(target, _LOG_RANGE)
    for _ in range(_MAX_STEPS):
        b = log_b.exp()
        e = (b.unsqueeze(-1) * shifted).exp_()
        total = e.sum(-1)
        mean = e.mul_(shifted).sum(-1) / total
        square = e.mul_(shifted).sum(-1) / total
        entropy = (total.log() - b * mean).clamp(min=1e-300)
        miss = entropy - target
        result[active] = log_b
        left = (miss.abs() > _TOLERANCE) & (high - low > 1e-12)
        if not bool(left.any()):
            break
        low, high = torch.where(miss > 0, log_b, low), torch.where(miss > 0, high, log_b)
        slope = b.square() * (square - mean.square()).clamp(min=0)
        newton = log_b + ((entropy / target).log() * entropy / slope).clamp(-_LONGEST_STEP, _LONGEST_STEP)
        log_b = torch.where((newton > low) & (newton < high), newton, (low + high) / 2)
        active, shifted, target, log_b = active[left], shifted[left], target[left], log_b[left]
        low, high = low[left], high[left]
    return result
