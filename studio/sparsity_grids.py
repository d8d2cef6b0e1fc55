"""Support and zeros by layer and head, as small tables: a number in every cell, its colour the share of zeros."""

import html
from dataclasses import dataclass

import torch
from torch import Tensor

from models import AttentionMaps
from models.statistics import support
from studio.measures import shuffle_orders
from studio.service import vision_grid
from studio.sparsity import SparseRun
from studio.sparsity_panels import SHUFFLED
from studio.strip import Table

# The first of those under the panels; fewer do, for each number is already a mean over all queries.
SHUFFLES = 4
COLUMNS = ("model", "map", "layer", "head", "measure", "value", "keys", "control", "control_is")
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
        shuffled: of A1 - lambda A2 the same with A2 permuted over the patches (L, 1 + H), the mean of fixed shuffles;
            None for other maps.
    """

    title: str
    of: str
    layers: tuple[str, ...]
    support: Tensor
    keys: tuple[int, ...]
    shuffled: Tensor | None = None


def support_grids(run: SparseRun) -> list[SupportGrid]:
    """A, or A1, A2 and A1 - lambda A2, over all layers; a layer without a second map has none in its grid.

    Raises:
        StudioError: a source that a layer does not have.
    """
    tower, patches = run.look.model.vision, vision_grid(run.look.model).patches
    found: dict[str, list[tuple[str, Tensor, int]]] = {}
    shuffled: list[Tensor] = []
    for layer in range(tower.layers):
        maps = run.maps(layer)
        parts = {"A": maps.a1} if maps.a2 is None else {"A1": maps.a1, "A2": maps.a2, "A1 − λA2": maps.weights}
        for title, part in parts.items():
            found.setdefault(title, []).append((tower.layer_name(layer), _supports(part), part.shape[-1]))
        if maps.a2 is not None:
            shuffled.append(_shuffled_supports(maps, patches))
    return [
        SupportGrid(
            title,
            run.look.model.title,
            tuple(name for name, _, _ in rows),
            _stacked([row for _, row, _ in rows]),
            tuple(keys for _, _, keys in rows),
            _stacked(shuffled) if title == "A1 − λA2" else None,
        )
        for title, rows in found.items()
    ]


def _supports(weights: Tensor) -> Tensor:
    """Keys other than zero (1 + H,) of weights (1, H, Nq, Nk), the mean over queries; the mean over heads first."""
    heads = support(weights)[0].float().mean(-1)
    return torch.cat([heads.mean(0, keepdim=True), heads])


def _shuffled_supports(maps: AttentionMaps, patches: int) -> Tensor:
    """The same (1 + H,) of A1 - lambda A2 with A2 permuted over the patches, the mean of fixed shuffles."""
    first, subtracted = maps.part("a1"), maps.part("subtracted")
    orders = shuffle_orders(first.shape[-1] - patches, first.shape[-1], SHUFFLES)
    return torch.stack([_supports(first - subtracted.index_select(-1, order)) for order in orders]).mean(0)


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
        f'<div class="sg"><p class="sg-caption">{html.escape(caption)}{_control_said(grids)}</p>'
        f'<div class="sg-tables">{"".join(map(_table, grids))}</div>'
        f'<div class="sg-bar"><span>0 %</span><span class="sg-ramp" aria-hidden="true">{bar}</span><span>100 % of the '
        "keys exactly zero; the number is the support, the mean over queries</span></div></div>"
    )


def _control_said(grids: list[SupportGrid]) -> str:
    """What the small numbers are, where there are any."""
    if all(grid.shuffled is None for grid in grids):
        return ""
    return (
        f" The small number is the control: the same with A2 permuted over the patches, the mean of {SHUFFLES} fixed "
        "shuffles."
    )


def grids_table(grids: list[SupportGrid]) -> Table:
    """The numbers of the tables: support and share of zeros by map, layer and head, each beside its control."""
    rows: list[tuple[str | float | None, ...]] = []
    for grid in grids:
        for layer, (name, keys) in enumerate(zip(grid.layers, grid.keys, strict=True)):
            for at, value in enumerate(grid.support[layer].tolist()):
                if value != value:
                    continue
                control = None if grid.shuffled is None else float(grid.shuffled[layer, at])
                start, beside = (grid.of, grid.title, name, _head(at)), "" if control is None else SHUFFLED
                rows.append((*start, "support", value, keys, control, beside))
                zeros = None if control is None else 1 - control / keys
                rows.append((*start, "zeros", 1 - value / keys, keys, zeros, beside))
    return Table("grids", COLUMNS, tuple(rows))


def _head(at: int) -> str:
    return "mean" if at == 0 else str(at - 1)


def _table(grid: SupportGrid) -> str:
    heads = "".join(f'<th scope="col">{_head(at)}</th>' for at in range(grid.support.shape[1]))
    beside = torch.full_like(grid.support, torch.nan) if grid.shuffled is None else grid.shuffled
    rows = "".join(
        f'<tr><th scope="row">{html.escape(name)}</th>'
        f"{''.join(_cell(value, keys, other) for value, other in zip(row, others, strict=True))}</tr>"
        for name, row, keys, others in zip(grid.layers, grid.support.tolist(), grid.keys, beside.tolist(), strict=True)
    )
    title = f"<b>{html.escape(grid.title)}</b> {html.escape(grid.of)}"
    return (
        f"<table><caption>{title}, layer × head</caption><thead><tr><td></td>{heads}</tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def _cell(value: float, keys: int, shuffled: float) -> str:
    if value != value:
        return "<td></td>"
    zeros = 1 - value / keys
    colour, ink = _colour(zeros)
    said, text = f"{value:.1f} of {keys} keys, {100 * zeros:.1f} % exactly zero", _written(value)
    if shuffled == shuffled:
        said += f"; with A2 shuffled {shuffled:.1f} keys, {100 * (1 - shuffled / keys):.1f} % exactly zero"
        text += f'<small class="sg-control">{_written(shuffled)}</small>'
    return f'<td style="background:{colour};color:{ink}" title="{said}">{text}</td>'


def _written(support: float) -> str:
    return f"{support:.0f}" if support >= 10 else f"{support:.1f}"


def _colour(share: float) -> tuple[str, str]:
    """Cividis at a share of 0 to 1, and a colour of text that is read on it."""
    place = min(max(share, 0.0), 1.0) * (len(_STOPS) - 1)
    low = min(int(place), len(_STOPS) - 2)
    ends = [[int(stop[at : at + 2], 16) for at in (0, 2, 4)] for stop in _STOPS[low : low + 2]]
    mixed = [round(a + (b - a) * (place - low)) for a, b in zip(*ends, strict=True)]
    return f"rgb({mixed[0]},{mixed[1]},{mixed[2]})", "#000" if share > 0.47 else "#fff"
