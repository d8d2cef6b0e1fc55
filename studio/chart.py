"""A chart as plain data, from which both the figure on the page and the one that is taken away are drawn."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from models import StudioError
from studio.strip import Fact

Dash = Literal["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"]
Sign = Literal["diamond", "dot", "triangle"]
BAND = 0.13  # opacity of a band about a curve


@dataclass(frozen=True)
class Curve:
    """One line.

    Attributes:
        name: what it is called where it is pointed at.
        x, y: its places (K,); where y is NaN the line is interrupted.
        colour: as "#0d8a83".
        dash, width: of the line; the width is in pixels of the page.
        spread: (K,), half the height of the band that is drawn about the line; None for no band.
        opacity: of the line.
        dots: whether each place has a dot.
        legend: what the legend says of it, "" for nothing; its name where it is None.
        group: curves of one group are hidden and shown together; its name where it is "".
        end: what stands at its right end in the figure that is taken away, "" for nothing.
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    colour: str
    dash: Dash = "solid"
    width: float = 2.0
    spread: np.ndarray | None = None
    opacity: float = 1.0
    dots: bool = False
    legend: str | None = None
    group: str = ""
    end: str = ""

    def __post_init__(self) -> None:
        if self.x.ndim != 1 or self.x.shape != self.y.shape:
            raise StudioError(f"The curve {self.name!r} has x {self.x.shape} and y {self.y.shape}: give (K,) of each.")

    @property
    def entry(self) -> str:
        """What the legend says of it, "" for nothing."""
        return self.name if self.legend is None else self.legend


@dataclass(frozen=True)
class Mark:
    """One place with a sign; `name` is read where it is pointed at, `group` is that of the curves it belongs to."""

    x: float
    y: float
    colour: str
    name: str
    sign: Sign = "diamond"
    group: str = ""


@dataclass(frozen=True)
class Axis:
    """One axis.

    Attributes:
        label: what it counts, with its unit.
        digits: decimals where a value is read.
        span: (low, high) of the axis; what is drawn decides where it is None.
    """

    label: str
    digits: int = 2
    span: tuple[float, float] | None = None


@dataclass(frozen=True)
class Plot:
    """Curves over one pair of axes.

    Attributes:
        title, subtitle: what stands over it.
        x, y: its axes.
        curves, marks: what is drawn; later ones over earlier ones.
        spans: ranges (low, high) of x that are shaded from bottom to top.
        measured: what the numbers below it are.
        facts: numbers that stand below it in the figure that is taken away.
        controls: what stands over the columns of their controls.
    """

    title: str
    x: Axis
    y: Axis
    curves: tuple[Curve, ...]
    marks: tuple[Mark, ...] = ()
    spans: tuple[tuple[float, float], ...] = ()
    subtitle: str = ""
    measured: str = ""
    facts: tuple[Fact, ...] = ()
    controls: tuple[str, ...] = ()


Cell = str | int | float | None


@dataclass(frozen=True)
class Table:
    """Numbers for those who count on: names of columns, and rows with a value for each; None is left empty."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Chart:
    """Plots that belong together.

    Attributes:
        heading: what was measured, over all plots of the figure that is taken away.
        plots: from left to right, then down.
        notes: sentences for the caption, a line each.
        arrays: all numbers behind it, by name.
        numbers: those that a person reads, each with its controls beside it.
        columns: plots in a row.
    """

    heading: str
    plots: tuple[Plot, ...]
    notes: tuple[str, ...]
    arrays: Mapping[str, np.ndarray]
    numbers: Table
    columns: int = 2

    def __post_init__(self) -> None:
        if not self.plots:
            raise StudioError("There is nothing to draw: give at least one plot.")

    @property
    def nbytes(self) -> int:
        """What it takes in memory, about: its arrays, its curves, and its table."""
        curves = [each for plot in self.plots for each in plot.curves]
        drawn = sum(each.x.nbytes + each.y.nbytes for each in curves)
        cells = len(self.numbers.rows) * len(self.numbers.columns)
        return drawn + sum(values.nbytes for values in self.arrays.values()) + 64 * cells


def faded(colour: str, opacity: float) -> str:
    """The colour as it is on white with that opacity, for what has none of its own; still dark enough to be read."""
    share = max(opacity, 0.35)
    mixed = [round(255 + (int(colour[at : at + 2], 16) - 255) * share) for at in (1, 3, 5)]
    return "#" + "".join(f"{value:02x}" for value in mixed)


def curve_range(plot: Plot) -> tuple[float, float]:
    """The lowest and the highest y that are drawn, bands and marks included; (0, 1) where there is nothing."""
    found = [mark.y for mark in plot.marks]
    for curve in plot.curves:
        spread = 0 if curve.spread is None else curve.spread
        found += [*(curve.y - spread), *(curve.y + spread)]
    return _range(found)


def place_range(plot: Plot) -> tuple[float, float]:
    """The lowest and the highest x of what is drawn; (0, 1) where there is nothing."""
    found = [mark.x for mark in plot.marks] + [end for span in plot.spans for end in span]
    return _range([*found, *(place for curve in plot.curves for place in curve.x)])


def _range(values: list[float]) -> tuple[float, float]:
    finite = [float(value) for value in values if np.isfinite(value)]
    return (min(finite), max(finite)) if finite else (0.0, 1.0)
