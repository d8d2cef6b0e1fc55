"""The maps of one layer as the browser gets them: quantised rows and the statistics of each row.

Pure functions from tensors to plain values. A payload holds every query and every head of a layer, so moving the
query or changing the head asks the server nothing.
"""

import base64
from typing import Any

import numpy as np
import torch
from torch import Tensor

from models import AttentionMaps
from studio.measures import Objects, difference_measures, plain_measures, shuffled_measures

STEPS = 65535


def with_mean(maps: Tensor) -> Tensor:
    """(1, H, Nq, Nk) -> (1 + H, Nq, Nk): the mean over heads first, then each head."""
    heads = maps[0]
    return torch.cat([heads.mean(0, keepdim=True), heads])


def quantise(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows (..., Nk), none of which has both signs, as 16-bit steps of each row's own largest entry.

    Rounding is upwards, so a weight above zero never becomes zero and a step of zero means exactly zero: with
    alpha > 1 that difference is what there is to see.

    Returns:
        steps (..., Nk) of `top / 65535`, and `top` (...), the entry of largest magnitude with its sign.
    """
    wide = rows.astype(np.float64)
    magnitude = np.abs(wide)
    top = magnitude.max(axis=-1)
    safe = np.where(top > 0, top, 1.0)[..., None]
    steps = np.maximum(np.ceil(magnitude / safe * STEPS), magnitude > 0)
    sign = np.where((wide < 0).any(axis=-1), -1.0, 1.0)
    return steps.astype("<u2"), (top * sign).astype("<f4")


def packed(values: np.ndarray) -> str:
    """Little-endian bytes of an array as text."""
    return base64.b64encode(values.tobytes()).decode("ascii")


def packed_map(maps: Tensor) -> dict[str, str]:
    """A map (1 + H, Nq, Nk) for the browser."""
    steps, top = quantise(maps.numpy())
    return {"steps": packed(steps), "top": packed(top)}


def packed_measures(measures: dict[str, Tensor]) -> dict[str, str]:
    """Statistics (1 + H, Nq) for the browser, in float32."""
    return {name: packed(values.numpy().astype("<f4")) for name, values in measures.items()}


def layer_payload(maps: AttentionMaps, prefix: int, objects: Objects | None) -> dict[str, Any]:
    """Everything the browser needs of one layer.

    The second map is sent as lambda A2, so the browser knows nothing of how lambda is shaped.

    Args:
        maps: of a batch of one.
        prefix: tokens before the patches.
        objects: which patches lie on an object, or None where that is not known.

    Returns:
        `keys` Nk, `slots` 1 + H (mean first), `maps` by name, `measures` by map name and statistic.
    """
    first = with_mean(maps.a1)
    payload: dict[str, Any] = {
        "keys": first.shape[-1],
        "slots": first.shape[0],
        "alpha": maps.alpha,
        "maps": {"first": packed_map(first)},
        "measures": {"first": packed_measures(plain_measures(first, prefix, objects))},
    }
    if maps.subtracted is not None:
        subtracted = with_mean(maps.subtracted)
        payload["maps"]["subtracted"] = packed_map(subtracted)
        payload["measures"] |= {
            "subtracted": packed_measures(plain_measures(subtracted, prefix, objects)),
            "difference": packed_measures(difference_measures(first - subtracted, prefix, objects)),
            "shuffled": packed_measures(shuffled_measures(first, subtracted, prefix, objects)),
        }
    return payload
