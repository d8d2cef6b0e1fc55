"""What a panel of Compare shows: a map of a layer by its kind, and the row or the column of it that is looked at.

Pure functions from the maps of one layer to tensors. A map is (slots, Nq, Nk): the mean over heads first, then each
head, so that slot h + 1 is head h.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from models import AttentionMaps, LoadedModel, StudioError
from models.contributions import value_weighted
from models.layout import TokenGrid
from models.projections import Projections

Kind = Literal["weights", "a1", "subtracted", "positive", "negative", "relevance", "value"]
Direction = Literal["reads", "read by"]
KINDS: tuple[Kind, ...] = get_args(Kind)
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
FEWEST, MOST = 2, 4
Known = Callable[[object], bool]
NO_MODEL = "There is no such model here: choose one of those that the page offers, or bring it."
# Kinds that are read off the map of another kind, by taking its positive or its negative part.
PART_OF: dict[Kind, Kind] = {"positive": "weights", "negative": "weights"}
# Maps of several sources are summed after the softmax, so that rows sum to their number: QQ + KK is SCLIP's, all three
# self-correlations are what GEM and CLIPtrase average. VV, and so the sum with it, exists for a single map alone.
SOURCES: dict[str, tuple[str, ...]] = {
    "qk": ("qk",),
    "qq": ("qq",),
    "kk": ("kk",),
    "vv": ("vv",),
    "qq+kk": ("qq", "kk"),
    "qq+kk+vv": ("qq", "kk", "vv"),
}


@dataclass(frozen=True)
class Panel:
    """One panel.

    Attributes:
        model: name of the model.
        kind: which map: "weights" is A of CLIP and A1 - lambda A2 of DiffCLIP.
        head: the head, or None for the mean over heads.
        own: whether it has a colour range of its own.
    """

    model: str
    kind: Kind
    head: int | None = None
    own: bool = False

    def plain(self) -> dict[str, Any]:
        """As the browser holds it."""
        return {"model": self.model, "kind": self.kind, "head": "mean" if self.head is None else self.head} | (
            {"own": True} if self.own else {}
        )


def kinds_of(differential: bool) -> tuple[Kind, ...]:
    """The kinds that exist for a model: one with a single map has no A1, nothing subtracted and no signs."""
    return KINDS if differential else ("weights", "relevance", "value")


def default_panels(left: LoadedModel, right: LoadedModel) -> list[Panel]:
    """What is shown of two models at first: A of a standard one; A1, lambda A2 and the difference of a differential."""
    both = left.vision.differential and right.vision.differential
    differential: tuple[Kind, ...] = ("a1", "weights") if both else ("a1", "subtracted", "weights")
    return [
        Panel(model.name, kind)
        for model in (left, right)
        for kind in (differential if model.vision.differential else ("weights",))
    ]


def whole_map(maps: AttentionMaps, projections: Projections, kind: Kind) -> Tensor:
    """The map of a kind (H, Nq, Nk), of a batch of one.

    Raises:
        StudioError: a kind that is not a map of a layer, or that these maps do not have.
        UndefinedMapError: value-weighted maps behind a norm that does not allow it.
    """
    if kind == "value":
        return value_weighted(projections, maps.weights)[0]
    if kind == "weights" or kind == "a1" or kind == "subtracted":
        return maps.part(kind)[0]
    raise StudioError(f"{kind!r} is no map of one layer: ask for one of weights, a1, subtracted, value.")


def with_mean(heads: Tensor) -> Tensor:
    """(H, Nq, Nk) -> (1 + H, Nq, Nk): the mean over heads first, then each head."""
    return torch.cat([heads.mean(0, keepdim=True), heads])


def slot_map(heads: Tensor, head: int | None) -> Tensor:
    """One head of (H, Nq, Nk), or their mean, (Nq, Nk).

    Raises:
        StudioError: no such head.
    """
    if head is None:
        return heads.mean(0)
    if not 0 <= head < heads.shape[0]:
        raise StudioError(f"Head {head} does not exist: choose 0-{heads.shape[0] - 1}, or the mean.")
    return heads[head]


def part_of(values: Tensor, kind: Kind) -> Tensor:
    """What a kind takes of the map that it is read off: its positive part, the size of its negative part, or all."""
    if kind == "positive":
        return values.clamp(min=0)
    return values.clamp(max=0).abs() if kind == "negative" else values


def looked_at(values: Tensor, query: int | None, direction: Direction, grid: TokenGrid) -> Tensor:
    """The row that a token reads, (..., Nk), or the column of who reads it, (..., Nq), of a map (..., Nq, Nk).

    Without a query it is that of what the picture is read out from: the CLS token; in a tower without one, the mean of
    what all patches read; in a pooling head its learned query, which reads for every query.

    Raises:
        StudioError: the query does not exist, or nobody or nothing is meant: see the message.
    """
    queries, keys = values.shape[-2:]
    pooling = queries == 1 < keys
    if direction == "read by":
        if pooling:
            raise StudioError("In this layer one learned query alone reads the patches: choose what it reads.")
        if query is None and grid.cls is None:
            raise StudioError("This model has no CLS token: choose a patch to see which tokens read it.")
    if query is not None and not 0 <= query < grid.tokens:
        raise StudioError(f"Token {query} does not exist: choose 0-{grid.tokens - 1}.")
    if pooling:
        return values[..., 0, :]
    if query is None and grid.cls is None:
        return values[..., grid.prefix :, :].mean(-2)
    at = query if query is not None else grid.cls
    assert at is not None
    return values[..., at, :] if direction == "reads" else values[..., :, at]


def checked_panel(asked: Any, known: Known) -> Panel:
    """A panel as the browser or a link names it; `known` tells whether a model is here.

    Raises:
        StudioError: it is none, or of a model that is not here.
    """
    if not isinstance(asked, dict):
        raise StudioError("A panel is an object with model, kind and head.")
    model, kind, head = (asked.get(key) for key in ("model", "kind", "head"))
    if not isinstance(model, str) or not known(model):
        raise StudioError(NO_MODEL)
    if kind not in KINDS:
        raise StudioError(f"There is no such kind of map: choose {', '.join(KINDS)}.")
    if head != "mean" and (not isinstance(head, int) or isinstance(head, bool) or head < 0):
        raise StudioError("The head of a panel is “mean” or a whole number from 0.")
    return Panel(model, kind, None if head == "mean" else head, asked.get("own") is True)
