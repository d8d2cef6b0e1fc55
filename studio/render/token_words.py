"""What the figure of token maps says: heads, badges, numbers at the ends of its bars, how it is to be read."""

import numpy as np

from studio.render.sources import text_model_line
from studio.tab_recipe import TabRecipe
from studio.text_recipe import TokenStyle
from studio.token_maps import TokenMaps, TokenPanel, drawn_values, is_signed, map_name, why_nothing

_HOW = (
    "Rows are the tokens that read, columns the tokens that are read. The triangle and the frame mark the row that is "
    "read out, which makes the embedding. The maps are those of the run as it is, and know of no picture."
)
_MASKED = "Hatched without colour: masked, the token cannot be read from there; that is no small weight."
_NORM = (
    "Rows of A1 − λA2 are rescaled by the head norm that follows, so compare shape and sign, not brightness; DIFF V2 "
    "alone has no such norm."
)
_UNNAMED = "Where tokens are too many to be named beside a map, the arrays and the table name them."
_ADDED = "λ < 0: added, size drawn"


def written(value: float, style: TokenStyle) -> str:
    """A value of a cell as the page writes it, with a true minus sign and its unit."""
    size = abs(value)
    digits = (1 if size >= 10 else 2) if style.scale == "uniform" else 3 if size >= 0.1 or not size else 4
    unit = " ×" if style.scale == "uniform" else ""
    return f"{round(value, digits) + 0.0:.{digits}f}{unit}".replace("-", "−")


def model_words(maps: TokenMaps, at: int, style: TokenStyle) -> str:
    """Layer, head and readout of one model's row."""
    row, head = maps.rows[at], style.head(at)
    heads = max((panel.heads for panel in row.panels), default=0)
    if not heads:
        return row.said
    slot = min(head, heads)
    which = f"head {slot - 1} of {heads}" if slot else f"mean of {heads} heads"
    return " · ".join(filter(None, (f"layer {maps.layer}", which, row.said)))


def badges(panel: TokenPanel, style: TokenStyle, head: int, tops: dict[bool, float]) -> list[str]:
    """What is special of one map."""
    if why_nothing(panel, style.which):
        return []
    values, signed = drawn_values(panel, style, head), is_signed(panel, style.which)
    said = []
    first = float(np.nanmax(np.abs(values[:, :1]), initial=0.0))
    if style.start == "aside" and first > tops[signed]:
        said.append(f"first token up to {written(first, style)}, beyond the range")
    if not signed and bool((values < 0).any()):
        said.append(_ADDED)
    return said


def bar_text(maps: TokenMaps, style: TokenStyle, signed: bool, top: float) -> tuple[tuple[str, str, str], str]:
    """((low end, middle, high end), what the bar counts) of all maps with signs, or of all without."""
    panels = [panel for row in maps.rows for panel in row.panels if not why_nothing(panel, style.which)]
    names = dict.fromkeys(map_name(panel, style.which) for panel in panels if is_signed(panel, style.which) is signed)
    scale = "× uniform over the keys that the row can read" if style.scale == "uniform" else "raw weight"
    ramp = "square-root ramp" if style.ramp == "root" else "linear ramp"
    aside = ", first token set aside" if style.start == "aside" else ""
    end = written(top, style)
    said = f"one scale for {', '.join(names)}: {scale}, {ramp}{aside}"
    return ((f"−{end}", "0", f"+{end}") if signed else ("0", "", end)), said


def caption_of(maps: TokenMaps, recipe: TabRecipe, note: str, *, named: bool) -> list[str]:
    """The lines below the maps, `note` last; what does not concern this figure is not said.

    Args:
        maps: what is shown.
        recipe: how it is drawn.
        note: a further sentence.
        named: whether tokens are named beside all maps.
    """
    style = recipe.style
    assert isinstance(style, TokenStyle)
    panels = [panel for row in maps.rows for panel in row.panels if not why_nothing(panel, style.which)]
    lines = [_HOW] if named else [_HOW, _UNNAMED]
    if any(panel.masked is not None and panel.masked.any() for panel in panels):
        lines.append(_MASKED)
    if any(is_signed(panel, style.which) for panel in panels):
        lines.append(_NORM)
    lines += [text_model_line(found) for found in recipe.models if found.name in recipe.settings.shown]
    return [line for line in (text.strip() for text in (*lines, note)) if line]
