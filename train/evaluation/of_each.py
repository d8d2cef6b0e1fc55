"""One number for each picture as a line of text: what a paired difference is drawn from, kept beside every mean.

Hits and misses are digits, "1101"; other numbers stand with spaces between, "0.25000 - 0.5", where "-" is a picture
that has none.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from models.errors import StudioError
from train.evaluation.metrics import Measured, bootstrap_interval


def packed(values: Iterable[float]) -> str:
    """Values (pictures,) as text, to five places; hits and misses exactly."""
    numbers = np.asarray(list(values), dtype=np.float64)
    if len(numbers) != 1 and bool(np.isin(numbers, (0.0, 1.0)).all()):
        return "".join("1" if value else "0" for value in numbers)
    return " ".join("-" if np.isnan(value) else f"{value:.5f}" for value in numbers)


def unpacked(text: str) -> NDArray[np.float64]:
    """The values (pictures,) of such a text; NaN for a picture without one.

    Raises:
        StudioError: it is no such text.
    """
    parts = list(text) if set(text) <= {"0", "1"} else text.split(" ")
    try:
        return np.array([np.nan if part == "-" else float(part) for part in parts])
    except ValueError as error:
        raise StudioError(
            f"{text[:40]!r} is no list of one number a picture ({error}): measure again into another file."
        ) from error


def paired_difference(one: str, other: str) -> Measured | None:
    """The mean of `one` minus `other` over the pictures that both have, and its interval over these pictures.

    None where they are not of the same pictures, or none has both.
    """
    left, right = unpacked(one), unpacked(other)
    if len(left) != len(right):
        return None
    differences = (left - right)[~np.isnan(left - right)]
    if not len(differences):
        return None
    return Measured(float(differences.mean()), *bootstrap_interval(differences))
