"""Colours of the maps: the tables of the page's `viewer/colours.js`, entry by entry."""

from functools import lru_cache

import numpy as np

CIVIDIS = ("00224e", "123570", "3b496c", "575d6d", "707173", "8a8678", "a59c74", "c3b369", "e1cc55", "fee838")
PURPLE_TO_ORANGE = (
    *("2d004b", "542788", "8073ac", "b2abd2", "d8daeb", "f7f7f7", "fee0b6", "fdb863", "e08214", "b35806", "7f3b08"),
)
# An odd number, so that zero of the signed ramp is one entry, the neutral one.
ENTRIES = 511


@lru_cache(maxsize=2)
def table(stops: tuple[str, ...]) -> np.ndarray:
    """(511, 3) colours in 8 bits, straight between the stops; halves are rounded to even, as canvases do."""
    ends = np.array([[int(stop[at : at + 2], 16) for at in (0, 2, 4)] for stop in stops], dtype=np.float64)
    place = np.arange(ENTRIES) / (ENTRIES - 1) * (len(stops) - 1)
    below = np.minimum(len(stops) - 2, np.floor(place).astype(int))
    colours = np.rint(ends[below] + (ends[below + 1] - ends[below]) * (place - below)[:, None]).astype(np.uint8)
    colours.flags.writeable = False
    return colours


def stops_of(signed: bool) -> tuple[str, ...]:
    """The stops of the ramp for signed or for unsigned values, as hexadecimal colours."""
    return PURPLE_TO_ORANGE if signed else CIVIDIS


def places(values: np.ndarray, top: float, *, signed: bool, root: bool) -> np.ndarray:
    """Entry of the table for each value; `top` is the end of the range, beyond which colours stay the same."""
    share = np.minimum(1.0, np.abs(values) / top) if top > 0 else np.zeros_like(values, dtype=np.float64)
    bent = np.sqrt(share) if root else share
    half = (ENTRIES - 1) / 2
    place = half + np.sign(values) * bent * half if signed else bent * (ENTRIES - 1)
    # Halves upwards, as JavaScript rounds.
    return np.floor(place + 0.5).astype(int)


def colours(values: np.ndarray, top: float, *, signed: bool, root: bool) -> np.ndarray:
    """Colours (..., 3) in 8 bits for values (...)."""
    return table(stops_of(signed))[places(values, top, signed=signed, root=root)]
