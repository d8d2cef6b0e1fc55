"""Texts with a score for each token, as plain data: the page, the figure and the files are made from the same."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CSV_COLUMNS = ("panel", "text", "of", "layers", "position", "token", "score", "unit", "said")


@dataclass(frozen=True)
class ScoredText:
    """One text as one model reads it.

    Attributes:
        text: the text.
        of: of which model.
        pieces: its n tokens as a person reads them.
        values: (n,) scores, NaN for tokens that are no words; None where there are none.
        unit: of the scores.
        layers: which layers were looked at, in words, "" where it is the whole model.
        said: remarks, and why there is nothing to see.
        adds_up: what the scores should sum to and by how much they miss it, "" where they need not sum up.
    """

    text: str
    of: str
    pieces: tuple[str, ...]
    values: np.ndarray | None
    unit: str = ""
    layers: str = ""
    said: tuple[str, ...] = ()
    adds_up: str = ""

    @property
    def told(self) -> tuple[str, ...]:
        """All that is said of it."""
        return (*self.said, self.adds_up) if self.adds_up else self.said


@dataclass(frozen=True)
class WordScale:
    """The one scale of all words: `top` has the full colour, numbers are in 10 to the `power`."""

    top: float
    power: int

    def share(self, value: float) -> float:
        """How much of the full colour a score has, 0 to 1."""
        return abs(value) / self.top if self.top > 0 else 0.0

    def written(self, value: float) -> str:
        """A score as a person reads it, with a true sign."""
        shown = round(value / 10.0**self.power, 2)
        return f"{shown:+.2f}".replace("-", "−") if shown else "0" if value == 0 else "≈ 0"


def word_scale(texts: Sequence[ScoredText]) -> WordScale:
    """One scale over all finite scores."""
    finite = [np.abs(each.values[np.isfinite(each.values)]) for each in texts if each.values is not None]
    top = max((float(values.max()) for values in finite if values.size), default=0.0)
    power = min(0, math.floor(math.log10(top)) + 1) if top > 0 else 0
    return WordScale(top, 0 if power >= -1 else power)


def words_csv(texts: Sequence[ScoredText]) -> str:
    """A line for each token: seven digits, and empty for tokens that are no words.

    `panel` is the place of the map of the same text and model; a text without scores has one line that says why.
    """
    stream = io.StringIO()
    table = csv.writer(stream, lineterminator="\n")
    table.writerow(CSV_COLUMNS)
    for at, each in enumerate(texts):
        start, said = (at, each.text, each.of, each.layers), "; ".join(each.told)
        if each.values is None:
            table.writerow((*start, "", "", "", each.unit, said))
            continue
        for position, (piece, value) in enumerate(zip(each.pieces, each.values, strict=True)):
            score = f"{value:.7g}" if math.isfinite(value) else ""
            table.writerow((*start, position, piece, score, each.unit, said))
    return stream.getvalue()
