"""One range for all panels that can share one: values in the chosen scale, and where colours end."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from studio.recipe import View
from studio.render.numbers import rounded
from studio.render.readings import Reading

_RAW_UNITS = {"weights": "weight", "value": "norm of what a key adds", "relevance": "relevance"}


@dataclass(frozen=True)
class Shown:
    """One panel as it is drawn.

    Attributes:
        reading: what it shows.
        values: (R, C) in the chosen scale, sizes where the range begins at 0; or (0, 0) with a message.
        aside: True (R, C) for patches that the range leaves out, which are sinks.
        left_out: number of tokens that it leaves out, prefix tokens among them.
        share: of the row's mass on all tokens that are set aside.
        top: end of the panel's range.
        range: panels with the same name share it; it holds group, sign, and the place of a panel that has its own.
    """

    reading: Reading
    values: np.ndarray
    aside: np.ndarray
    left_out: int
    share: float
    top: float
    range: tuple[str, bool, int]


def shown_of(view: View, readings: Sequence[Reading]) -> tuple[Shown, ...]:
    """All panels in the view's scale, with the range of each group and sign."""
    values = [_values(view, reading) for reading in readings]
    tokens = [_aside(view, reading) for reading in readings]
    names = [(r.group, r.signed, at if r.panel.own else -1) for at, r in enumerate(readings)]
    tops = dict.fromkeys(names, 0.0)
    for name, reading, aside in zip(names, readings, tokens, strict=True):
        counted = reading.row[~aside].abs().double().numpy() * factor(view, reading)
        tops[name] = max(tops[name], float(counted.max(initial=0.0)))
    return tuple(
        Shown(
            reading,
            values[at],
            _patches(tokens[at], reading),
            int(tokens[at].sum()),
            _share(reading, tokens[at]),
            tops[names[at]],
            names[at],
        )
        for at, reading in enumerate(readings)
    )


def _values(view: View, reading: Reading) -> np.ndarray:
    """(R, C) in the chosen scale; the size of lambda A2, whose sign is that of lambda."""
    if reading.message:
        return np.zeros((0, 0))
    raw = reading.patches if reading.signed else reading.patches.abs()
    return raw.double().numpy() * factor(view, reading)


def factor(view: View, reading: Reading) -> float:
    """What raw values are multiplied with; the uniform share of a weight is 1 / Nk, of all else the mean of the row."""
    if view.scale == "raw":
        return 1.0
    keys, mass = len(reading.row), float(reading.row.abs().double().sum())
    if view.scale == "uniform" and reading.group == "weights":
        return float(keys)
    if mass == 0:
        return 0.0
    return keys / mass if view.scale == "uniform" else 1.0 / mass


def _aside(view: View, reading: Reading) -> Tensor:
    """True (Nk,) for the tokens that the range leaves out; sinks are tokens that are read, so no readers are."""
    if view.set_aside == "sinks" and view.direction == "reads":
        return reading.sinks
    aside = torch.zeros(len(reading.row), dtype=torch.bool)
    if view.set_aside == "prefix" and not reading.message:
        aside[: reading.prefix] = True
    return aside


def _patches(aside: Tensor, reading: Reading) -> np.ndarray:
    if reading.message:
        return np.zeros((0, 0), dtype=bool)
    return aside[reading.prefix :].unflatten(0, (reading.grid.rows, reading.grid.cols)).numpy()


def _share(reading: Reading, aside: Tensor) -> float:
    size = reading.row.abs()
    total = float(size.sum())
    return float(size[aside].sum()) / total if total > 0 else 0.0


def unit(view: View, group: str) -> str:
    """What a colour bar counts in."""
    if view.scale == "raw":
        return _RAW_UNITS[group]
    line = "column" if view.direction == "read by" and group != "relevance" else "row"
    if view.scale == "row":
        return f"share of Σ|{line}|"
    return "× uniform" if group == "weights" else f"× mean of the {line}"


def written(view: View, value: float) -> str:
    """A value in the chosen scale as a person reads it."""
    if view.scale == "raw":
        return rounded(value, 4)
    return f"{rounded(100 * value, 1)} %" if view.scale == "row" else f"{rounded(value, 1)} ×"
