"""Means over pictures with bootstrap intervals, by resampling pictures."""

from dataclasses import dataclass

import numpy as np

RESAMPLES = 2000
_CHUNK = 100


@dataclass(frozen=True)
class Interval:
    """A mean over `count` pictures and the 95 % interval of its bootstrap distribution; None where undefined.

    Of one picture there is no interval: every resample is that picture, which says nothing of others.
    """

    mean: float | None
    low: float | None
    high: float | None
    count: int


def intervals(values: np.ndarray, seed: int = 0, resamples: int = RESAMPLES) -> list[Interval]:
    """The mean of each column of values (P, K) over the pictures where it is no NaN, with a percentile interval.

    The pictures are drawn once for all columns, so numbers of the same pictures move together.
    """
    pictures, columns = values.shape
    known = ~np.isnan(values)
    counts = known.sum(0)
    filled = np.where(known, values, 0.0)
    generator = np.random.default_rng(seed)
    means = []
    for start in range(0, resamples, _CHUNK):
        size = min(_CHUNK, resamples - start)
        drawn = generator.multinomial(pictures, np.full(pictures, 1 / pictures), size).astype(np.float64)
        with np.errstate(invalid="ignore"):
            means.append((drawn @ filled) / (drawn @ known))
    resampled = np.concatenate(means)
    found = []
    for column in range(columns):
        if counts[column] == 0:
            found.append(Interval(None, None, None, 0))
            continue
        mean = float(filled[:, column].sum() / counts[column])
        if counts[column] == 1:
            found.append(Interval(mean, None, None, 1))
            continue
        sample = resampled[:, column]
        low, high = np.percentile(sample[~np.isnan(sample)], (2.5, 97.5))
        found.append(Interval(mean, float(low), float(high), int(counts[column])))
    return found
