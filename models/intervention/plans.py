"""Edits, checked against a tower and gathered by layer: what does not fit is refused before anything runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import NoReturn, get_args

from models.errors import StudioError, UndefinedMapError
from models.intervention.edits import (
    A2Control,
    AblateHeads,
    DropFFN,
    DropResidual,
    Edit,
    Identity,
    Layers,
    Neighbourhood,
    OtherA2,
    SetLambda,
    ShuffledA2,
    UseSource,
    WeightRule,
    is_whole,
)
from models.layout import TokenGrid
from models.loaded import Tower
from models.maps import SOURCES

_SLOTS: tuple[tuple[str, tuple[type, ...]], ...] = (
    ("source", (UseSource,)),
    ("bonus", (Neighbourhood,)),
    ("rule", get_args(WeightRule)),
    ("a2", get_args(A2Control)),
    ("lam", (SetLambda,)),
    ("ablation", (AblateHeads,)),
    ("residual", (DropResidual,)),
    ("ffn", (DropFFN,)),
)


@dataclass(frozen=True)
class LayerPlan:
    """The edits of one layer, one of each step at most, in the order in which they are put together."""

    source: UseSource | None = None
    bonus: Neighbourhood | None = None
    rule: WeightRule | None = None
    a2: A2Control | None = None
    lam: SetLambda | None = None
    ablation: AblateHeads | None = None
    residual: DropResidual | None = None
    ffn: DropFFN | None = None

    @property
    def attention(self) -> bool:
        """Whether the attention module answers something else."""
        return self != LayerPlan(residual=self.residual, ffn=self.ffn)

    @property
    def block(self) -> bool:
        """Whether the block does something else with the answer."""
        return self.residual is not None or self.ffn is not None


def plan_edits(tower: Tower, edits: Iterable[Edit]) -> dict[int, LayerPlan]:
    """The edits of each layer that has any.

    Raises:
        StudioError: no such layer or head, two edits of one step in one layer, an edit that this attention cannot be
            given, or one edit instead of a list; the sentence names it.
        UndefinedMapError: a source of scores that this attention does not have.
        RecordingError: a recording that lacks a layer.
    """
    if not isinstance(edits, Iterable):
        raise StudioError(f"{edits!r} is no list of edits: put edits in a list, also if there is one.")
    plans: dict[int, LayerPlan] = {}
    for edit in edits:
        slot = _slot_of(edit)
        for layer in resolve_layers(tower, edit.layers):
            _check_fit(tower, layer, edit)
            plan = plans.get(layer, LayerPlan())
            before = getattr(plan, slot)
            if before is not None:
                raise StudioError(
                    f"Layer {layer} is given both {type(before).__name__} and {type(edit).__name__}, and one would "
                    "silently win: give one of them."
                )
            plans[layer] = replace(plan, **{slot: edit})
    for layer, plan in plans.items():
        _check_identity(layer, plan)
    return plans


def resolve_layers(tower: Tower, layers: Layers) -> tuple[int, ...]:
    """Layers as numbers from 0, each once, in order; None is all of them.

    Raises:
        StudioError: a layer that does not exist or is no whole number, or a tower without any.
    """
    if tower.layers == 0:
        raise StudioError(tower.reason or f"The {tower.name} tower has no attention layer: choose another model.")
    if layers is None:
        return tuple(range(tower.layers))
    named = layers if isinstance(layers, Sequence) else (layers,)
    if not all(map(is_whole, named)):
        raise StudioError(
            f"Layers {layers!r} cannot be found: give a whole number (-1 is the last layer), a tuple of them, or None "
            "for all."
        )
    for layer in named:
        if not -tower.layers <= layer < tower.layers:
            raise StudioError(
                f"Layer {layer} does not exist in the {tower.name} tower: choose 0-{tower.layers - 1}, or -1 for the "
                "last."
            )
    return tuple(sorted({int(layer) % tower.layers for layer in named}))


def _slot_of(edit: Edit) -> str:
    for slot, kinds in _SLOTS:
        if isinstance(edit, kinds):
            return slot
    names = ", ".join(kind.__name__ for _, kinds in _SLOTS for kind in kinds)
    raise StudioError(f"{edit!r} is not an edit: give {names}.")


def _check_fit(tower: Tower, layer: int, edit: Edit) -> None:
    pool = tower.pooled and layer == tower.layers - 1
    if isinstance(edit, (Identity, Neighbourhood, DropResidual, DropFFN)) and pool:
        _refuse(edit, layer, "is a pooling head, with one query and no block", f"choose layers 0-{layer - 1}")
    if isinstance(edit, (Neighbourhood, ShuffledA2)) and not isinstance(tower.layout, TokenGrid):
        _refuse(edit, layer, f"belongs to the {tower.name} tower, which has no patches", "use it on the vision tower")
    if isinstance(edit, (SetLambda, *get_args(A2Control))) and (pool or not tower.differential):
        _refuse(edit, layer, "has one map and no lambda", "leave the edit out")
    if isinstance(edit, UseSource):
        _check_source(tower, layer, pool, edit)
    if isinstance(edit, (AblateHeads, SetLambda)):
        _check_heads(tower, layer, edit)
    if isinstance(edit, OtherA2):
        other = edit.recording.tower
        if not other.differential or (other.name, other.heads) != (tower.name, tower.heads):
            raise StudioError(
                f"OtherA2 is given a recording of a {other.name} tower with {other.heads} heads and "
                f"{'an' if other.differential else 'no'} A2, and layer {layer} has {tower.heads} heads: record another "
                f"picture with the {tower.name} tower of this model."
            )
        _ = edit.recording[layer]


def _check_source(tower: Tower, layer: int, pool: bool, edit: UseSource) -> None:
    for name in edit.names:
        if name not in SOURCES:
            raise UndefinedMapError(f"Source {name!r} is unknown: choose among {', '.join(SOURCES)}.")
        if name == "vv" and tower.differential and not pool:
            raise UndefinedMapError(
                f"Source 'vv' is undefined in layer {layer}: the V of a differential head is shared by A1 and A2, "
                "choose qk, qq or kk."
            )
        if name != "qk" and pool:
            raise UndefinedMapError(
                f"Source {name!r} is undefined in layer {layer}, a pooling head whose query is not one of the keys: "
                "choose qk."
            )


def _check_heads(tower: Tower, layer: int, edit: AblateHeads | SetLambda) -> None:
    for head in edit.heads or ():
        if not 0 <= head < tower.heads:
            pairs = f" (pairs of {2 * tower.heads})" if tower.differential else ""
            raise StudioError(
                f"Head {head} does not exist in layer {layer}, whose heads are 0-{tower.heads - 1}{pairs}: "
                "choose among them."
            )
    if not isinstance(edit, SetLambda) or edit.heads is not None:
        return
    if isinstance(edit.value, tuple) and len(edit.value) != tower.heads:
        raise StudioError(
            f"{len(edit.value)} values of lambda do not fit the {tower.heads} heads of layer {layer}: give one, or one "
            "for each."
        )


def _check_identity(layer: int, plan: LayerPlan) -> None:
    """Identity leaves nothing for the steps that it stands for; an edit there would have no effect."""
    if not isinstance(plan.rule, Identity):
        return
    for step in fields(plan):
        if step.name in ("source", "bonus", "a2", "lam") and (idle := getattr(plan, step.name)) is not None:
            raise StudioError(
                f"{type(idle).__name__} would have no effect in layer {layer}, where Identity takes the place of the "
                "maps: leave one of them out."
            )


def _refuse(edit: Edit, layer: int, reason: str, advice: str) -> NoReturn:
    raise StudioError(f"{type(edit).__name__} does not fit layer {layer}, which {reason}: {advice}.")
