"""What each panel of a figure shows: one row or column of one map, read off a recording; no model is run.

Where a panel has nothing to show, its reading holds a sentence instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from models import Normalizer, StudioError, attention_maps, statistics
from models.layout import TokenGrid
from studio.asked import Readout, RowAsked
from studio.measures import plain_measures
from studio.panels import PART_OF, SOURCES, kinds_of, part_of, slot_map, whole_map
from studio.panels import Panel as MapPanel
from studio.reading import ReadLayer, row_numbers, row_values
from studio.recipe import Panel, View
from studio.service import Look, vision_grid
from studio.speaking import RELEVANCE_MEASURES, plain

Measures = Mapping[str, float | None]


@dataclass(frozen=True)
class Spoken:
    """Relevance of a model's patches (R * C,), numbers of it with A2 shuffled where they were asked for, and the cosine
    similarity of picture and text, None where it is not known.
    """

    patches: Tensor
    control: Measures = field(default_factory=dict)
    similarity: float | None = None


Relevances = Mapping[str, Spoken]


@dataclass(frozen=True)
class Reading:
    """One panel.

    Attributes:
        panel: what was asked for.
        look: what its model did with the picture.
        name: of the map, as "A1 − λA2".
        query: whose row or column it is, in words.
        patch: (row, column) of the query where it is a patch, on this model's grid.
        row: (Nk,) raw values of all tokens, prefix first; () with a message. Lambda A2 keeps its sign.
        full: (Nq, Nk) the map that the row is from; () for relevance, which is one row.
        sinks: True (Nk,) for the sinks of this map.
        measures: its statistics by name, None where undefined.
        control: the same with A2 shuffled over the patches, where that says something and, for relevance, was asked
            for.
        message: why there is nothing to draw, or "".
    """

    panel: Panel
    look: Look
    name: str
    query: str = ""
    patch: tuple[int, int] | None = None
    row: Tensor = field(default_factory=lambda: torch.empty(0))
    full: Tensor = field(default_factory=lambda: torch.empty(0))
    sinks: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.bool))
    measures: Measures = field(default_factory=dict)
    control: Measures = field(default_factory=dict)
    message: str = ""

    @property
    def grid(self) -> TokenGrid:
        """What the tokens are."""
        return vision_grid(self.look.model)

    @property
    def group(self) -> str:
        """What the values are: "weights", "value" or "relevance"; one range serves one of them."""
        return self.panel.kind if self.panel.kind in ("value", "relevance") else "weights"

    @property
    def signed(self) -> bool:
        """Whether the values run both ways from zero."""
        return self.panel.kind == "weights" and self.look.model.vision.differential

    @property
    def prefix(self) -> int:
        """How many entries of the row stand before the patches; a pooling head may be given fewer tokens."""
        return len(self.row) - self.grid.patches

    @property
    def patches(self) -> Tensor:
        """The patches' part of the row (R, C)."""
        return self.row[self.prefix :].unflatten(0, (self.grid.rows, self.grid.cols))


def readings_of(view: View, looks: Mapping[str, Look], relevances: Relevances) -> tuple[Reading, ...]:
    """All panels of a view.

    Args:
        view: what is looked at.
        looks: name of each of `view.models` -> what it did with the picture.
        relevances: model name -> relevance to the view's text, where it is known.

    Raises:
        StudioError: a kind or a head that the model does not have.
    """
    return tuple(_reading(panel, view, looks, relevances) for panel in view.panels)


def kind_name(kind: str, look: Look) -> str:
    """The name of a kind of map in print.

    Raises:
        StudioError: the model has no such map.
    """
    differential = look.model.vision.differential
    kinds = kinds_of(differential)
    if kind not in kinds:
        raise StudioError(
            f"{look.model.title} subtracts nothing and has no map {kind!r}: choose among {', '.join(kinds)}."
        )
    names = {
        "weights": "A1 − λA2" if differential else "A",
        "a1": "A1",
        "subtracted": "λA2",
        "positive": "A1 − λA2, above 0",
        "negative": "A1 − λA2, below 0",
        "value": "value-weighted",
        "relevance": "relevance",
    }
    return names[kind]


def _reading(panel: Panel, view: View, looks: Mapping[str, Look], relevances: Relevances) -> Reading:
    look = looks[panel.model]
    name, tower = kind_name(panel.kind, look), look.model.vision
    if isinstance(panel.head, int) and panel.head >= tower.heads:
        raise StudioError(f"Head {panel.head} does not exist: {look.model.title} has heads 0-{tower.heads - 1}.")
    if panel.kind == "relevance":
        return _relevance(panel, look, name, view, relevances)
    try:
        return _map_reading(panel, look, name, view, looks)
    except StudioError as error:
        return Reading(panel, look, name, message=str(error))


def _map_reading(panel: Panel, look: Look, name: str, view: View, looks: Mapping[str, Look]) -> Reading:
    projections = look.recording[view.layer]
    read = ReadLayer(look, projections, attention_maps(projections, SOURCES[view.source], Normalizer(view.alpha)))
    patch, token, words = _query(view, look, looks, pooling=projections.pooling)
    head = None if panel.head == "mean" else panel.head
    readout = Readout(panel.model, "", view.layer, view.alpha, view.source)
    asked = RowAsked(readout, MapPanel(panel.model, panel.kind, head), token, view.direction)
    base = slot_map(whole_map(read.maps, projections, PART_OF.get(panel.kind, panel.kind)).float(), head)
    numbers = row_numbers(read, asked)
    return Reading(
        panel,
        look,
        name,
        words,
        patch,
        row_values(read, asked),
        part_of(base, panel.kind),
        statistics.sinks(base),
        numbers["measures"],
        numbers["control"],
    )


def _relevance(panel: Panel, look: Look, name: str, view: View, relevances: Relevances) -> Reading:
    spoken = relevances.get(panel.model)
    if spoken is None:
        return Reading(panel, look, name, message="The relevance to this text is not at hand: show it first.")
    patches, asked = spoken.patches, spoken.control if panel.control else {}
    found = plain_measures(patches, 0, look.objects)
    measures = {} if spoken.similarity is None else {"similarity": spoken.similarity}
    measures |= plain({name: found[name] for name in RELEVANCE_MEASURES if name in found})
    control = {name: asked[name] for name in measures if name in asked}
    sinks = torch.zeros(len(patches), dtype=torch.bool)
    return Reading(panel, look, name, f"“{view.text}”", row=patches, sinks=sinks, measures=measures, control=control)


def _query(
    view: View, look: Look, looks: Mapping[str, Look], *, pooling: bool
) -> tuple[tuple[int, int] | None, int | None, str]:
    """(patch, token, words) of the query on this model's grid; no token where it is what the picture is read out by."""
    grid = vision_grid(look.model)
    if pooling:
        return None, None, "the pooling query"
    if view.query is None:
        return None, None, "CLS" if grid.cls is not None else "the mean of all patches"
    row, col, model = view.query
    place: tuple[int, int] | None = (row, col)
    if looks[model] is look:
        grid.token(row, col)
    else:
        origin = looks[model]
        top, left, bottom, right = origin.geometry.patch_box(row, col, vision_grid(origin.model))
        place = look.geometry.patch_at((top + bottom) / 2, (left + right) / 2, grid)
    if place is None:
        raise StudioError("The query lies outside of what this model saw.")
    return place, grid.token(*place), f"patch ({place[0]}, {place[1]})"
