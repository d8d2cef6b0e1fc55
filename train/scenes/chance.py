"""Random choices that are the same on every machine: arithmetic on the uniform numbers of a Philox stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")


class Chance:
    """A stream of choices that depends on `keys` alone.

    Only the generator's uniform numbers are used: its other methods may change between versions of numpy.
    """

    def __init__(self, *keys: int) -> None:
        self._uniform = np.random.Generator(np.random.Philox(np.random.SeedSequence(keys))).random

    def between(self, low: float, high: float) -> float:
        """A number from `low` to `high`."""
        return low + (high - low) * float(self._uniform())

    def whole(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return low + int(float(self._uniform()) * (high - low + 1))

    def happens(self, share: float) -> bool:
        """True in `share` of all cases."""
        return float(self._uniform()) < share

    def pick(self, items: Sequence[Item], weights: Sequence[float] | None = None) -> Item:
        """One of `items`, each as often as its weight says."""
        if weights is None:
            return items[int(float(self._uniform()) * len(items))]
        point = float(self._uniform()) * sum(weights)
        for item, weight in zip(items, weights, strict=True):
            point -= weight
            if point < 0:
                return item
        return items[-1]

    def several(self, items: Sequence[Item], count: int) -> list[Item]:
        """`count` different ones of `items`, in random order."""
        left = list(range(len(items)))
        return [items[left.pop(int(float(self._uniform()) * len(left)))] for _ in range(count)]
