"""Every head of every layer at a glance: one statistic a cell, for the models of Compare on one colour scale.

`overview_steps` is a generator that tells how far it is after each layer, so that a person sees it go on and can leave.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from models import AttentionMaps, StudioError, statistics
from models.heads import match_heads
from models.layout import TokenGrid
from models.projections import Projections
from studio.asked import Readout
from studio.measures import Objects, shuffle_orders
from studio.overview_statistics import STATISTICS, Rows
from studio.panels import looked_at, with_mean
from studio.reading import MapReader, ReadLayer

Over = Literal["readout", "all"]
OVERS: tuple[Over, ...] = ("readout", "all")
# One shuffle where whole maps are shuffled: there each number is already a mean over some two hundred rows.
CONTROLS: dict[Over, int] = {"readout": 20, "all": 1}


def described(differential: bool, mask: bool) -> list[dict[str, Any]]:
    """The statistics that can be chosen, for the browser: those that some model and this picture have."""
    return [
        {
            "name": each.name,
            "label": each.label,
            "meaning": each.meaning,
            "percent": each.percent,
            "centre": each.centre,
            "whole": each.whole,
        }
        for each in STATISTICS
        if (mask or not each.objects) and (differential or not each.paired)
    ]


def layer_statistics(rows: Rows) -> dict[str, list[float | None]]:
    """Every statistic that these rows have: the mean over queries for each slot, S numbers; one alone for a layer."""
    found: dict[str, list[float | None]] = {}
    for statistic in STATISTICS:
        missing = (statistic.objects and rows.objects is None) or (statistic.paired and rows.subtracted is None)
        if missing or (statistic.whole and not rows.square):
            continue
        values = statistic.find(rows).float()
        values = values.nanmean(-1) if values.dim() == 2 else values.reshape(-1)
        found[statistic.name] = [round(value, 6) if value == value else None for value in values.tolist()]
    return found


def control_rows(rows: Rows, count: int) -> Iterator[Rows]:
    """The same rows with A2 shuffled over the patches, `count` times; none for a model with one map."""
    if rows.subtracted is None:
        return
    for order in shuffle_orders(rows.prefix, rows.weights.shape[-1], count):
        shuffled = rows.subtracted[..., order]
        yield replace(rows, weights=rows.first - shuffled, subtracted=shuffled)


def rows_of(
    maps: AttentionMaps, projections: Projections, grid: TokenGrid, objects: Objects | None, over: Over
) -> Rows:
    """The rows of one layer that an overview is about: that of the readout, or those of all tokens."""

    def chosen(whole: Tensor) -> Tensor:
        slots = with_mean(whole[0].float())
        return looked_at(slots, None, "reads", grid).unsqueeze(-2) if over == "readout" else slots

    first, subtracted = chosen(maps.a1), None if maps.subtracted is None else chosen(maps.subtracted)
    weights = first if subtracted is None else first - subtracted
    distances = statistics.patch_distances(grid.rows, grid.cols)
    return Rows(weights, first, subtracted, weights.shape[-1] - grid.patches, objects, distances, projections)


def overview_steps(
    reader: MapReader, models: Sequence[str], token: str, over: Over, alpha: float, source: str
) -> Iterator[dict[str, Any]]:
    """How far it is after each layer, `{"done", "of"}`; at last the overview itself.

    The last one has, by model, `layers`: for each layer `values` and `control` by statistic (the latter for those that
    suggest cleaning, of a model with two maps), or `error`; and `matches`: for each layer the first model's heads'
    partners in the second, or a sentence.

    Raises:
        StudioError: a recording was let go.
    """
    looks = {model: reader.service.looks.get((model, token)) for model in models}
    depth = {model: look.model.vision.layers for model, look in looks.items() if look is not None}
    if len(depth) < len(looks):
        raise StudioError("The server let go of this run: choose the picture again, then the overview.")
    found: dict[str, list[dict[str, Any]]] = {model: [] for model in models}
    matches: list[dict[str, Any]] = []
    done, total = 0, sum(depth.values())
    yield {"done": done, "of": total}
    for layer in range(max(depth.values())):
        read: dict[str, ReadLayer] = {}
        for model in models:
            if layer >= depth[model]:
                continue
            try:
                each = reader.layer(Readout(model, token, layer, alpha, source))
                if each is None:
                    raise StudioError("The server let go of this run while it was read: choose the picture again.")
                read[model] = each
                found[model].append(_layer(each, over))
            except StudioError as error:
                found[model].append({"error": str(error)})
            done += 1
            yield {"done": done, "of": total}
        matches.append(_matched([read[model] for model in models[:2] if model in read]))
    yield {"done": done, "of": total, "layers": found, "matches": matches if len(models) > 1 else []}


def _layer(read: ReadLayer, over: Over) -> dict[str, Any]:
    rows = rows_of(read.maps, read.projections, read.grid, read.look.objects, over)
    controls = [layer_statistics(each) for each in control_rows(rows, CONTROLS[over])]
    control = {
        each.name: _mean([run[each.name] for run in controls if each.name in run])
        for each in STATISTICS
        if each.cleaning and controls
    }
    return {"values": layer_statistics(rows), "control": {name: values for name, values in control.items() if values}}


def _mean(runs: list[list[float | None]]) -> list[float | None]:
    if not runs:
        return []
    stacked = torch.tensor([[torch.nan if value is None else value for value in run] for run in runs])
    return [round(value, 6) if value == value else None for value in stacked.mean(0).tolist()]


def _matched(pair: list[ReadLayer]) -> dict[str, Any]:
    """Partners of the first model's heads in one layer, or why there are none."""
    if len(pair) < 2:
        return {"error": "One of the models has no such layer, so its heads have no partners here."}
    left, right = pair
    if (left.grid.rows, left.grid.cols, left.grid.prefix) != (right.grid.rows, right.grid.cols, right.grid.prefix):
        return {
            "error": f"Heads are matched on the same tokens, and these are {left.grid.rows} × {left.grid.cols} and "
            f"{right.grid.rows} × {right.grid.cols} patches: choose two models of one grid."
        }
    try:
        matches = match_heads(left.maps.weights[0], right.maps.weights[0])
    except StudioError as error:
        return {"error": str(error)}
    cosine = [round(value, 4) if value == value else None for value in matches.cosine.tolist()]
    return {"partner": matches.partner.tolist(), "cosine": cosine}
