"""Token × token maps as plain settings: what was read, and what of it a page shows."""

from dataclasses import dataclass
from typing import Literal

from models.errors import StudioError
from studio.recipe import Ramp

Which = Literal["weights", "first", "subtracted"]


@dataclass(frozen=True)
class TextSettings:
    """What the tokens of texts read in one layer of the text towers.

    Attributes:
        texts: the prompts.
        models: names of the models whose rows are shown, from top to bottom.
        layer: from 0.

    Raises:
        StudioError: a layer below 0.
    """

    texts: tuple[str, ...]
    models: tuple[str, ...]
    layer: int

    def __post_init__(self) -> None:
        if self.layer < 0:
            raise StudioError(f"Layer {self.layer} does not exist: layers are counted from 0.")

    @property
    def shown(self) -> tuple[str, ...]:
        """Names of the models of the maps."""
        return self.models


@dataclass(frozen=True)
class TokenStyle:
    """What of the maps is shown, and how; the page starts with the same.

    Attributes:
        which: "weights" is A or A1 − λA2, "first" A or A1, "subtracted" λA2.
        heads: of each row, 0 for the mean over heads, 1 for head 0; rows without one show the mean.
        scale: the weight itself, or times the number of keys that the row can read.
        start: whether the first token has its part in the range that all panels share, or is set aside.
        ramp: how values become colours.

    Raises:
        StudioError: a head below 0.
    """

    which: Which = "weights"
    heads: tuple[int, ...] = ()
    scale: Literal["raw", "uniform"] = "uniform"
    start: Literal["in", "aside"] = "in"
    ramp: Ramp = "root"

    def __post_init__(self) -> None:
        if min(self.heads, default=0) < 0:
            raise StudioError(f"heads = {list(self.heads)} must hold 0, the mean over heads, or 1 and more, a head.")

    def head(self, row: int) -> int:
        """What a row shows: 0 for the mean over heads, 1 for head 0."""
        return self.heads[row] if row < len(self.heads) else 0
