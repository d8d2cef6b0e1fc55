"""The settings of a recipe -> what the tab showed, by the functions that the tab itself calls."""

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from PIL import Image

from models import StudioError
from studio.attribution import drained
from studio.chart import Chart
from studio.chart_recipe import AlphaSweepSettings, DuelSettings, EditedModel, LambdaSweepSettings
from studio.duel import Side, duel
from studio.duel_figure import duel_chart
from studio.explain_all import explain_all, method_of
from studio.explained import explanations_strip
from studio.intervened_maps import map_choice, maps_strip
from studio.intervening import Refused, changed_model
from studio.recipe import Picture
from studio.result_store import Result
from studio.service import Service
from studio.sparsity_sides import MATCHES, Controls
from studio.sparsity_similarity import answers_shown
from studio.sparsity_view import segment_shown, show_sparsity, sweep_shown
from studio.strip import Strip
from studio.sweep_figure import sweep_chart
from studio.sweeping import Sweep, lambda_asked, swept_model
from studio.tab_recipe import ExplainSettings, InterveneSettings, RunSettings, SegmentationSettings, SparsitySettings
from studio.tab_settings import SIDES, sparsity_controls
from studio.text_maps import run_or_why, token_maps
from studio.text_recipe import TextSettings
from studio.upload import Upload
from studio.zeroshot import parse_prompts

# Asked for a picture beside the one that is looked at: what it is for, and how it is known.
Give = Callable[[str, Picture | str], Image.Image]
T = TypeVar("T")
_Masked = SparsitySettings | SegmentationSettings | AlphaSweepSettings


def result_again(service: Service, upload: Upload | None, settings: RunSettings, give: Give) -> Result:
    """What a recipe shows, by the functions that the tab itself calls.

    Args:
        service: has the recipe's models under its names.
        upload: the picture, None for a recipe without one.
        settings: what is run.
        give: gives an uploaded mask, or the other picture, or raises.

    Raises:
        StudioError: settings that make no sense, or a picture that is not given.
    """
    if isinstance(settings, TextSettings):
        runs = [run_or_why(service.model(name), settings.texts) for name in settings.models]
        return token_maps(runs, settings.texts, settings.layer)
    if upload is None:
        raise StudioError("The recipe names no picture, and what it shows is of one: take the file as it was given.")
    match settings:
        case AlphaSweepSettings():
            controls = _sweep_controls(settings, upload, give)
            *_, (_, chart) = sweep_shown(service, upload, settings.models, controls, settings.alphas)
            assert chart is not None
            return chart
        case LambdaSweepSettings():
            return _swept(service, upload, settings, give)
        case DuelSettings():
            return _dueled(service, upload, settings)
        case SparsitySettings():
            controls = sparsity_controls(settings, *_masks(settings, upload, give))
            return _sparse(service, upload, settings, controls)
        case SegmentationSettings():
            steps = segment_shown(
                service,
                upload,
                settings.models,
                _segmentation_controls(settings, upload, give),
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
            prompts = parse_prompts(settings.classes, settings.template) if settings.classes else []
            outcomes = [
                changed_model(service, each.model, upload, _as_sent(each), prompts, other) for each in settings.edits
            ]
            for outcome in outcomes:
                if isinstance(outcome, Refused):
                    raise StudioError(f"{outcome.title}: {outcome.reason}")
            choice = map_choice(settings.layer, settings.head, settings.part)
            return _there(maps_strip(upload, outcomes, choice, prompts))


def _sparse(service: Service, upload: Upload, settings: SparsitySettings, controls: Controls) -> Strip:
    """The maps, with the tables and so many answers as were there."""
    steps = show_sparsity(service, upload, settings.models, controls)
    strip = _at(steps, 2 if settings.tables else 1).strip
    if not settings.answers:
        return strip
    answered = _at(answers_shown(service, upload, settings.models, controls), settings.answers)
    return replace(strip, tables=(*strip.tables, answered.table))


def _segmentation_controls(settings: SegmentationSettings, upload: Upload, give: Give) -> Controls:
    """The controls of a segmentation, which does not ask those that it has no setting for."""
    shared = (settings.classes, settings.template, *_masks(settings, upload, give), settings.named)
    return Controls(settings.alpha, MATCHES[0], None, "qk", "readout", True, 0, "mean", "mean", "CLS", *shared)


def _masks(settings: _Masked, upload: Upload, give: Give) -> tuple[Upload | None, dict[str, str] | None]:
    """The uploaded mask and the painter's value, as the tab's controls hold them."""
    painted = {"token": upload.token, "mask": settings.painted} if settings.painted else None
    return _as_upload(give("mask", settings.mask)) if settings.mask else None, painted


def _sweep_controls(settings: AlphaSweepSettings, upload: Upload, give: Give) -> Controls:
    """The controls of a sweep, which asks for no α of its own and for no intervention."""
    return Controls(
        settings.alphas[0],
        MATCHES[0],
        None,
        settings.source,
        "readout",
        True,
        settings.layer,
        settings.left_head,
        settings.right_head,
        settings.query,
        settings.classes,
        settings.template,
        *_masks(settings, upload, give),
        settings.named,
    )


def _swept(service: Service, upload: Upload, settings: LambdaSweepSettings, give: Give) -> Chart:
    other = None if settings.other is None else _as_upload(give("other", settings.other))
    choice = settings.layer, settings.head, settings.part
    asked = lambda_asked(settings.classes, settings.template, *choice, other, settings.tower, settings.only)
    steps = [step for each in settings.kept for step in swept_model(service, upload, each.model, _as_sent(each), asked)]
    sweeps = [step for step in steps if isinstance(step, Sweep)]
    return _there(sweep_chart([*sweeps, *(each.why for each in settings.unswept)]))


def _dueled(service: Service, upload: Upload, settings: DuelSettings) -> Chart:
    sides: list[Side] = []
    for name in settings.models:
        look = service.look(name, upload.image)
        pixels = look.model.preprocess(upload.image)[0]
        depth, bare = settings.depth, settings.baseline
        steps = duel(look, pixels, settings.prompt, depth, bare, settings.points)  # pyright: ignore[reportArgumentType]
        for _ in drained(steps, sides):
            pass
    return duel_chart(sides, settings.prompt, settings.depth, settings.baseline)


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


def _there(result: T | None) -> T:
    if result is None:
        raise StudioError("The recipe's settings give nothing to draw of that model: take it away again.")
    return result


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
