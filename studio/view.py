"""The maps of one layer as the browser gets them, in 16-bit steps of the root of each row's entries.

Pure functions from tensors to plain values. A payload holds every query and, unless that is too much, every head of a
layer, so moving the query or changing the head asks the server for no map.
"""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from models import AttentionMaps, statistics
from models.projections import Projections
from studio.panels import Kind, slot_map, whole_map, with_mean

STEPS = 32767
# Above so many weights (13 slots of 577 tokens have 4.3 million) a payload holds only the heads that are shown.
ALL_SLOTS = 2_000_000


def quantise(rows: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Rows (..., Nk) as signed 16-bit steps: a step s stands for `sign(s) (s / 32767) ** 2 * top` of its row.

    The squares keep what is small beside a sink: a patch with a hundred thousandth of the weight of CLS comes back to
    1 %, where even steps would make it three of them or none. A weight other than zero is at least one step, so that a
    step of zero means exactly zero: with alpha > 1 that difference is what there is to see.

    Returns:
        steps (..., Nk), and `top` (...), the largest magnitude of each row.
    """
    size = rows.abs()
    top = size.amax(-1)
    steps = size.div_(torch.where(top > 0, top, 1.0).unsqueeze(-1)).sqrt_().mul_(STEPS).round_().copysign_(rows)
    small = (steps == 0) & (rows != 0)
    if bool(small.any()):
        steps = torch.where(small, rows.sign(), steps)
    return steps.to(torch.int16).numpy(), top.float().numpy()


def packed(values: np.ndarray) -> str:
    """Little-endian bytes of an array as text."""
    return base64.b64encode(np.ascontiguousarray(values).data).decode("ascii")


def packed_map(slots: Tensor) -> dict[str, str]:
    """A map (S, Nq, Nk) for the browser; with it which keys of each slot are sinks, (S, Nk)."""
    steps, top = quantise(slots)
    sinks = sinks_of(slots).numpy().astype(np.uint8)
    return {"steps": packed(steps.astype("<i2", copy=False)), "top": packed(top.astype("<f4")), "sinks": packed(sinks)}


def sinks_of(slots: Tensor) -> Tensor:
    """`statistics.sinks` (S, Nk) of whole maps (S, Nq, Nk), as one product a slot: this is done for every layer."""
    size = slots.abs()
    mass = size.sum(-1)
    shares = torch.where(mass > 0, 1 / mass, 0.0).unsqueeze(-2)
    received = (shares @ size).squeeze(-2) / (mass > 0).sum(-1, keepdim=True)
    return received > statistics.SINK_TIMES_UNIFORM / slots.shape[-1]


def layer_payload(
    maps: AttentionMaps, projections: Projections, kinds: Sequence[Kind], heads: Sequence[int | None]
) -> dict[str, Any]:
    """What the browser needs of one layer to draw panels of some kinds.

    Args:
        maps: of a batch of one.
        projections: what the maps were made from.
        kinds: "weights", "a1", "subtracted" or "value".
        heads: the heads that are shown now, None for the mean; if all together are small, all are given.

    Returns:
        `queries` Nq, `keys` Nk, `slots` (which slots follow: 0 the mean, h + 1 head h), `maps` by kind.

    Raises:
        StudioError: a kind or a head that does not exist.
    """
    _, count, queries, keys = maps.a1.shape
    everything = (1 + count) * queries * keys <= ALL_SLOTS
    wanted = sorted({0 if head is None else head + 1 for head in heads})
    found = {}
    for kind in kinds:
        whole = whole_map(maps, projections, kind).float()
        chosen = (
            with_mean(whole) if everything else torch.stack([slot_map(whole, s - 1 if s else None) for s in wanted])
        )
        found[kind] = packed_map(chosen)
    return {
        "queries": queries,
        "keys": keys,
        "pooling": maps.pooling,
        "slots": list(range(1 + count)) if everything else wanted,
        "maps": found,
    }
