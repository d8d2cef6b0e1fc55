"""What a tab ran -> the settings of its recipe; `studio.tab_again` makes the same results of them."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from studio.changes import A2_CHOICES, TowerChange, checked_change
from studio.chart_recipe import AlphaSweepSettings, EditedModel, LambdaSweepSettings, TowerEdits, Unswept
from studio.filled import filled, filled_whole
from studio.intervened_maps import MapChoice
from studio.intervening import Outcome, Refused
from studio.recipe import Picture
from studio.service import Service
from studio.sparsity_sides import MATCHES, Controls
from studio.sweeping import LambdaAsked, Sweep
from studio.tab_recipe import ExplainSettings, InterveneSettings, SegmentationSettings, Side, SparsitySettings
from studio.truth import painted_mask
from studio.upload import Upload

SIDES: tuple[Side, ...] = get_args(Side)


def picture_of(upload: Upload) -> Picture:
    """A picture as a recipe keeps it."""
    return Picture(upload.token, upload.image.width, upload.image.height, upload.file.name)


def sparsity_settings(
    upload: Upload, names: tuple[str, str], controls: Controls, *, tables: bool = False
) -> SparsitySettings:
    """Settings of maps that were shown with these controls, with the tables by layer and head or before them."""
    painted, mask = _own_mask(upload, controls)
    return SparsitySettings(
        controls.mode,
        names,
        float(controls.alpha),
        controls.match,
        float(controls.keep) if controls.keep is not None and controls.match == MATCHES[-1] else None,
        controls.source,
        bool(controls.everywhere),
        controls.at,
        str(controls.left_head),
        str(controls.right_head),
        _text(controls.query),
        _text(controls.classes),
        _text(controls.template),
        _text(controls.named),
        painted,
        mask,
        tables,
    )


def sparsity_controls(
    settings: SparsitySettings, mask: Upload | None = None, painted: dict[str, str] | None = None
) -> Controls:
    """The tab's controls as they were, but for the mask, which is given as the tab holds it."""
    return Controls(
        settings.alpha,
        settings.match,
        settings.keep,
        settings.source,
        settings.mode,
        settings.everywhere,
        settings.layer,
        settings.left_head,
        settings.right_head,
        settings.query,
        settings.classes,
        settings.template,
        mask,
        painted,
        settings.named,
    )


def alpha_sweep_settings(
    upload: Upload, names: tuple[str, str], controls: Controls, alphas: Sequence[float]
) -> AlphaSweepSettings:
    """Settings of curves over these α that were shown with these controls."""
    painted, mask = _own_mask(upload, controls)
    return AlphaSweepSettings(
        tuple(map(float, alphas)),
        names,
        controls.source,
        controls.at,
        str(controls.left_head),
        str(controls.right_head),
        _text(controls.query),
        _text(controls.classes),
        _text(controls.template),
        _text(controls.named),
        painted,
        mask,
    )


def segmentation_settings(
    upload: Upload,
    names: tuple[str, str],
    controls: Controls,
    preset: str,
    background: float,
    rules: Sequence[str],
    side: Side,
    ready: int,
) -> SegmentationSettings:
    """Settings of a segmentation of which so many columns were shown with these controls."""
    painted, mask = _own_mask(upload, controls)
    return SegmentationSettings(
        preset,
        names,
        # The page sends 0 for 0.0, which would make the recipe another one when it is drawn again.
        float(filled(background, "Ground below")),
        tuple(rules),
        float(controls.alpha),
        _text(controls.classes),
        _text(controls.template),
        _text(controls.named),
        side,
        ready,
        painted,
        mask,
    )


def _text(sent: Any) -> str:
    """What a field of text holds; an empty one may send nothing."""
    return "" if sent is None else str(sent)


def _own_mask(upload: Upload, controls: Controls) -> tuple[str, str]:
    """The painted mask, or the name of the uploaded one's pixels; "" for those that do not hold."""
    sent = controls.painted
    own = isinstance(sent, dict) and sent.get("token") == upload.token
    if own and painted_mask(sent, (upload.image.height, upload.image.width)) is not None:
        return sent["mask"], ""
    return "", "" if controls.mask is None else controls.mask.token


def explain_settings(
    names: tuple[str, str],
    prompts: Sequence[str],
    asked: Mapping[str, Any],
    ready: tuple[int, int],
) -> ExplainSettings:
    """Settings of so many explanations, so many of them with their control.

    `asked` are the method's settings by name, as the page's fields send them.
    """
    return ExplainSettings(
        tuple(prompts),
        names,
        asked["method"],
        asked["part"],
        asked["rule"],
        filled_whole(asked["back"], "Layers, counted from the last"),
        filled_whole(asked["steps"], "Steps"),
        asked["baseline"],
        asked["detail"],
        *ready,
    )


def intervene_settings(
    service: Service,
    names: Sequence[str],
    edits: Sequence[Any],
    outcomes: Sequence[Outcome | Refused],
    choice: MapChoice,
    other: Upload | None,
    asked_for: tuple[str, str] = ("", ""),
) -> InterveneSettings:
    """Settings of maps of the models that ran.

    Args:
        service: has the models.
        names: of the models.
        edits: as the page's tables send them, one a model.
        outcomes: what came of them.
        choice: the map that was drawn.
        other: the picture whose A2 may have been put in.
        asked_for: classes and template as they were typed; empty where there was no class to be read.
    """
    ran = [
        (name, asked)
        for name, asked, outcome in zip(names, edits, outcomes, strict=True)
        if isinstance(outcome, Outcome)
    ]
    edited, needed = _edited(service, ran)
    put_in = picture_of(other) if needed and other else None
    return InterveneSettings(edited, *_map_settings(choice), put_in, *map(_text, asked_for))


def lambda_sweep_settings(
    service: Service, names: Sequence[str], edits: Sequence[Any], results: Sequence[Sweep | str], asked: LambdaAsked
) -> LambdaSweepSettings:
    """Settings of the sweeps of the models that have λ, with the names of those that have none.

    Args:
        service, names, edits: as in `intervene_settings`.
        results: what came of the models.
        asked: of both of them.
    """
    ran = [
        (name, asked) for name, asked, result in zip(names, edits, results, strict=True) if isinstance(result, Sweep)
    ]
    kept, needed = _edited(service, ran)
    return LambdaSweepSettings(
        asked.tower,
        kept,
        _text(asked.classes),
        _text(asked.template),
        asked.only,
        *_map_settings(asked.choice),
        picture_of(asked.other) if needed and asked.other else None,
        tuple(Unswept(name, why) for name, why in zip(names, results, strict=True) if isinstance(why, str)),
    )


def _edited(service: Service, ran: Sequence[tuple[str, Any]]) -> tuple[tuple[EditedModel, ...], bool]:
    """Models with their edits as a recipe keeps them, and whether one of them needs another picture's A2."""
    changes = [(name, checked_change(asked, service.model(name), name)) for name, asked in ran]
    edited = tuple(EditedModel(name, _plain(change.vision), _plain(change.text)) for name, change in changes)
    return edited, any(change.needs_other for _, change in changes)


def _map_settings(choice: MapChoice) -> tuple[int, str, str]:
    return choice.layer, "mean" if choice.head is None else str(choice.head), choice.part


def _plain(change: TowerChange) -> TowerEdits:
    lam = tuple(change.lam.get(layer) for layer in range(max(change.lam, default=-1) + 1))
    return TowerEdits(lam, next(name for name, a2 in A2_CHOICES.items() if a2 == change.a2), change.off)
