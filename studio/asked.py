"""What the browser asks of the server, checked: anyone can send anything."""

from dataclasses import dataclass
from typing import Any

from models import StudioError
from studio.panels import DIRECTIONS, MOST, NO_MODEL, PART_OF, SOURCES, Direction, Kind, Known, Panel, checked_panel

ALPHA_STEPS = 20  # alpha is taken in steps of 1 / 20, which bounds the number of different answers
LONGEST_TEXT = 400


@dataclass(frozen=True)
class Readout:
    """Which maps of one model: those of a layer, as recomputed off the unmodified run.

    Attributes:
        model: the model's name.
        token: the picture's.
        layer: counted from 0.
        alpha: of the normaliser.
        source: what makes the scores, a key of `studio.panels.SOURCES`.
    """

    model: str
    token: str
    layer: int
    alpha: float = 1.0
    source: str = "qk"


@dataclass(frozen=True)
class LayerAsked:
    """A request for the maps of one model: kinds and heads of the panels that show it."""

    readout: Readout
    kinds: tuple[Kind, ...]
    heads: tuple[int | None, ...]


@dataclass(frozen=True)
class RowAsked:
    """A request for the numbers under one panel; `query` is a token, None for the readout."""

    readout: Readout
    panel: Panel
    query: int | None
    direction: Direction


def layer_asked(asked: Any, known: Known) -> LayerAsked:
    """A request for a layer.

    Raises:
        StudioError: it is not a request as the viewer sends it.
    """
    asked = _object(asked, "a layer")
    kinds, heads = asked.get("kinds"), asked.get("heads")
    if not isinstance(kinds, list) or not isinstance(heads, list) or not 0 < len(kinds) <= MOST or len(heads) > MOST:
        raise StudioError(f"A request for a layer names up to {MOST} kinds of map and up to {MOST} heads.")
    panels = [checked_panel({"model": asked.get("model"), "kind": kind, "head": "mean"}, known) for kind in kinds]
    shown = [checked_panel({"model": asked.get("model"), "kind": "weights", "head": head}, known) for head in heads]
    drawn: dict[Kind, None] = dict.fromkeys(PART_OF.get(panel.kind, panel.kind) for panel in panels)
    return LayerAsked(
        _readout(asked, known), tuple(drawn), tuple(dict.fromkeys(panel.head for panel in shown)) or (None,)
    )


def rows_asked(asked: Any, known: Known) -> list[RowAsked]:
    """A request for the numbers under all panels.

    Raises:
        StudioError: it is not a request as the viewer sends it.
    """
    asked = _object(asked, "numbers")
    rows = asked.get("panels")
    if not isinstance(rows, list) or not 0 < len(rows) <= MOST:
        raise StudioError(f"A request for numbers names 1 to {MOST} panels.")
    direction = asked.get("direction")
    if direction not in DIRECTIONS:
        raise StudioError(f"There is no such direction: choose {' or '.join(DIRECTIONS)}.")
    return [_row(row, asked, direction, known) for row in rows]


def _row(row: Any, asked: dict, direction: Direction, known: Known) -> RowAsked:
    panel = checked_panel(row, known)
    query = row.get("query")
    if query is not None and (not isinstance(query, int) or isinstance(query, bool)):
        raise StudioError("The query of a panel is the number of a token, or null for the readout.")
    return RowAsked(_readout(asked | {"model": panel.model}, known), panel, query, direction)


def text_asked(text: Any) -> str:
    """A text that relevance is asked for.

    Raises:
        StudioError: it is none, empty or too long.
    """
    if not isinstance(text, str) or not text.strip():
        raise StudioError("The text for relevance is empty: write what the picture is to be compared with.")
    if len(text) > LONGEST_TEXT:
        raise StudioError(f"The text has {len(text)} characters, at most {LONGEST_TEXT} are taken: shorten it.")
    # Lone surrogates, as a raw request may hold them, can be neither tokenised nor sent back.
    return text.strip().encode("utf-8", "replace").decode("utf-8")


def token_asked(token: Any) -> str:
    """A picture's token.

    Raises:
        StudioError: it does not look like one.
    """
    if not isinstance(token, str) or len(token) != 32:
        raise StudioError("The picture's token is not one that this page gave: choose the picture again.")
    return token


def alpha_asked(alpha: Any) -> float:
    """alpha, rounded to the steps that are answered.

    Raises:
        StudioError: it is no number from 1 to 2.
    """
    if not isinstance(alpha, int | float) or isinstance(alpha, bool) or not 1 <= alpha <= 2:
        raise StudioError("alpha must be a number; outside [1, 2] there is none: 1 is softmax, 2 is sparsemax.")
    return round(alpha * ALPHA_STEPS) / ALPHA_STEPS


def models_asked(asked: Any, known: Known, most: int = MOST) -> list[str]:
    """Names of models, each once; what is not here, and what is too much, is left out."""
    listed = asked if isinstance(asked, list) else []
    return list(dict.fromkeys(name for name in listed if isinstance(name, str) and known(name)))[:most]


def _object(asked: Any, what: str) -> dict:
    if not isinstance(asked, dict):
        raise StudioError(f"A request for {what} is an object with token, model, layer and alpha.")
    return asked


def _readout(asked: dict, known: Known) -> Readout:
    model, layer, source = asked.get("model"), asked.get("layer"), asked.get("source", "qk")
    if not isinstance(model, str) or not known(model):
        raise StudioError(NO_MODEL)
    token = token_asked(asked.get("token"))
    if not isinstance(layer, int) or isinstance(layer, bool):
        raise StudioError("The layer must be a whole number.")
    if not isinstance(source, str) or source not in SOURCES:
        raise StudioError(f"There is no such source of scores: choose {', '.join(SOURCES)}.")
    return Readout(model, token, layer, alpha_asked(asked.get("alpha")), source)
