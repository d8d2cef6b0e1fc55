"""λ over training as plain settings: which runs, and what of them a page shows."""

from dataclasses import dataclass
from typing import Literal

from models.errors import StudioError


@dataclass(frozen=True)
class LambdaRun:
    """One run.

    Attributes:
        title: how a person reads it.
        model: the model that it is of, "" for a log that a person gave.
        log: sha256 of its log, "" where the model's own λ is all that is known.
        kept: steps of which a checkpoint was kept.
        said: what there is to say of it.
    """

    title: str
    model: str = ""
    log: str = ""
    kept: tuple[int, ...] = ()
    said: str = ""


@dataclass(frozen=True)
class LambdaSettings:
    """Runs side by side, from the first."""

    runs: tuple[LambdaRun, ...]

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models, each once."""
        return tuple(dict.fromkeys(run.model for run in self.runs if run.model))

    @property
    def shown(self) -> tuple[str, ...]:
        """Names of the models of the runs."""
        return self.models


@dataclass(frozen=True)
class LambdaStyle:
    """What of the runs is shown; the page starts with the same.

    Attributes:
        axis: what the lines run over.
        terms: whether the two exponential terms have plots of their own.
        layer: the one that is drawn in full colour; None for all.
        hidden: places of the runs that are not drawn.

    Raises:
        StudioError: a layer or a place below 0.
    """

    axis: Literal["samples", "steps"] = "samples"
    terms: bool = False
    layer: int | None = None
    hidden: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if min(self.layer or 0, *self.hidden, 0) < 0:
            raise StudioError(f"layer = {self.layer} and hidden = {list(self.hidden)} are counted from 0.")
