"""The files of token × token maps that are taken away: figure, arrays of all heads, rows that are read out, recipe."""

import csv
import io

import numpy as np

from models import StudioError
from studio.render.arrays import npz_bytes
from studio.render.raster import png_bytes
from studio.render.token_figure import token_figure
from studio.render.vector import svg_text
from studio.tab_recipe import TabRecipe
from studio.text_recipe import TokenStyle, Which
from studio.token_maps import (
    TokenMaps,
    TokenPanel,
    drawn_values,
    map_name,
    map_of,
    readable,
    why_nothing,
)

CSV_COLUMNS = (
    *("panel", "model", "text", "layer", "map", "head", "query", "query_token", "key", "key_token"),
    *("masked", "weight", "times_uniform"),
)
_MAPS: tuple[Which, ...] = ("weights", "first", "subtracted")


def token_files(maps: TokenMaps, recipe: TabRecipe, note: str = "") -> dict[str, bytes]:
    """The five files by their names; equal inputs give equal bytes.

    Args:
        maps: what is shown.
        recipe: how it is drawn, and what the words below name.
        note: a further sentence for the figure's caption.

    Raises:
        StudioError: there is no map to draw; it says why.
    """
    style = recipe.style
    assert isinstance(style, TokenStyle)
    reasons = [why for row in maps.rows for why in _reasons(row.panels, style) or [row.message]]
    if all(reasons):
        raise StudioError(next(iter(reasons), "There is no map: read a prompt first."))
    drawn = token_figure(maps, recipe, note)
    return {
        "figure.png": png_bytes(drawn),
        "figure.svg": svg_text(drawn).encode("utf-8"),
        "arrays.npz": npz_bytes(token_arrays(maps, style)),
        "numbers.csv": token_numbers(maps).encode("utf-8", "replace"),
        "recipe.json": recipe.text().encode("utf-8", "replace"),
    }


def token_arrays(maps: TokenMaps, style: TokenStyle) -> dict[str, np.ndarray]:
    """All arrays of the maps; panels are counted from 0, model by model.

    `panel0_a1` (H, N, N) is A or A1 of each head, map[query, key]; `panel0_subtracted` (H, N, N) is λA2, where there is
    one; `panel0_drawn` (N, N) is what the figure draws, NaN where it is masked; `panel0_masked` (N, N) is true where a
    query cannot see a key; `panel0_tokens` (N,) are the tokens as text, `panel0_readout` the row that is read out.
    """
    arrays: dict[str, np.ndarray] = {}
    for at, (panel, head) in enumerate(_panels(maps, style)):
        if panel.first is None or panel.masked is None:
            continue
        found = {"a1": panel.first[1:], "masked": panel.masked, "readout": np.array(panel.readout)}
        if panel.subtracted is not None:
            found["subtracted"] = panel.subtracted[1:]
        if not why_nothing(panel, style.which):
            found["drawn"] = drawn_values(panel, style, head).astype(np.float32)
        # As text of a fixed width, which needs no pickle to be read.
        found["tokens"] = np.array([token.encode("utf-8", "replace").decode() for token in panel.tokens])
        arrays |= {f"panel{at}_{name}": np.asarray(values, order="C") for name, values in found.items()}
    return arrays


def token_numbers(maps: TokenMaps) -> str:
    """What the row that is read out reads, a line for each key: of each map, for the mean over heads and each head.

    `weight` and `times_uniform` hold seven digits, and are empty where the key is masked.
    """
    stream = io.StringIO()
    table = csv.writer(stream, lineterminator="\n")
    table.writerow(CSV_COLUMNS)
    for at, (panel, _) in enumerate(_panels(maps, TokenStyle())):
        if panel.masked is None:
            continue
        query = panel.readout
        count = int(readable(panel)[query, 0])
        for which in _MAPS if panel.differential else _MAPS[:1]:
            for slot, line in enumerate(map_of(panel, which)[:, query]):
                start = (at, panel.model, panel.text, maps.layer, map_name(panel, which), slot - 1 if slot else "mean")
                for key, weight in enumerate(line.tolist()):
                    masked = bool(panel.masked[query, key])
                    values = ("", "") if masked else (f"{weight:.7g}", f"{weight * count:.7g}")
                    place = (query, panel.tokens[query], key, panel.tokens[key])
                    table.writerow((*start, *place, int(masked), *values))
    return stream.getvalue()


def _panels(maps: TokenMaps, style: TokenStyle) -> list[tuple[TokenPanel, int]]:
    """All panels, model by model, each with the head that it shows."""
    return [(panel, style.head(at)) for at, row in enumerate(maps.rows) for panel in row.panels]


def _reasons(panels: tuple[TokenPanel, ...], style: TokenStyle) -> list[str]:
    return [why_nothing(panel, style.which) for panel in panels]
