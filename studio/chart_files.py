"""The files of a chart that is taken away: its figure as PNG and SVG, its arrays, its numbers and its recipe."""

import csv
import io

import numpy as np

from studio.chart import Cell, Chart, Table
from studio.render.arrays import npz_bytes
from studio.render.chart_figure import chart_figure
from studio.render.raster import png_bytes
from studio.render.vector import svg_text
from studio.tab_recipe import TabRecipe


def chart_files(chart: Chart, recipe: TabRecipe, note: str = "") -> dict[str, bytes]:
    """The five files by their names; equal inputs give equal bytes.

    Args:
        chart: what is shown.
        recipe: what the figure's words name.
        note: a further sentence for the figure's caption.
    """
    drawn = chart_figure(chart, recipe, note)
    arrays = {name: np.ascontiguousarray(values) for name, values in chart.arrays.items()}
    return {
        "figure.png": png_bytes(drawn),
        "figure.svg": svg_text(drawn).encode("utf-8"),
        "arrays.npz": npz_bytes(arrays),
        "numbers.csv": table_csv(chart.numbers).encode("utf-8", "replace"),
        # Lone surrogates, as a raw request may hold them, can be written into no file.
        "recipe.json": recipe.text().encode("utf-8", "replace"),
    }


def table_csv(numbers: Table) -> str:
    """A table as CSV: seven digits, all that float32 has, and nothing where there is no number."""
    stream = io.StringIO()
    table = csv.writer(stream, lineterminator="\n")
    table.writerow(numbers.columns)
    table.writerows([_cell(value) for value in row] for row in numbers.rows)
    return stream.getvalue()


def _cell(value: Cell) -> str:
    if value is None or value != value:
        return ""
    return f"{value:.7g}" if isinstance(value, float) else str(value)
