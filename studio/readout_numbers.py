"""Numbers of what a picture is read out by, layer by layer: the CLS row, the mean over patches, or the pooling head.

The same statistics as under the panels of Compare, with the same control.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from models import Recording, attention_maps
from models.layout import TokenGrid
from studio.measures import Objects, control_measures, panel_measures, shuffle_orders, shuffled_rows
from studio.panels import Kind, looked_at, slot_map

_CONTROLLED: tuple[Kind, ...] = ("weights", "positive", "negative")
_DIFFERENTIAL: tuple[Kind, ...] = ("a1", "subtracted", *_CONTROLLED)


class Key(NamedTuple):
    """Which number: of which model, layer, head ("mean" or a number), map and statistic."""

    model: str
    layer: int
    head: str
    map: str
    measure: str


def readout_numbers(
    name: str, recording: Recording, grid: TokenGrid, objects: Objects | None, *, heads: bool
) -> dict[Key, tuple[float | None, float | None]]:
    """(value, the same with A2 shuffled over the patches) of every layer; None where undefined or without control.

    Args:
        name: of the model, for the keys.
        recording: its vision tower's run on one picture.
        grid: what its tokens are.
        objects: which patches lie on an object, or None where that is not known.
        heads: each head too, not only the mean over heads.
    """
    found: dict[Key, tuple[float | None, float | None]] = {}
    for layer, projections in enumerate(recording):
        maps = attention_maps(projections)
        slots: list[int | None] = [None, *range(maps.a1.shape[1])] if heads else [None]
        for head in slots:
            first = looked_at(slot_map(maps.a1[0], head).float(), None, "reads", grid)
            second = None if maps.subtracted is None else slot_map(maps.subtracted[0], head).float()
            for kind, numbers in _row(first, second, grid, objects).items():
                words = "mean" if head is None else str(head)
                found |= {Key(name, layer, words, kind, measure): pair for measure, pair in numbers.items()}
    return found


def _row(
    first: Tensor, second: Tensor | None, grid: TokenGrid, objects: Objects | None
) -> dict[str, dict[str, tuple[float | None, float | None]]]:
    """Of each kind of map the numbers of one row; `second` is the whole map of lambda A2."""
    prefix = first.shape[-1] - grid.patches
    subtracted = None if second is None else looked_at(second, None, "reads", grid)
    kinds: tuple[Kind, ...] = ("weights",) if second is None else _DIFFERENTIAL
    found = {}
    for kind in kinds:
        values = panel_measures(kind, first, subtracted, prefix, objects)
        controls: dict[str, Tensor] = {}
        if second is not None and subtracted is not None and kind in _CONTROLLED:
            orders = shuffle_orders(prefix, first.shape[-1])
            controls = control_measures(
                kind, first, shuffled_rows(second, grid.cls, "reads", orders, subtracted), prefix, objects
            )
        found[kind] = {measure: (_plain(value), _plain(controls.get(measure))) for measure, value in values.items()}
    return found


def _plain(value: Tensor | None) -> float | None:
    return None if value is None or not bool(torch.isfinite(value)) else float(value)
