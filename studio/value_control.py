"""The control for DiffCLIP's value-weighted panel: what is looked at of that map when A2 is shuffled over the patches.

Shuffled weights put other rows into the norm behind the heads, so it is not enough to permute the map that is shown:
the contributions are worked out anew for each shuffle, but only for the queries that the panel needs.
"""

import torch
from torch import Tensor

from models import AttentionMaps
from models.contributions import value_weighted
from models.layout import TokenGrid
from models.projections import Projections
from studio.measures import readers_permuted
from studio.panels import Direction

_ENTRIES = 4_000_000  # weights at a time, which bounds the memory of models with many tokens


def shuffled_value_rows(
    maps: AttentionMaps,
    projections: Projections,
    orders: Tensor,
    head: int | None,
    query: int | None,
    direction: Direction,
    grid: TokenGrid,
) -> Tensor:
    """Rows (K, Nk), or columns (K, Nq), of the value-weighted map with A2 in other orders of its keys.

    Args:
        maps: of a differential layer and a batch of one.
        projections: what the maps were made from.
        orders: (K, Nk), as `studio.measures.shuffle_orders` gives them.
        head: the head, None for the mean over heads.
        query: token index, None for the readout.
        direction: whether the row that the query reads or the column of who reads it.
        grid: what the tokens are.
    """
    at = query if query is not None else grid.cls
    row = slice(grid.prefix, None) if at is None else slice(at, at + 1)
    chosen = row if direction == "reads" else slice(None)
    # As in `shuffled_rows`: who reads CLS is not changed by an order of the keys.
    readers = direction == "read by" and readers_permuted(at, orders)
    subtracted = maps.subtracted
    assert subtracted is not None
    first, second = maps.a1[..., chosen, :], subtracted[..., chosen, :]
    found = []
    for some in orders.split(max(1, _ENTRIES // first.numel())):
        # The shuffles stand in the place of the batch: (K, H, n, Nk).
        shuffled = second[0][:, some].movedim(1, 0) if readers else second[0][..., some].movedim(2, 0)
        values = value_weighted(projections, first - shuffled)
        heads = values.mean(1) if head is None else values[:, head]
        found.append(heads[..., at] if direction == "read by" else heads.mean(-2))
    return torch.cat(found).float()
