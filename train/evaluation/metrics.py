"""Ranks, accuracies and recalls, with intervals. A tie never counts in a model's favour, and neither does a NaN.

The rank of what is right is the number of candidates whose score is not below its own, itself included. So a model
that gives everything one score is wrong about everything, instead of right wherever a sort happens to leave it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

DRAWS = 2000
_SCORES_AT_ONCE = 20_000_000
_DRAWN_AT_ONCE = 2_000_000


@dataclass(frozen=True)
class Measured:
    """A share from 0 to 1, and the 95 % bootstrap interval over pictures."""

    value: float
    low: float
    high: float


def bootstrap_interval(hits: NDArray, draws: int = DRAWS, seed: int = 0) -> tuple[float, float]:
    """The 2.5 and 97.5 percentiles of the mean over images drawn with replacement."""
    return _interval(lambda drawn: hits[drawn].mean(axis=1), len(hits), draws, seed)


def _interval(
    statistic: Callable[[NDArray[np.int64]], NDArray], count: int, draws: int = DRAWS, seed: int = 0
) -> tuple[float, float]:
    """The 2.5 and 97.5 percentiles of a statistic of `count` pictures drawn with replacement.

    `statistic` gets some draws at once, numbers of pictures (draws, count), and answers with one value for each.
    """
    generator = np.random.default_rng(seed)
    rows = max(1, _DRAWN_AT_ONCE // count)
    sizes = [min(rows, draws - start) for start in range(0, draws, rows)]
    values = np.concatenate([statistic(generator.integers(0, count, (size, count))) for size in sizes])
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def label_ranks(scores: Tensor, labels: Tensor) -> Tensor:
    """The rank (n,), from 1, of each picture's class among all K, of scores (n, K) and labels (n,)."""
    own = scores.gather(1, labels[:, None])
    return (~(scores < own)).sum(dim=1)


def within(ranks: NDArray[np.int64], k: int, candidates: int) -> Measured | None:
    """The share of pictures (n,) whose rank is at most `k`; None with fewer than `k` candidates."""
    if candidates < k:
        return None
    hits = ranks <= k
    return Measured(float(hits.mean()), *bootstrap_interval(hits))


def mean_class_recall(hits: NDArray[np.bool_], labels: NDArray[np.int64]) -> Measured:
    """The mean over classes of the share of its pictures that are right, of hits (n,) and labels (n,).

    Classes without a picture do not enter; in the interval, neither do those that a draw holds no picture of.
    """

    classes = int(labels.max()) + 1

    def recalls(drawn: NDArray[np.int64]) -> NDArray[np.float64]:
        # Each draw has bins of its own.
        bins = (labels[drawn] + classes * np.arange(len(drawn))[:, None]).ravel()
        shape = len(drawn), classes
        counts = np.bincount(bins, minlength=len(drawn) * classes).reshape(shape)
        right = np.bincount(bins, weights=hits[drawn].ravel(), minlength=len(drawn) * classes).reshape(shape)
        return (right / np.maximum(counts, 1)).sum(axis=1) / (counts > 0).sum(axis=1)

    return Measured(float(recalls(np.arange(len(hits))[None])[0]), *_interval(recalls, len(hits)))


def positive_ranks(queries: Tensor, candidates: Tensor, of_query: Tensor, of_candidate: Tensor) -> Tensor:
    """The rank (Q,), from 1, of each query's best positive among C candidates.

    Of several positives the best counts, as is usual in CLIP's retrieval; it stands behind every negative that scores
    as much as it does.

    Args:
        queries, candidates: (Q, E) and (C, E), of length 1; scores are their products.
        of_query, of_candidate: the picture (Q,), (C,) that each belongs to; a candidate is positive where both agree.
            Every query needs one.
    """
    ranks = []
    rows = max(1, _SCORES_AT_ONCE // max(1, len(candidates)))
    for start in range(0, len(queries), rows):
        scores = queries[start : start + rows] @ candidates.T
        positive = of_query[start : start + rows, None] == of_candidate[None]
        best = scores.masked_fill(~positive, -torch.inf).amax(dim=1, keepdim=True)
        ranks.append(1 + (~(scores < best) & ~positive).sum(dim=1))
    return torch.cat(ranks)


def recall(ranks: NDArray[np.int64], k: int, pictures: NDArray[np.int64], candidates: int) -> Measured | None:
    """The share of queries (Q,) whose best positive has a rank of at most `k`; None with fewer than `k` candidates.

    The interval draws pictures, numbered by `pictures` (Q,) from 0, each with all its queries: captions of one
    picture are not independent.
    """
    if candidates < k:
        return None
    hits = np.bincount(pictures, weights=ranks <= k)
    counts = np.bincount(pictures)
    interval = _interval(lambda drawn: hits[drawn].sum(axis=1) / counts[drawn].sum(axis=1), len(counts))
    return Measured(float(hits.sum() / counts.sum()), *interval)
