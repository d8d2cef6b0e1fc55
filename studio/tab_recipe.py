"""What a tab shows as plain settings: what was run there over which picture, and what was found when it was made.

As `studio.recipe` is for Compare. The file is JSON; `python -m studio render recipe.json OUT` runs the tab's own
functions with these settings and draws the same maps or curves again.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from models.errors import StudioError
from models.plain import from_plain
from studio.chart_recipe import AlphaSweepSettings, DuelSettings, EditedModel, LambdaSweepSettings
from studio.lambda_recipe import LambdaSettings, LambdaStyle
from studio.recipe import OPACITY, VERSION, Drawing, Found, Picture, Ramp
from studio.text_recipe import TextSettings, TokenStyle

Tab = Literal[
    "sparsity",
    "segmentation",
    "explain",
    "intervene",
    "alpha-sweep",
    "lambda-sweep",
    "duel",
    "text",
    "lambda",
]
Side = Literal["left", "right"]


@dataclass(frozen=True)
class SparsitySettings:
    """Maps of the Sparsity tab; the fields are those of `studio.sparsity_sides.Controls`.

    Attributes:
        painted: a mask that was painted, as a PNG in a data URL, or "".
        mask: sha256 of an uploaded mask's pixels, as `picture_token` gives it, or "".
        tables: whether the tables by layer and head were there.
        answers: how many runs for what the models say were ready, left model then right; none of a readout.
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
    tables: bool = False
    answers: int = 0

    def __post_init__(self) -> None:
        if self.answers < 0 or (self.answers and self.mode == "readout"):
            raise StudioError(
                f"The recipe's settings.answers = {self.answers} cannot be: of an intervention it is 0 or more, and a "
                "readout has none."
            )

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
class InterveneSettings:
    """Maps before and after interventions.

    Attributes:
        edits: of the models that ran, from left to right.
        layer, head, part: which map, as `studio.intervened_maps.map_choice` takes them.
        other: the picture whose A2 was put in, or None where none was.
        classes, template: of the similarities before and after, as they were typed; "" where there is no class.
    """

    edits: tuple[EditedModel, ...]
    layer: int
    head: str
    part: str
    other: Picture | None = None
    classes: str = ""
    template: str = ""

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models, each once."""
        return tuple(dict.fromkeys(each.model for each in self.edits))

    @property
    def shown(self) -> tuple[str, ...]:
        """Names of the models that the strip shows."""
        return self.models


# A recipe's settings are known by the name of their first field, which no class before it has.
RunSettings = (
    SparsitySettings
    | SegmentationSettings
    | ExplainSettings
    | InterveneSettings
    | AlphaSweepSettings
    | LambdaSweepSettings
    | DuelSettings
    | TextSettings
)
# λ over training is read off logs; no model is run for it.
Settings = RunSettings | LambdaSettings
TABS: dict[type[Settings], Tab] = {
    SparsitySettings: "sparsity",
    SegmentationSettings: "segmentation",
    ExplainSettings: "explain",
    InterveneSettings: "intervene",
    AlphaSweepSettings: "alpha-sweep",
    LambdaSweepSettings: "lambda-sweep",
    DuelSettings: "duel",
    TextSettings: "text",
    LambdaSettings: "lambda",
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


# How results are drawn that are no maps over a picture; None where there is nothing to choose.
AnyStyle = Style | TokenStyle | LambdaStyle
STYLES: dict[type[Settings], type[AnyStyle] | None] = {
    AlphaSweepSettings: None,
    LambdaSweepSettings: None,
    DuelSettings: None,
    TextSettings: TokenStyle,
    LambdaSettings: LambdaStyle,
}


def style_of(settings: Settings, chosen: Mapping[str, object], where: str) -> AnyStyle | None:
    """The style of a result with these settings from what a page sent.

    Raises:
        StudioError: a choice that there is not; it names the key.
    """
    kind = STYLES.get(type(settings), Style)
    if kind is None:
        if chosen:
            raise StudioError(f"{where} has {', '.join(map(repr, chosen))}: of this figure nothing can be chosen.")
        return None
    return from_plain(kind, chosen, where)


@dataclass(frozen=True)
class TabRecipe:
    """One result of a tab: the picture, the settings, the models as they were found, versions of packages.

    Attributes:
        picture: None for a result that is of no picture.
        style: None where there is nothing to choose.

    Raises:
        StudioError: another version, settings of another tab, or a model that is not described.
    """

    version: int
    tab: Tab
    picture: Picture | None
    settings: Settings
    style: AnyStyle | None
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
        if type(self.style) is not (STYLES.get(type(self.settings), Style) or type(None)):
            raise StudioError(f"The recipe's style does not fit the tab {self.tab!r}: take the file as it was given.")
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

    @property
    def over(self) -> tuple[Picture, Style]:
        """The picture and the style of maps over a picture.

        Raises:
            StudioError: it is no recipe of such maps, or lacks its picture.
        """
        if self.picture is None or not isinstance(self.style, Style):
            raise StudioError(f"The recipe of the tab {self.tab!r} has no picture: take the file as it was given.")
        return self.picture, self.style

    def text(self) -> str:
        """The recipe as JSON."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"


def read_tab_recipe(data: object) -> TabRecipe:
    """A recipe from what its JSON holds, every key and type checked.

    Raises:
        StudioError: it is not a recipe of a tab; the message names the key.
    """
    return from_plain(TabRecipe, data, "recipe")
