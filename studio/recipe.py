"""A figure as plain settings: which maps of which models over which picture, and what was found when it was made.

A recipe is JSON. Everything that decides what is drawn is in it, so `python -m studio render recipe.json OUT` draws it
again; hashes of the picture and of the weights tell whether it is the same figure.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from models.errors import StudioError
from models.overrides import Overrides
from models.plain import from_plain
from models.preprocess import Preprocess

VERSION = 1
MAX_PANELS = 4
MAX_TEXT = 2000
OPACITY = 0.75  # where nothing is said, as on the page
TOKEN = 32

Kind = Literal["weights", "a1", "subtracted", "positive", "negative", "relevance", "value"]
MapSource = Literal["qk", "qq", "kk", "vv", "qq+kk", "qq+kk+vv"]
Direction = Literal["reads", "read by"]
Scale = Literal["raw", "uniform", "row"]
Ramp = Literal["linear", "root"]
Drawing = Literal["patches", "smooth"]
SetAside = Literal["none", "sinks", "prefix"]
Head = Literal["mean"] | int


@dataclass(frozen=True)
class Panel:
    """One map.

    Attributes:
        model: name of the model.
        kind: which map.
        head: the head, or the mean over heads.
        own: whether its range is its own.
        control: of relevance, whether its numbers stand beside those of the model run with A2 shuffled. Maps off a
            recording always have their control.

    Raises:
        StudioError: a head below 0.
    """

    model: str
    kind: Kind
    head: Head = "mean"
    own: bool = False
    control: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.head, int) and self.head < 0:
            raise StudioError(f"Head {self.head} does not exist: heads are counted from 0, or choose 'mean'.")


@dataclass(frozen=True)
class View:
    """What is looked at: all choices of a figure, apart from the picture.

    Attributes:
        panels: from left to right, one to four.
        layer: from 0, the same in all panels.
        query: None for CLS, or (row, column, model) of a patch; in other models it is the patch on the same pixels.
        direction: "reads" draws the query's row of the map, "read by" its column.
        alpha: of the normaliser, 1 softmax to 2 sparsemax; other than 1 it is a readout.
        source: which vectors make the scores; other than "qk" it is a readout.
        scale: the weight itself, times the number of keys, or divided by the row's sum of magnitudes.
        ramp: how values become colours.
        drawing: one colour a patch, or interpolated between patches.
        set_aside: tokens that the shared range leaves out: none, sinks, or the prefix, whose tokens are no patches.
        text: what relevance is relevance to.
        from_layer: the first layer of relevance, from 0; None for the last layer alone.
        opacity: of the colours over the picture, 0 to 1; it changes how the figure looks and no number.

    Raises:
        StudioError: a value outside of its bounds.
    """

    panels: tuple[Panel, ...]
    layer: int
    query: tuple[int, int, str] | None = None
    direction: Direction = "reads"
    alpha: float = 1.0
    source: MapSource = "qk"
    scale: Scale = "uniform"
    ramp: Ramp = "root"
    drawing: Drawing = "patches"
    set_aside: SetAside = "prefix"
    text: str = ""
    from_layer: int | None = None
    opacity: float = OPACITY

    def __post_init__(self) -> None:
        if not 1 <= len(self.panels) <= MAX_PANELS:
            raise StudioError(f"A figure of {len(self.panels)} panels cannot be made: choose 1 to {MAX_PANELS}.")
        if min(self.layer, self.from_layer or 0) < 0:
            raise StudioError(f"Layer {min(self.layer, self.from_layer or 0)} does not exist: they count from 0.")
        if self.query is not None and min(self.query[:2]) < 0:
            raise StudioError(f"The query {self.query[:2]} is no patch: rows and columns are counted from 0.")
        if not math.isfinite(self.alpha) or not 1 <= self.alpha <= 2:
            raise StudioError(f"alpha = {self.alpha} must be a number from 1 (softmax) to 2 (sparsemax).")
        if not math.isfinite(self.opacity) or not 0 <= self.opacity <= 1:
            raise StudioError(f"opacity = {self.opacity} must be a number from 0, the picture alone, to 1.")
        if len(self.text) > MAX_TEXT:
            raise StudioError(f"The text is longer than {MAX_TEXT} characters: shorten it.")
        # Lone surrogates, as a raw request may hold them, can be written into no file.
        object.__setattr__(self, "text", self.text.encode("utf-8", "replace").decode("utf-8"))

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models, each once, in the order of the panels; last the one that the query was chosen on."""
        query = () if self.query is None else (self.query[2],)
        return tuple(dict.fromkeys([*(panel.model for panel in self.panels), *query]))


@dataclass(frozen=True)
class Picture:
    """Which picture: `sha256` of its size and upright RGB pixels, as `picture_token` gives it, and its file's name.

    Raises:
        StudioError: not such a hash.
    """

    sha256: str
    width: int
    height: int
    name: str = ""

    def __post_init__(self) -> None:
        check_token(self.sha256)


@dataclass(frozen=True)
class Found:
    """One model as it was when the figure was made.

    Attributes:
        name: as the panels name it.
        title: as a person reads it.
        source: what `load_model` takes, or "" where it was a file of the one who brought it.
        family: which layout its weights came in.
        sha256: of its weight file, or of the listing of several; "" where the file was gone.
        preprocess: how pictures become its input.
        lam: lambda of each layer of the vision tower, or None where it is not one number a layer.
        assumed: what the file does not say and was taken for granted.
        given: what was asked for instead, in words.
        overrides: the same as data, as it was loaded; recipes that were made before it was kept have none.
    """

    name: str
    title: str
    source: str
    family: str
    sha256: str
    preprocess: Preprocess
    lam: tuple[float, ...] | None = None
    assumed: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    overrides: Overrides = field(default_factory=Overrides)


@dataclass(frozen=True)
class Recipe:
    """One figure: the picture, what is looked at, the models as they were found, and versions of packages."""

    version: int
    picture: Picture
    view: View
    models: tuple[Found, ...]
    packages: dict[str, str]

    def __post_init__(self) -> None:
        if self.version != VERSION:
            raise StudioError(f"The recipe has version {self.version}, this program reads {VERSION}: get another one.")
        names = [found.name for found in self.models]
        lacking = [name for name in self.view.models if name not in names]
        if lacking or len(set(names)) < len(names):
            raise StudioError(
                f"The recipe describes the models {', '.join(names) or 'none'}, its panels show "
                f"{', '.join(self.view.models)}: each must be described once."
            )
        if not all(isinstance(text, str) for item in self.packages.items() for text in item):
            raise StudioError("recipe.packages must map names of packages to their versions.")

    def found(self, name: str) -> Found:
        """What was found of one model."""
        return next(found for found in self.models if found.name == name)

    def text(self) -> str:
        """The recipe as JSON."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"


def recipe_data(text: str | bytes) -> object:
    """What the JSON of a recipe holds.

    Raises:
        StudioError: it is no JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StudioError(f"The recipe is no JSON ({error}): take the file that was taken away.") from error


def read_recipe(text: str | bytes) -> Recipe:
    """A recipe of Compare from its JSON, every key and type checked.

    Raises:
        StudioError: it is no JSON, or not a recipe; the message names the key.
    """
    return from_plain(Recipe, recipe_data(text), "recipe")


def view_of_state(state: object) -> tuple[str, View]:
    """(token of the picture, what is looked at) from what the page sends; anyone can send anything.

    Raises:
        StudioError: it is not as the page sends it; the message names the key.
    """
    if not isinstance(state, Mapping):
        raise StudioError("What is shown must be told as an object with token, panels, layer and query.")
    plain: dict[str, Any] = dict(state)
    token = check_token(plain.pop("token", None))
    return token, from_plain(View, plain, "state")


def check_token(token: object) -> str:
    """The token of a picture, if it can be one.

    Raises:
        StudioError: it is not 32 hexadecimal digits.
    """
    if not isinstance(token, str) or len(token) != TOKEN or set(token) - set("0123456789abcdef"):
        raise StudioError("The picture's token is not one that this page gave: choose the picture again.")
    return token
