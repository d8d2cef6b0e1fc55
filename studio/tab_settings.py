"""What a tab ran -> the settings of its recipe, and the settings -> the same maps, by the tab's own functions."""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, get_args

from PIL import Image

from models import StudioError
from studio.changes import A2_CHOICES, TowerChange, checked_change
from studio.explain_all import explain_all, method_of
from studio.explained import explanations_strip
from studio.fields import filled, filled_whole
from studio.intervened_maps import MapChoice, map_choice, maps_strip
from studio.intervening import Outcome, Refused, changed_model
from studio.recipe import Picture
from studio.service import Service
from studio.sparsity_view import MATCHES, Controls, segment_shown, show_sparsity
from studio.strip import Strip
from studio.tab_recipe import (
    EditedModel,
    ExplainSettings,
    InterveneSettings,
    SegmentationSettings,
    Settings,
    Side,
    SparsitySettings,
    TowerEdits,
)
from studio.truth import painted_mask
from studio.uploads import Upload

# Asked for a picture beside the one that is looked at: what it is for, and how it is known.
Give = Callable[[str, Picture | str], Image.Image]
SIDES: tuple[Side, ...] = get_args(Side)


def picture_of(upload: Upload) -> Picture:
    """A picture as a recipe keeps it."""
    return Picture(upload.token, upload.image.width, upload.image.height, upload.file.name)


def sparsity_settings(upload: Upload, names: tuple[str, str], controls: Controls) -> SparsitySettings:
    """Settings of maps that were shown with these controls."""
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
        filled(background, "Ground below"),
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
) -> InterveneSettings:
    """Settings of maps of the models that ran.

    Args:
        service: has the models.
        names: of the models.
        edits: as the page's tables send them, one a model.
        outcomes: what came of them.
        choice: the map that was drawn.
        other: the picture whose A2 may have been put in.
    """
    edited, needed = [], False
    for name, asked, outcome in zip(names, edits, outcomes, strict=True):
        if isinstance(outcome, Outcome):
            change = checked_change(asked, service.model(name), name)
            edited.append(EditedModel(name, _plain(change.vision), _plain(change.text)))
            needed = needed or change.needs_other
    return InterveneSettings(
        tuple(edited),
        choice.layer,
        "mean" if choice.head is None else str(choice.head),
        choice.part,
        picture_of(other) if needed and other is not None else None,
    )


def _plain(change: TowerChange) -> TowerEdits:
    lam = tuple(change.lam.get(layer) for layer in range(max(change.lam, default=-1) + 1))
    return TowerEdits(lam, next(name for name, a2 in A2_CHOICES.items() if a2 == change.a2), change.off)


def strip_again(service: Service, upload: Upload, settings: Settings, give: Give) -> Strip:
    """The strip of a recipe, by the functions that the tab itself calls.

    Args:
        service: has the recipe's models under its names.
        upload: the picture.
        settings: what is run.
        give: gives an uploaded mask, or the other picture, or raises.

    Raises:
        StudioError: settings that make no sense, or a picture that is not given.
    """
    match settings:
        case SparsitySettings():
            return next(show_sparsity(service, upload, settings.models, _controls(settings, upload, give))).strip
        case SegmentationSettings():
            steps = segment_shown(
                service,
                upload,
                settings.models,
                _controls(settings, upload, give),
                settings.preset,
                settings.background,
                list(settings.rules),
            )
            _, *strips = _at(steps, settings.ready)
            return _there(strips[SIDES.index(settings.side)])
        case ExplainSettings():
            return _explained(service, upload, settings)
        case InterveneSettings():
            other = None if settings.other is None else _as_upload(give("other", settings.other))
            outcomes = [
                changed_model(service, each.model, upload, _as_sent(each), [], other) for each in settings.edits
            ]
            for outcome in outcomes:
                if isinstance(outcome, Refused):
                    raise StudioError(f"{outcome.title}: {outcome.reason}")
            return _there(maps_strip(upload, outcomes, map_choice(settings.layer, settings.head, settings.part)))


def _controls(settings: SparsitySettings | SegmentationSettings, upload: Upload, give: Give) -> Controls:
    """The tab's controls as they were; a segmentation does not ask those that it has no setting for."""
    mask = _as_upload(give("mask", settings.mask)) if settings.mask else None
    painted = {"token": upload.token, "mask": settings.painted} if settings.painted else None
    shared = (settings.classes, settings.template, mask, painted, settings.named)
    if isinstance(settings, SegmentationSettings):
        return Controls(settings.alpha, MATCHES[0], None, "qk", "readout", True, 0, "mean", "mean", "CLS", *shared)
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
        *shared,
    )


def _explained(service: Service, upload: Upload, settings: ExplainSettings) -> Strip:
    method = method_of(settings.method, settings.part, settings.rule, settings.back, settings.steps, settings.baseline)
    wanted = settings.ready, settings.controls
    for state in explain_all(service, upload, settings.models, settings.prompts, method, control=settings.controls > 0):
        if state.ready >= wanted:
            return explanations_strip(upload.image, state.explanations, method, settings.detail)
    raise StudioError(_TOO_FEW.format(settings.ready))


_TOO_FEW = "The recipe was made when {} maps were ready, and its settings give fewer: take it away again."


def _at(steps: Any, ready: int) -> Any:
    found = next(islice(steps, ready - 1, None), None)
    if found is None:
        raise StudioError(_TOO_FEW.format(ready))
    return found


def _there(strip: Strip | None) -> Strip:
    if strip is None:
        raise StudioError("The recipe's settings give no map of that model: take it away again.")
    return strip


def _as_sent(edited: EditedModel) -> dict[str, Any]:
    """Edits as the page's table sends them."""
    towers = {"vision": edited.vision, "text": edited.text}
    chosen = {
        name: {"lam": list(edits.lam), "a2": edits.a2, "off": [list(pair) for pair in edits.off]}
        for name, edits in towers.items()
    }
    return {"name": edited.model, "chosen": chosen}


def _as_upload(image: Image.Image) -> Upload:
    return Upload(image, Path())
