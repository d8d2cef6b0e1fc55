"""Axes of a plot in a figure: where a value lies, round numbers beside them, and how these are written."""

import math
from dataclasses import dataclass

import numpy as np

from studio.chart import Plot, curve_range, place_range
from studio.render.shapes import Place

_PAD = 0.04  # of the range, above and below the curves
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_LARGE = ((1e9, "G"), (1e6, "M"), (1e4, "k"))


@dataclass(frozen=True)
class Frame:
    """The rectangle between two axes, and the values at its edges."""

    place: Place
    x_span: tuple[float, float]
    y_span: tuple[float, float]

    def x(self, value: float) -> float:
        """Where a value lies, in points from the left of the figure."""
        low, high = self.x_span
        return self.place.x + self.place.w * (value - low) / (high - low)

    def y(self, value: float) -> float:
        """Where a value lies, in points from the top of the figure."""
        low, high = self.y_span
        return self.place.y + self.place.h * (1 - (value - low) / (high - low))

    def points(self, x: np.ndarray, y: np.ndarray) -> tuple[tuple[float, float], ...]:
        """Places (K,), (K,) in points."""
        return tuple((self.x(float(a)), self.y(float(b))) for a, b in zip(x, y, strict=True))


def spans_of(plot: Plot) -> tuple[tuple[float, float], tuple[float, float]]:
    """The ranges of both axes: as the plot says, else what is drawn, with room above and below."""
    x = plot.x.span or _wide(*place_range(plot), 0.0)
    return x, plot.y.span or _wide(*curve_range(plot), _PAD)


def _wide(low: float, high: float, pad: float) -> tuple[float, float]:
    """A range that has a width, also about a single value."""
    if high - low <= 1e-12 * max(abs(low), abs(high), 1e-12):
        room = max(abs(low), 1.0) * 0.05
        return low - room, high + room
    return low - pad * (high - low), high + pad * (high - low)


def ticks_of(span: tuple[float, float], most: int) -> tuple[list[float], float]:
    """At most so many round values in a range, two at least, and how far they are apart."""
    low, high = span
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    sizes = [step * power for step in _STEPS if step * power >= raw * (1 - 1e-9)]
    step = sizes[0]
    first, last = math.ceil(low / step - 1e-6), math.floor(high / step + 1e-6)
    return [at * step for at in range(first, last + 1)], step


def tick_text(value: float, step: float) -> str:
    """A value of an axis with the decimals that the step needs, large ones with k, M or G, with a true minus sign."""
    if value == 0 or abs(value) < step * 1e-6:
        return "0"
    for size, letter in _LARGE:
        if abs(value) >= size and step >= size / 1000:
            scale = 1000.0 if letter == "k" else size
            return f"{value / scale:.10g}{letter}".replace("-", "−")
    if step < 1e-4:
        return f"{value:.2g}".replace("-", "−")
    decimals = next(digits for digits in range(7) if abs(step * 10**digits - round(step * 10**digits)) < 1e-6)
    return f"{value:.{decimals}f}".replace("-", "−")
