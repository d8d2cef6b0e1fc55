"""Curves of a tab as plain settings, as `studio.tab_recipe` keeps them; and a model's edits, which maps have too."""

from dataclasses import dataclass

from models.errors import StudioError
from studio.recipe import Picture


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
class AlphaSweepSettings:
    """Curves over α of the Sparsity tab; but for `alphas` the fields are those of `studio.sparsity_sides.Controls`.

    Attributes:
        alphas: at which there is a point.
        painted, mask: as in `SparsitySettings`.
    """

    alphas: tuple[float, ...]
    models: tuple[str, str]
    source: str
    layer: int
    left_head: str
    right_head: str
    query: str
    classes: str
    template: str
    named: str
    painted: str = ""
    mask: str = ""

    def __post_init__(self) -> None:
        if not self.alphas:
            raise StudioError("settings.alphas is empty: name at least one α, from 1 to 2.")

    @property
    def shown(self) -> tuple[str, ...]:
        """Names of the models of the curves."""
        return self.models


@dataclass(frozen=True)
class Unswept:
    """A model that was chosen and not swept, by its name, and the sentence that says why: it has no λ there."""

    model: str
    why: str


@dataclass(frozen=True)
class LambdaSweepSettings:
    """λ swept; the fields are those of `studio.sweeping.lambda_asked`.

    Attributes:
        tower: whose λ.
        kept: the models that were swept, from left to right, each with the edits that stayed.
        only: whether λ of the maps' layer alone was swept.
        layer, head, part: the map whose mass on objects was followed.
        other: the picture whose A2 was put in, or None where none was.
        unswept: the chosen models of which there are no curves; they are named and not run.
    """

    tower: str
    kept: tuple[EditedModel, ...]
    classes: str
    template: str
    only: bool
    layer: int
    head: str
    part: str
    other: Picture | None = None
    unswept: tuple[Unswept, ...] = ()

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models, each once."""
        return tuple(dict.fromkeys(each.model for each in self.kept))

    @property
    def shown(self) -> tuple[str, ...]:
        """Names of the models of the curves."""
        return self.models


@dataclass(frozen=True)
class DuelSettings:
    """A duel of maps; the fields are those of `studio.duel.duel`.

    Attributes:
        prompt: the text whose similarity was followed.
        points: steps of a curve.
    """

    prompt: str
    models: tuple[str, str]
    depth: str
    baseline: str
    points: int

    @property
    def shown(self) -> tuple[str, ...]:
        """Names of the models of the curves."""
        return self.models
