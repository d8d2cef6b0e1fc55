"""What a person changes in a run: choices of the browser, checked -> edits of a tower, and the same in words."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from models import LoadedModel, StudioError
from models.intervention import AblateHeads, Edit, OtherA2, SetLambda, ShuffledA2, UniformA2
from models.layout import TokenGrid
from models.loaded import Tower
from models.recorder import Recording

LOWEST, HIGHEST = 0.0, 1.5
TOWERS = ("vision", "text")
_INTEGERS = 2**31


@dataclass(frozen=True)
class LearnedA2:
    """A2 as the model has it."""


@dataclass(frozen=True)
class OtherPictureA2:
    """A2 of another picture, which the handler records with the same model."""


A2Choice = LearnedA2 | ShuffledA2 | UniformA2 | OtherPictureA2
# Under the names that the browser uses.
A2_CHOICES: dict[str, A2Choice] = {
    "learned": LearnedA2(),
    "shuffled": ShuffledA2(),
    "uniform": UniformA2(),
    "other": OtherPictureA2(),
}


@dataclass(frozen=True)
class TowerChange:
    """What is changed in one tower.

    Attributes:
        lam: λ by layer; layers that are not named keep their own.
        a2: which second map is subtracted.
        off: (layer, head) of the heads that are ablated.
    """

    lam: Mapping[int, float] = field(default_factory=dict)
    a2: A2Choice = LearnedA2()
    off: tuple[tuple[int, int], ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether the tower runs as it is."""
        return self == TowerChange()


@dataclass(frozen=True)
class Change:
    """What is changed in a model."""

    vision: TowerChange = TowerChange()
    text: TowerChange = TowerChange()

    def of(self, tower: str) -> TowerChange:
        """The change of "vision" or "text"."""
        return self.text if tower == "text" else self.vision

    @property
    def needs_other(self) -> bool:
        """Whether another picture has to be recorded."""
        return isinstance(self.vision.a2, OtherPictureA2)


def edits_of(change: TowerChange, tower: Tower, other: Recording | None = None) -> list[Edit]:
    """The edits of `models.intervention` that make the change; whether they fit is checked where they are used.

    Args:
        change: of this tower.
        tower: an edit of A2 leaves out its pooling head, which has none.
        other: the recording of the other picture with the same tower, where `change` asks for it.

    Raises:
        StudioError: another picture's A2 without another picture.
    """
    edits: list[Edit] = [SetLambda(value, layers) for value, layers in _by_value(change.lam)]
    layers = tuple(range(len(tower.blocks))) if tower.pooled else None
    match change.a2:
        case OtherPictureA2():
            if other is None:
                raise StudioError("A2 of another picture needs another picture: choose one, or another A2.")
            edits.append(OtherA2(other, layers))
        case ShuffledA2() | UniformA2() as control:
            edits.append(replace(control, layers=layers))
    by_layer: dict[int, list[int]] = {}
    for layer, head in sorted(set(change.off)):
        by_layer.setdefault(layer, []).append(head)
    return [*edits, *(AblateHeads(tuple(heads), layer) for layer, heads in by_layer.items())]


def checked_change(asked: Any, model: LoadedModel, name: str) -> Change:
    """The change that a value of the controls of the model `name` holds; anyone can send one, with anything in it.

    Raises:
        StudioError: it is of another model, or is no value as the controls send it; the sentence says what is wrong.
    """
    if asked is None:
        return Change()
    if not isinstance(asked, dict) or not isinstance(asked.get("chosen"), dict):
        raise StudioError("The edits are not as the controls send them: open the tab again.")
    if asked.get("name") != name:
        raise StudioError(
            f"The edits were chosen for another model than {model.title}: choose them again in its own table."
        )
    chosen = asked["chosen"]
    return Change(_tower_change(chosen.get("vision"), model.vision), _tower_change(chosen.get("text"), model.text))


def _tower_change(asked: Any, tower: Tower) -> TowerChange:
    if asked is None:
        return TowerChange()
    if not isinstance(asked, dict):
        raise StudioError(f"The edits of the {tower.name} tower are not as the controls send them: open the tab again.")
    lam, a2, off = asked.get("lam") or [], asked.get("a2", "learned"), asked.get("off") or []
    if not isinstance(lam, list) or len(lam) > tower.layers:
        raise StudioError(f"λ of the {tower.name} tower must be a list of at most {tower.layers} numbers, one a layer.")
    for value in lam:
        if value is not None and not _between(value):
            raise StudioError(
                f"λ = {str(value)[:40]!r} is not possible here: choose a number from {LOWEST} to {HIGHEST}."
            )
    if not isinstance(a2, str) or a2 not in A2_CHOICES:
        raise StudioError(f"A2 {str(a2)[:40]!r} is unknown: choose {', '.join(A2_CHOICES)}.")
    if not isinstance(off, list) or not all(_is_pair(pair) for pair in off):
        raise StudioError("Ablated heads must be a list of pairs (layer, head): choose them in the table.")
    values = {layer: float(value) for layer, value in enumerate(lam) if value is not None}
    return TowerChange(values, A2_CHOICES[a2], tuple((pair[0], pair[1]) for pair in off))


def _between(value: Any) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and LOWEST <= value <= HIGHEST
    )


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(each, int) and not isinstance(each, bool) and 0 <= each < _INTEGERS for each in value)
    )


def words_of(change: TowerChange, tower: Tower) -> list[str]:
    """The change in words, an edit each; none where nothing is changed."""
    words = [
        f"λ = {value:.2f}{_at_init(value, layers, tower)} in {layers_in_words(layers, tower)}"
        for value, layers in _by_value(change.lam)
    ]
    match change.a2:
        case ShuffledA2(seed=seed):
            words.append(f"A2 shuffled over the patches (seed {seed})")
        case UniformA2():
            words.append("A2 uniform")
        case OtherPictureA2():
            words.append("A2 of another picture")
    by_heads: dict[tuple[int, ...], list[int]] = {}
    for layer in sorted({layer for layer, _ in change.off}):
        heads = tuple(sorted({head for at, head in change.off if at == layer}))
        by_heads.setdefault(heads, []).append(layer)
    for heads, layers in by_heads.items():
        named = "all heads" if len(heads) == tower.heads else f"head{'s' * (len(heads) > 1)} {_listed(map(str, heads))}"
        words.append(f"{named} ablated in {layers_in_words(tuple(layers), tower)}")
    return [f"{tower.name} tower: {words[0]}", *words[1:]] if words and tower.name == "text" else words


def controls_value(model: LoadedModel, name: str) -> dict[str, Any]:
    """What the table of controls has to know of the model that the page calls `name`; nothing is changed yet."""
    return {
        "name": name,
        "title": model.title,
        "lowest": LOWEST,
        "highest": HIGHEST,
        "towers": [tower_value(model.vision), tower_value(model.text)],
        "chosen": {tower: {"lam": [], "a2": "learned", "off": []} for tower in TOWERS},
    }


def tower_value(tower: Tower) -> dict[str, Any]:
    """What can be changed in a tower: its layers and heads, λ where it has one, and which A2 can be put in."""
    blocks = len(tower.blocks)
    lambdas = tower.lambdas()
    a2 = [] if not tower.differential else ["learned", "shuffled", "uniform", "other"]
    return {
        "name": tower.name,
        "layers": [tower.layer_name(layer) for layer in range(tower.layers)],
        "heads": tower.heads,
        # A pooling head has no λ, so it has no place in these lists.
        "lambdas": blocks if tower.differential else 0,
        "learned": None if lambdas is None else list(lambdas[:blocks]),
        "init": None if tower.lambda_init is None else list(tower.lambda_init[:blocks]),
        "a2": a2 if isinstance(tower.layout, TokenGrid) else [name for name in a2 if name in ("learned", "uniform")],
        "note": _note(tower),
    }


def _note(tower: Tower) -> str:
    """What stands beside the controls of a tower: what cannot be changed in it, and why."""
    if not tower.layers:
        return tower.reason
    if not tower.differential:
        return "Standard attention: it has no λ and no A2 to change, nothing is subtracted. Its heads can be ablated."
    if tower.lambda_init is None:
        return (
            "λ is learned for each token and head here (DIFF V2), so there is no one number to show and no λ init; a λ "
            "that is set takes its place everywhere in the layer, and λ = 0 is standard attention of the first queries."
        )
    return (
        "λ = 0 leaves A1 alone, behind the same head norm (RMSNorm) and the factor (1 − λ init), which both stay as "
        "they were trained: that is not CLIP."
    )


def _by_value(lam: Mapping[int, float]) -> list[tuple[float, tuple[int, ...]]]:
    """Layers that share a value, in the order of their first layer."""
    grouped: dict[float, list[int]] = {}
    for layer in sorted(lam):
        grouped.setdefault(lam[layer], []).append(layer)
    return [(value, tuple(layers)) for value, layers in grouped.items()]


def _at_init(value: float, layers: tuple[int, ...], tower: Tower) -> str:
    inits = tower.lambda_init
    frozen = inits is not None and all(layer < len(inits) and abs(inits[layer] - value) < 1e-6 for layer in layers)
    return " (λ init)" if frozen else ""


def layers_in_words(layers: tuple[int, ...], tower: Tower) -> str:
    """Layers in words: all of those that have it, ranges, or a single one."""
    if len(layers) == tower.layers and tower.layers > 1:
        return "all layers"
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    names = ["–".join(dict.fromkeys([tower.layer_name(run[0]), tower.layer_name(run[-1])])) for run in runs]
    return f"layer{'s' * (len(layers) > 1)} {_listed(names)}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
