"""Token × token maps as plain data: the page, the figure and the files are made from the same."""

from dataclasses import dataclass

import numpy as np

from studio.text_recipe import TokenStyle, Which

NOTHING = "Standard attention subtracts nothing, so there is no λA2."


@dataclass(frozen=True)
class TokenPanel:
    """One prompt as one model's text tower reads it in one layer, N tokens shown.

    Attributes:
        model: the model's title.
        prompt: which prompt, from 0.
        text: the prompt.
        tokens: (N,) as a person reads them.
        readout: the position that the embedding is made from.
        first: A or A1 (1 + H, N, N), the mean over heads and then each head; None with a message.
        subtracted: λA2 likewise; None where nothing is subtracted.
        masked: True (N, N) where a query cannot see a key.
        warnings: what a person should know of the prompt as the model reads it.
        left: which positions are left out, "" for none.
        message: why there is no map, or "".
    """

    model: str
    prompt: int
    text: str
    tokens: tuple[str, ...] = ()
    readout: int = 0
    first: np.ndarray | None = None
    subtracted: np.ndarray | None = None
    masked: np.ndarray | None = None
    warnings: tuple[str, ...] = ()
    left: str = ""
    message: str = ""

    @property
    def heads(self) -> int:
        """How many heads there are."""
        return 0 if self.first is None else len(self.first) - 1

    @property
    def differential(self) -> bool:
        """Whether a second map is subtracted."""
        return self.subtracted is not None


@dataclass(frozen=True)
class TokenRow:
    """One model: its title, what is said of its readout, a panel for each prompt, or why there is none."""

    title: str
    said: str = ""
    panels: tuple[TokenPanel, ...] = ()
    message: str = ""


@dataclass(frozen=True)
class TokenMaps:
    """Maps of one layer: a row for each model, in it a panel for each prompt."""

    layer: int
    prompts: tuple[str, ...]
    rows: tuple[TokenRow, ...]

    @property
    def drawable(self) -> bool:
        """Whether any prompt has a map."""
        return any(not panel.message for row in self.rows for panel in row.panels)

    @property
    def nbytes(self) -> int:
        """What it takes in memory, the texts apart."""
        panels = [panel for row in self.rows for panel in row.panels]
        arrays = [array for each in panels for array in (each.first, each.subtracted, each.masked)]
        return sum(array.nbytes for array in arrays if array is not None)


def why_nothing(panel: TokenPanel, which: Which) -> str:
    """Why a panel has nothing to show of a map, or ""."""
    return panel.message or (NOTHING if which == "subtracted" and not panel.differential else "")


def map_name(panel: TokenPanel, which: Which) -> str:
    """What the map is called in this model."""
    return {"weights": "A1 − λA2", "first": "A1", "subtracted": "λA2"}[which] if panel.differential else "A"


def is_signed(panel: TokenPanel, which: Which) -> bool:
    """Whether values may be negative, so that their range is about zero."""
    return which == "weights" and panel.differential


def map_of(panel: TokenPanel, which: Which) -> np.ndarray:
    """The map (1 + H, N, N) in float64: the mean over heads, then each head."""
    assert panel.first is not None
    if which == "subtracted":
        assert panel.subtracted is not None
        return panel.subtracted.astype(np.float64)
    first = panel.first.astype(np.float64)
    return first if which == "first" or panel.subtracted is None else first - panel.subtracted


def readable(panel: TokenPanel) -> np.ndarray:
    """How many keys each query (N, 1) can read: what a uniform row would share its weight over."""
    assert panel.masked is not None
    return (~panel.masked).sum(1, keepdims=True)


def drawn_values(panel: TokenPanel, style: TokenStyle, head: int) -> np.ndarray:
    """The map (N, N) as it is drawn, NaN where it is masked.

    Args:
        panel: with a map of this kind.
        style: which map, in which scale.
        head: 0 for the mean over heads, 1 for head 0; the last where there are fewer.
    """
    assert panel.masked is not None
    values = map_of(panel, style.which)[min(head, panel.heads)]
    scaled = values * readable(panel) if style.scale == "uniform" else values
    return np.where(panel.masked, np.nan, scaled)


def top_of(values: np.ndarray, style: TokenStyle) -> float:
    """The largest magnitude of drawn values (N, N) that a range must hold; the first token may be set aside."""
    held = values[:, 1:] if style.start == "aside" else values
    return float(np.nanmax(np.abs(held), initial=0.0))
