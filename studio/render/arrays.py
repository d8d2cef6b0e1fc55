"""What a figure is made from, as arrays and as a table: for those who want to draw or count it anew."""

import csv
import io
import zipfile
from collections.abc import Mapping, Sequence

import numpy as np

from models import Normalizer, attention_maps
from studio.panels import SOURCES
from studio.recipe import Recipe, View
from studio.render.numbers import numbers_of
from studio.render.ranges import Shown
from studio.service import Look, vision_grid

# The oldest date that a zip can hold, so that the same content has the same bytes.
_EPOCH = (1980, 1, 1, 0, 0, 0)


def arrays_of(recipe: Recipe, looks: Mapping[str, Look], shown: Sequence[Shown]) -> dict[str, np.ndarray]:
    """All arrays of a figure, in float32; nothing is run.

    `panel0_row` (Nk,) is the raw row or column with prefix tokens first, `panel0_patches` (R, C) its patches,
    `panel0_drawn` (R, C) what is drawn in the recipe's scale, `panel0_map` (Nq, Nk) the map it is from. `model0_a1`,
    `model0_a2` (H, Nq, Nk) and `model0_lam` are the layer of `recipe.models[0]`; `model0_top_left_bottom_right`
    (R, C, 4) says where its patches lie, in pixels of the picture.

    Args:
        recipe: what is drawn.
        looks: model name -> what it did with the recipe's picture.
        shown: its panels.
    """
    arrays: dict[str, np.ndarray] = {}
    for index, panel in enumerate(shown):
        arrays |= {f"panel{index}_{name}": values for name, values in _panel_arrays(panel).items()}
    for index, found in enumerate(recipe.models):
        if found.name in looks:
            values = _model_arrays(recipe.view, looks[found.name])
            arrays |= {f"model{index}_{name}": array for name, array in values.items()}
    return {name: np.ascontiguousarray(values, dtype=np.float32) for name, values in arrays.items()}


def _panel_arrays(panel: Shown) -> dict[str, np.ndarray]:
    reading = panel.reading
    if reading.message:
        return {}
    arrays = {"row": reading.row.numpy(), "patches": reading.patches.numpy(), "drawn": panel.values}
    if reading.full.numel():
        arrays["map"] = reading.full.numpy()
    return arrays


def _model_arrays(view: View, look: Look) -> dict[str, np.ndarray]:
    grid = vision_grid(look.model)
    boxes = [look.geometry.patch_box(row, col, grid) for row in range(grid.rows) for col in range(grid.cols)]
    arrays = {"top_left_bottom_right": np.reshape(boxes, (grid.rows, grid.cols, 4))}
    if view.layer < look.model.vision.layers:
        maps = attention_maps(look.recording[view.layer], SOURCES[view.source], Normalizer(view.alpha))
        arrays["a1"] = maps.a1[0].numpy()
        if maps.a2 is not None and maps.lam is not None:
            arrays |= {"a2": maps.a2[0].numpy(), "lam": maps.lam.reshape(maps.lam.shape[-3:]).numpy()}
    return arrays


def npz_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Arrays as a file for `numpy.load`; equal arrays give equal bytes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, values in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, values, allow_pickle=False)
            archive.writestr(zip_entry(f"{name}.npy"), member.getvalue())
    return stream.getvalue()


def zip_entry(name: str) -> zipfile.ZipInfo:
    """The entry of a zip for a file, the same whenever and wherever it is written."""
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.create_system, entry.external_attr, entry.compress_type = 3, 0o644 << 16, zipfile.ZIP_DEFLATED
    return entry


CSV_COLUMNS = (
    *("panel", "model", "title", "map", "head", "layer", "query", "direction"),
    *("alpha", "source", "measure", "value", "control_a2_shuffled"),
)


def numbers_csv(recipe: Recipe, shown: Sequence[Shown]) -> str:
    """The numbers of all panels as a table, one a line; empty where undefined or where there is no control."""
    stream = io.StringIO()
    table = csv.writer(stream, lineterminator="\n")
    table.writerow(CSV_COLUMNS)
    view = recipe.view
    for index, panel in enumerate(shown):
        reading = panel.reading
        start = [index, reading.panel.model, reading.look.model.title, reading.name, reading.panel.head]
        place = [view.layer, reading.query, view.direction, f"{view.alpha:g}", view.source]
        if reading.group == "relevance":
            # It is of no layer, head or query alone, and is always that of the model's own maps.
            start[-1], place = "", ["", reading.query, "", "1", "qk"]
        for number in numbers_of(reading):
            table.writerow([*start, *place, number.measure, _figure(number.value), _figure(number.control)])
    return stream.getvalue()


def _figure(value: float | None) -> str:
    """Seven digits, all that float32 holds."""
    return "" if value is None else f"{value:.7g}"
