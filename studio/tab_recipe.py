"""The maps of a tab as plain settings: what was run there over which picture, and what was found when it was made.

As `studio.recipe` is for Compare. The file is JSON; `python -m studio render recipe.json OUT` runs the tab's own
functions with these settings and draws the same maps again.
"""

import json
import math
from dataclasses import asdict, dataclass
from typing import Literal

from models.errors import StudioError
from models.plain import from_plain
from studio.recipe import OPACITY, VERSION, Drawing, Found, Picture, Ramp

Tab = Literal["sparsity", "segmentation", "explain", "intervene"]
Side = Literal["left", "right"]


@dataclass(frozen=True)
class SparsitySettings:
    """Maps of the Sparsity tab; the fields are those of `studio.sparsity_view.Controls`.

    Attributes:
        painted: a mask that was painted, as a PNG in a data URL, or "".
        mask: sha256 of an uploaded mask's pixels, as `picture_token` gives it, or "".
    """

    mode: str
    models: tuple[str, str]
    alpha: float
    match: str
    keep: float | None
    source: str
    everywhere: bool
    layer: int
    left_head: str
    right_head: str
    query: str
    classes: str
    template: str
    named: str
    painted: str = ""
    mask: str = ""

    @property
    def shown(self) -> tuple[str, ...]:
        """Names of the models that the strip shows."""
        return self.models


@dataclass(frozen=True)
class SegmentationSettings:
    """The picture segmented by typed classes; the fields are those of the Sparsity tab.

    Attributes:
        painted, mask: as in `SparsitySettings`.
        side: of which model the strip is.
        ready: how many columns of both models were ready, one at least.
    """

    preset: str
    models: tuple[str, str]
    background: float
    rules: tuple[str, ...]
    alpha: float
    classes: str
    template: str
    named: str
    side: Side
    ready: int
    painted: str = ""
    mask: str = ""

    @property
    def shown(self) -> tuple[str, ...]:
        """Names of the models that the strip shows; the other one has its part in the choice of the colours."""
        return (self.models[0 if self.side == "left" else 1],)


@dataclass(frozen=True)
class ExplainSettings:
    """What speaks for texts, by one method; the fields are those of `studio.explain_all.method_of`.

    Attributes:
        prompts: the texts.
        detail: "patches" or "pixels".
        ready: how many explanations were ready, one at least: prompt by prompt, left model then right.
        controls: how many of them had their control with A2 shuffled, in the same order.
    """

    prompts: tuple[str, ...]
    models: tuple[str, str]
    method: str
    part: str
    rule: str
    back: int
    steps: int
    baseline: str
    detail: str
    ready: int
    controls: int = 0

    @property
    def shown(self) -> tuple[str, ...]:
        """Names of the models that the strip shows."""
        return self.models


@dataclass(frozen=True)
class TowerEdits:
    """Edits of one tower: λ by layer, None for its own; which A2; (layer, head) of the heads that are ablated."""

    lam: tuple[float | None, ...] = ()
    a2: str = "learned"
    off: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class EditedModel:
    """One model with its edits."""

    model: str
    vision: TowerEdits
    text: TowerEdits


@dataclass(frozen=True)
class InterveneSettings:
    """Maps before and after interventions.

    Attributes:
        edits: of the models that ran, from left to right.
        layer, head, part: which map, as `studio.intervened_maps.map_choice` takes them.
        other: the picture whose A2 was put in, or None where none was.
    """

    edits: tuple[EditedModel, ...]
    layer: int
    head: str
    part: str
    other: Picture | None = None

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models, each once."""
        return tuple(dict.fromkeys(each.model for each in self.edits))

    @property
    def shown(self) -> tuple[str, ...]:
        """Names of the models that the strip shows."""
        return self.models


Settings = SparsitySettings | SegmentationSettings | ExplainSettings | InterveneSettings
TABS: dict[type[Settings], Tab] = {
    SparsitySettings: "sparsity",
    SegmentationSettings: "segmentation",
    ExplainSettings: "explain",
    InterveneSettings: "intervene",
}


@dataclass(frozen=True)
class Style:
    """How maps are drawn: none of it changes a number.

    Attributes:
        drawing: one colour a cell, or interpolated between cells.
        ramp: how values become colours.
        opacity: of the colours over the picture, 0 to 1.
    """

    drawing: Drawing = "patches"
    ramp: Ramp = "root"
    opacity: float = OPACITY

    def __post_init__(self) -> None:
        if not math.isfinite(self.opacity) or not 0 <= self.opacity <= 1:
            raise StudioError(f"opacity = {self.opacity} must be a number from 0, the picture alone, to 1.")


@dataclass(frozen=True)
class TabRecipe:
    """One strip of maps: the tab, the picture, the settings, the models as they were found, versions of packages.

    Raises:
        StudioError: another version, settings of another tab, or a model that is not described.
    """

    version: int
    tab: Tab
    picture: Picture
    settings: Settings
    style: Style
    models: tuple[Found, ...]
    packages: dict[str, str]

    def __post_init__(self) -> None:
        if self.version != VERSION:
            raise StudioError(f"The recipe has version {self.version}, this program reads {VERSION}: get another one.")
        if TABS[type(self.settings)] != self.tab:
            raise StudioError(
                f"The recipe is one of the tab {self.tab!r} with settings of {TABS[type(self.settings)]!r}: take the "
                "file that was taken away."
            )
        if getattr(self.settings, "ready", 1) < 1:
            raise StudioError("The recipe's settings.ready must be 1 or more: at least one map was there.")
        names = [found.name for found in self.models]
        if sorted(names) != sorted(set(self.settings.models)):
            raise StudioError(
                f"The recipe describes the models {', '.join(names) or 'none'}, its settings name "
                f"{', '.join(self.settings.models)}: each must be described once."
            )
        if not all(isinstance(text, str) for item in self.packages.items() for text in item):
            raise StudioError("recipe.packages must map names of packages to their versions.")

    def text(self) -> str:
        """The recipe as JSON."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"


def read_tab_recipe(data: object) -> TabRecipe:
    """A recipe from what its JSON holds, every key and type checked.

    Raises:
        StudioError: it is not a recipe of a tab; the message names the key.
    """
    return from_plain(TabRecipe, data, "recipe")
