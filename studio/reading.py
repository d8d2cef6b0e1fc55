"""Maps of pictures that were looked at, read off recordings; the model is never run.

These functions answer the browser directly, outside of the queue in which models run, and anyone can call them.
"""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from models import AttentionMaps, Normalizer, StudioError, attention_maps
from models.layout import TokenGrid
from models.projections import Projections
from studio.asked import LayerAsked, Readout, RowAsked, layer_asked, rows_asked
from studio.measures import (
    control_measures,
    mean_over_shuffles,
    panel_measures,
    plain_measures,
    shuffle_orders,
    shuffled_rows,
)
from studio.panels import PART_OF, SOURCES, Kind, looked_at, part_of, slot_map, whole_map
from studio.service import Look, Service, vision_grid
from studio.store import BoundedStore
from studio.value_control import shuffled_value_rows
from studio.view import layer_payload

MAP_BYTES = 128 * 2**20
_READERS = 2
_PATIENCE = 20.0
_CONTROLLED: tuple[Kind, ...] = ("weights", "positive", "negative")


@dataclass(frozen=True)
class ReadLayer:
    """The maps of one layer of one look."""

    look: Look
    projections: Projections
    maps: AttentionMaps

    @property
    def grid(self) -> TokenGrid:
        """What the tokens are."""
        return vision_grid(self.look.model)


class MapReader:
    """Keeps the maps that were read last, in floats, so that numbers follow a map without making it again."""

    def __init__(self, service: Service, capacity: int = MAP_BYTES) -> None:
        self.service = service
        self.layers: BoundedStore[Readout, ReadLayer] = BoundedStore(capacity)
        self._readers = threading.BoundedSemaphore(_READERS)
        # Maps hold the look that they were read from, which may be twenty times their size, and with it the model.
        service.follow(self._let_go)

    def layer(self, readout: Readout) -> ReadLayer | None:
        """The maps of a layer, or None when the recording was let go.

        Raises:
            StudioError: no such layer or source, or too many ask at once.
        """
        look = self.service.looks.get((readout.model, readout.token))
        if look is None:
            return None
        known = self.layers.get(readout)
        if known is not None and known.look is look:
            return known
        if not self._readers.acquire(timeout=_PATIENCE):
            raise StudioError("Many people ask for maps at this moment: move the control again in a few seconds.")
        try:
            projections = look.recording[readout.layer]
            maps = attention_maps(projections, SOURCES[readout.source], Normalizer(readout.alpha))
        finally:
            self._readers.release()
        read = ReadLayer(look, projections, maps)
        self.layers.put(readout, read, sum(part.nbytes for part in (maps.a1, maps.a2) if part is not None))
        if self.service.looks.get((readout.model, readout.token)) is not look:
            # It was let go while its maps were made.
            self._let_go(readout.model, readout.token)
        return read

    def _let_go(self, model: str, token: str | None) -> None:
        self.layers.drop(lambda readout: readout.model == model and token in (None, readout.token))


def layer_server(reader: MapReader) -> Callable[[Any], dict[str, Any]]:
    """The function that the browser calls for the maps of one model's layer."""

    def get_layer(asked: Any) -> dict[str, Any]:
        try:
            wanted: LayerAsked = layer_asked(asked, reader.service.knows)
            read = reader.layer(wanted.readout)
            if read is None:
                return {"evicted": True}
            return layer_payload(read.maps, read.projections, wanted.kinds, wanted.heads)
        except StudioError as error:
            return {"error": str(error)}

    return get_layer


def numbers_server(reader: MapReader) -> Callable[[Any], dict[str, Any]]:
    """The function that the browser calls for the numbers under its panels, with the controls."""

    def get_numbers(asked: Any) -> dict[str, Any]:
        try:
            return {"panels": [_answered(reader, row) for row in rows_asked(asked, reader.service.knows)]}
        except StudioError as error:
            return {"error": str(error)}

    return get_numbers


def _answered(reader: MapReader, row: RowAsked) -> dict[str, Any]:
    """Numbers of one panel, or why there are none: what is wrong with one panel does not empty the others."""
    try:
        read = reader.layer(row.readout)
        return {"evicted": True} if read is None else row_numbers(read, row)
    except StudioError as error:
        return {"error": str(error)}


def row_numbers(read: ReadLayer, row: RowAsked) -> dict[str, Any]:
    """The statistics of what a panel shows, and of the same with A2 shuffled where that says something.

    Returns:
        `measures` and `control`, by name; None is what is undefined.

    Raises:
        StudioError: a kind, head or query that does not exist.
    """
    kind, grid, objects = row.panel.kind, read.grid, read.look.objects

    def picked(name: Kind) -> tuple[Tensor, Tensor]:
        matrix = slot_map(whole_map(read.maps, read.projections, name).float(), row.panel.head)
        return matrix, looked_at(matrix, row.query, row.direction, grid)

    if kind == "value" or read.maps.subtracted is None:
        values = picked(PART_OF.get(kind, kind))[1]
        found = plain_measures(values, _prefix(values, grid), objects)
        return _numbers(found, None if read.maps.subtracted is None else _value_control(read, row))
    _, first = picked("a1")
    matrix, subtracted = picked("subtracted")
    prefix = _prefix(first, grid)
    found = panel_measures(kind, first, subtracted, prefix, objects)
    if kind not in _CONTROLLED:
        return _numbers(found)
    orders = shuffle_orders(matrix.shape[1] - grid.patches, matrix.shape[1])
    at = row.query if row.query is not None else grid.cls
    shuffled = shuffled_rows(matrix, at, row.direction, orders, subtracted)
    return _numbers(found, control_measures(kind, first, shuffled, prefix, objects))


def _value_control(read: ReadLayer, row: RowAsked) -> dict[str, Tensor]:
    """The numbers under a value-weighted panel with A2 shuffled."""
    maps, grid = read.maps, read.grid
    orders = shuffle_orders(maps.a1.shape[-1] - grid.patches, maps.a1.shape[-1])
    rows = shuffled_value_rows(maps, read.projections, orders, row.panel.head, row.query, row.direction, grid)
    return mean_over_shuffles(plain_measures(rows, _prefix(rows, grid), read.look.objects))


def row_values(read: ReadLayer, row: RowAsked) -> Tensor:
    """What a panel shows (Nk,) in floats, before any scale; its last R * C entries are the patches.

    Raises:
        StudioError: as `row_numbers`.
    """
    kind = row.panel.kind
    whole = whole_map(read.maps, read.projections, PART_OF.get(kind, kind)).float()
    return part_of(looked_at(slot_map(whole, row.panel.head), row.query, row.direction, read.grid), kind)


def _prefix(values: Tensor, grid: TokenGrid) -> int:
    """Tokens before the patches; a pooling head may be given fewer than there are."""
    return values.shape[-1] - grid.patches


def _numbers(measures: dict[str, Tensor], control: dict[str, Tensor] | None = None) -> dict[str, Any]:
    def plain(found: dict[str, Tensor]) -> dict[str, float | None]:
        return {name: float(value) if math.isfinite(value) else None for name, value in found.items()}

    return {"measures": plain(measures), "control": plain(control or {})}
