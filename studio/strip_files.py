"""The files of a strip that is taken away: its figure as PNG and SVG, its arrays, its numbers and its recipe."""

import csv
import io

import numpy as np

from models import StudioError
from models.geometry import ImageGeometry
from studio.render.arrays import npz_bytes
from studio.render.raster import png_bytes
from studio.render.strip_figure import strip_figure
from studio.render.vector import svg_text
from studio.scored_texts import words_csv
from studio.strip import Strip, Table
from studio.tab_recipe import TabRecipe

CSV_COLUMNS = ("panel", "title", "of", "measure", "value", "control", "control_is", "written", "control_written")


def strip_files(strip: Strip, recipe: TabRecipe, note: str = "") -> dict[str, bytes]:
    """The files by their names, five and the words and tables where there are some; equal inputs give equal bytes.

    Args:
        strip: what is shown.
        recipe: how it is drawn, and what the words below name.
        note: a further sentence for the figure's caption.

    Raises:
        StudioError: no panel has a map and no text a score; it says why, as the panel does.
    """
    if all(panel.message for panel in strip.panels) and all(each.values is None for each in strip.texts):
        raise StudioError(strip.panels[0].message)
    drawn = strip_figure(strip, recipe, note)
    return {
        "figure.png": png_bytes(drawn),
        "figure.svg": svg_text(drawn).encode("utf-8"),
        "arrays.npz": npz_bytes(strip_arrays(strip)),
        "numbers.csv": strip_numbers(strip).encode("utf-8", "replace"),
        **({"words.csv": words_csv(strip.texts).encode("utf-8", "replace")} if strip.texts else {}),
        **{f"{table.name}.csv": table_csv(table).encode("utf-8", "replace") for table in strip.tables},
        # Lone surrogates, as a raw request may hold them, can be written into no file.
        "recipe.json": recipe.text().encode("utf-8", "replace"),
    }


def strip_arrays(strip: Strip) -> dict[str, np.ndarray]:
    """All arrays of a strip, in float32.

    `panel0` (R, C) are the values of the first panel as they are drawn, NaN where there is none; for classes they are
    indices of the recipe's classes. `panel0_top_left_bottom_right` (R, C, 4) says where its cells lie, in pixels of the
    picture. A panel without a map has none. `panel0_a2_shuffled` (K, R, C) are the same map of the model run with A2
    shuffled, one a fixed shuffle, of which the numbers under the panel are the mean; NaN for a run without a map.
    `panel0_words` (n,) are the scores of the tokens of its text, as words.csv
    names them, NaN for tokens that are no words.
    """
    arrays: dict[str, np.ndarray] = {}
    for at, panel in enumerate(strip.panels):
        if not panel.message:
            arrays[f"panel{at}"] = panel.values
            arrays[f"panel{at}_top_left_bottom_right"] = cell_boxes(panel.geometry, *panel.values.shape)
            if panel.shuffled is not None:
                arrays[f"panel{at}_a2_shuffled"] = panel.shuffled
    arrays |= {f"panel{at}_words": each.values for at, each in enumerate(strip.texts) if each.values is not None}
    return {name: np.ascontiguousarray(values, dtype=np.float32) for name, values in arrays.items()}


def cell_boxes(geometry: ImageGeometry, rows: int, cols: int) -> np.ndarray:
    """Boxes (rows, cols, 4) of equal cells over what the model saw: top, left, bottom, right in original pixels."""
    top, left, bottom, right = geometry.seen_box
    y, x = np.linspace(top, bottom, rows + 1), np.linspace(left, right, cols + 1)
    sides = np.meshgrid(y[:-1], x[:-1], indexing="ij"), np.meshgrid(y[1:], x[1:], indexing="ij")
    return np.stack([*sides[0], *sides[1]], axis=-1)


def strip_numbers(strip: Strip) -> str:
    """The numbers of all panels as a table: a line for each and, where it has controls, one for each control.

    `value` and `control` hold seven digits, all that float32 has, and are empty where a fact is no number or undefined;
    `written` and `control_written` are as a person reads them.
    """
    stream = io.StringIO()
    table = csv.writer(stream, lineterminator="\n")
    table.writerow(CSV_COLUMNS)
    for at, panel in enumerate(strip.panels):
        for fact in panel.facts:
            beside = [
                (_digits(number), name, written)
                for number, name, written in zip(
                    fact.numbers or (None,) * len(fact.controls), panel.controls, fact.controls, strict=False
                )
                if written
            ]
            for control, name, written in beside or [("", "", "")]:
                start = (at, panel.title, panel.of, fact.label, _digits(fact.number))
                table.writerow((*start, control, name, fact.value, written))
    return stream.getvalue()


def table_csv(table: Table) -> str:
    """A table as CSV, its numbers with seven digits."""
    stream = io.StringIO()
    written = csv.writer(stream, lineterminator="\n")
    written.writerow(table.columns)
    written.writerows([each if isinstance(each, str) else _digits(each) for each in row] for row in table.rows)
    return stream.getvalue()


def _digits(value: float | None) -> str:
    return "" if value is None or value != value else f"{value:.7g}"
