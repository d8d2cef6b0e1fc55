"""Support and zeros by layer and head, as small tables: a number in every cell, its colour the share of zeros."""

import html
from dataclasses import dataclass

import torch
from torch import Tensor

from models.statistics import support
from studio.sparsity import SparseRun

_STOPS = ("00224e", "123570", "3b496c", "575d6d", "707173", "8a8678", "a59c74", "c3b369", "e1cc55", "fee838")


@dataclass(frozen=True)
class SupportGrid:
    """One map's support in each layer and head, the mean over queries.

    Attributes:
        title: which map.
        of: of which model.
        layers: names of the layers, L of them.
        support: keys other than zero (L, 1 + H), the mean over heads first.
        keys: keys of each layer (L,).
    """

    title: str
    of: str
    layers: tuple[str, ...]
    support: Tensor
    keys: tuple[int, ...]


def support_grids(run: SparseRun) -> list[SupportGrid]:
    """A, or A1, A2 and A1 - lambda A2, over all layers; a layer without a second map has none in its grid.

    Raises:
        StudioError: a source that a layer does not have.
    """
    tower = run.look.model.vision
    found: dict[str, list[tuple[str, Tensor, int]]] = {}
    for layer in range(tower.layers):
        maps = run.maps(layer)
        parts = {"A": maps.a1} if maps.a2 is None else {"A1": maps.a1, "A2": maps.a2, "A1 − λA2": maps.weights}
        for title, part in parts.items():
            heads = support(part)[0].float().mean(-1)
            row = torch.cat([heads.mean(0, keepdim=True), heads])
            found.setdefault(title, []).append((tower.layer_name(layer), row, part.shape[-1]))
    return [
        SupportGrid(
            title,
            run.look.model.title,
            tuple(name for name, _, _ in rows),
            _stacked([row for _, row, _ in rows]),
            tuple(keys for _, _, keys in rows),
        )
        for title, rows in found.items()
    ]


def _stacked(rows: list[Tensor]) -> Tensor:
    """Rows of possibly different numbers of heads, NaN where a layer has no such head."""
    wide = max(map(len, rows))
    return torch.stack([torch.nn.functional.pad(row, (0, wide - len(row)), value=torch.nan) for row in rows])


def grids_html(grids: list[SupportGrid], caption: str) -> str:
    """The tables, with every name escaped."""
    if not grids:
        return ""
    bar = "".join(f"<i style='background:#{stop}'></i>" for stop in _STOPS)
    return (
        f'<div class="sg"><p class="sg-caption">{html.escape(caption)}</p>'
        f'<div class="sg-tables">{"".join(map(_table, grids))}</div>'
        f'<div class="sg-bar"><span>0 %</span><span class="sg-ramp" aria-hidden="true">{bar}</span><span>100 % of the '
        "keys exactly zero; the number is the support, the mean over queries</span></div></div>"
    )


def _table(grid: SupportGrid) -> str:
    heads = "".join(f'<th scope="col">{"mean" if at == 0 else at - 1}</th>' for at in range(grid.support.shape[1]))
    rows = "".join(
        f'<tr><th scope="row">{html.escape(name)}</th>{"".join(_cell(float(value), keys) for value in row)}</tr>'
        for name, row, keys in zip(grid.layers, grid.support, grid.keys, strict=True)
    )
    title = f"<b>{html.escape(grid.title)}</b> {html.escape(grid.of)}"
    return (
        f"<table><caption>{title}, layer × head</caption><thead><tr><td></td>{heads}</tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def _cell(value: float, keys: int) -> str:
    if value != value:
        return "<td></td>"
    zeros = 1 - value / keys
    colour, ink = _colour(zeros)
    said = f"{value:.1f} of {keys} keys, {100 * zeros:.1f} % exactly zero"
    text = f"{value:.0f}" if value >= 10 else f"{value:.1f}"
    return f'<td style="background:{colour};color:{ink}" title="{said}">{text}</td>'


def _colour(share: float) -> tuple[str, str]:
    """Cividis at a share of 0 to 1, and a colour of text that is read on it."""
    place = min(max(share, 0.0), 1.0) * (len(_STOPS) - 1)
    low = min(int(place), len(_STOPS) - 2)
    ends = [[int(stop[at : at + 2], 16) for at in (0, 2, 4)] for stop in _STOPS[low : low + 2]]
    mixed = [round(a + (b - a) * (place - low)) for a, b in zip(*ends, strict=True)]
    return f"rgb({mixed[0]},{mixed[1]},{mixed[2]})", "#000" if share > 0.47 else "#fff"
