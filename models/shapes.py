"""What the shapes of a state dict say of a model, and what they leave open: depth, grid, heads, widths."""

import math
import re
from typing import Literal

from torch import Tensor

from models.errors import CheckpointError
from models.overrides import Overrides, grid_of_positions

State = dict[str, Tensor]
# Field of `models.overrides.Overrides` with which it can be said otherwise, and the sentence.
Assumed = tuple[tuple[str, str], ...]
_HEAD_WIDTH = 64
# (vision width, layers) of open_clip's ViTs whose heads are not 64 wide -> head width.
_WIDE_HEADS = {(1280, 32): 80, (1408, 40): 88, (1664, 48): 104, (1792, 56): 112}


def text_attention(state: State) -> Literal["standard", "differential"]:
    """The kind of attention of the text tower."""
    return "differential" if "transformer.resblocks.0.attn.q_proj.weight" in state else "standard"


def depth(state: State, prefix: str) -> int:
    """Number of blocks under a prefix."""
    begins = re.compile(rf"{re.escape(prefix)}\.(\d+)\.")
    numbers = {int(match[1]) for key in state if (match := begins.match(key))}
    if not numbers or numbers != set(range(len(numbers))):
        raise KeyError(f"block {min(set(range(max(numbers, default=0) + 1)) - numbers)} of {prefix}")
    return len(numbers)


def own_grid(count: int, overrides: Overrides, where: str) -> tuple[tuple[int, int], Assumed]:
    """(rows, cols) of the file's own positions behind a CLS token: as given, else a square, which is said."""
    if overrides.file_grid is not None:
        rows, cols = overrides.file_grid
        if rows * cols + 1 != count:
            raise CheckpointError(
                f"file_grid = {overrides.file_grid} makes {rows * cols} patches and a CLS token, but {where} has "
                f"{count} positions: give the grid that the weights were trained at."
            )
        return overrides.file_grid, ()
    found, rows, cols = grid_of_positions(count, where)
    if not found:
        raise CheckpointError(
            f"{where} has {count} positions, a square number, so no CLS token stands before the patches: "
            "this layout always has one; give file_grid=(rows, cols)."
        )
    return (rows, cols), (("file_grid", f"a square grid of {rows} x {cols} patches"),)


def mlp_ratio_of(hidden: int, width: int) -> float:
    """hidden / width, such that open_clip's int(width * ratio) is `hidden` again."""
    ratio = hidden / width
    return ratio if int(width * ratio) == hidden else math.nextafter(ratio, math.inf)


def side_of(grid: tuple[int, int], patch: int) -> int | tuple[int, int]:
    """The input size of a grid in pixels, as one number where it is square."""
    height, width = grid[0] * patch, grid[1] * patch
    return height if height == width else (height, width)


def raw_heads(
    state: State, overrides: Overrides, tower: int, attention: str, width: int, known: tuple[int, int]
) -> tuple[int, Assumed]:
    """Raw heads of a tower, and what was assumed: lambda's vectors have the head width, other weights do not tell."""
    # Where one vector is missing the others tell, so that it is the missing one that is named.
    names = [key for which in ("q1", "k1", "q2", "k2") if (key := f"{attention}.lambda_{which}") in state]
    name = ("vision", "text")[tower]
    told = None
    if names:
        entries = state[names[0]].numel()
        if not entries or width % entries:
            raise CheckpointError(
                f"{names[0]} has {entries} entries, one for each channel of a head, which do not divide the {name} "
                f"tower's width of {width}: the file is damaged, or of another kind of attention."
            )
        told = width // entries
    if overrides.heads is not None:
        if told is not None and told != overrides.heads[tower]:
            raise CheckpointError(
                f"heads = {overrides.heads} was given, but the lambda vectors of the {name} tower say {told} raw "
                "heads: leave heads out."
            )
        heads = overrides.heads[tower]
        if heads < 1 or width % heads:
            raise CheckpointError(
                f"heads = {overrides.heads} was given, but the {name} tower is {width} wide, which {heads} heads do "
                "not divide: give (vision, text) numbers that do."
            )
        return heads, ()
    if told is not None:
        return told, ()
    head_width = _WIDE_HEADS.get(known, _HEAD_WIDTH)
    if width % head_width:
        raise CheckpointError(
            f"The {name} tower is {width} wide, no multiple of CLIP's head width of {head_width}, and its weights do "
            "not tell the number of heads: give heads=(vision, text)."
        )
    heads = width // head_width
    return heads, (("heads", f"{heads} heads in the {name} tower, {head_width} wide each"),)
