"""Every prompt by both models, step by step; and what that costs, told before it is run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from models import StudioError
from models.gradients import MapPart
from models.layout import TokenGrid
from models.relevance import Rule
from studio.attribution import drained
from studio.explaining import Explanation, explain
from studio.fields import filled_whole
from studio.methods import (
    GradientShap,
    IntegratedGradients,
    LayerGradCam,
    LayerIntegratedGradients,
    Method,
    Occlusion,
    Relevance,
    checked,
    passes,
)
from studio.service import Service, vision_grid
from studio.uploads import Upload

RELEVANCE, IG, SHAP, OCCLUSION, LAYER_IG, CAM = "relevance", "ig", "shap", "occlusion", "layer_ig", "cam"
# Which settings a method has.
SETTINGS = {
    RELEVANCE: ("part", "rule", "back"),
    IG: ("steps", "baseline", "detail"),
    SHAP: ("steps", "detail"),
    OCCLUSION: ("baseline",),
    LAYER_IG: ("steps", "baseline", "back"),
    CAM: ("back",),
}


@dataclass(frozen=True)
class Progress:
    """How far a run is: passes made and in all, and the explanations that are ready, prompt by prompt."""

    made: int
    total: int
    explanations: tuple[Explanation, ...]


def method_of(method: str, part: str, rule: str, back: float, steps: float, baseline: str) -> Method:
    """The method that these settings name; those that it does not have are left out.

    Raises:
        StudioError: a name that does not exist, or a setting out of bounds.
    """
    if part not in get_args(MapPart) or rule not in get_args(Rule):
        raise StudioError(f"The map {part!r} with the rule {rule!r} is no choice here: choose from the lists.")
    layers = filled_whole(back, "Layers, counted from the last")
    count, bare, kind, sign = filled_whole(steps, "Steps"), _any(baseline), _any(part), _any(rule)
    found: dict[str, Method] = {
        RELEVANCE: Relevance(kind, sign, layers),
        IG: IntegratedGradients(count, bare),
        SHAP: GradientShap(count),
        OCCLUSION: Occlusion(bare),
        LAYER_IG: LayerIntegratedGradients(count, bare, layers),
        CAM: LayerGradCam(layers),
    }
    if method not in found:
        raise StudioError(f"The method {method!r} is unknown: choose {', '.join(found)}.")
    return checked(found[method])


def explain_all(
    service: Service, picture: Upload, names: Sequence[str], prompts: Sequence[str], method: Method
) -> Iterator[Progress]:
    """Explain every prompt by every model; yields after each batch of passes, so that it can be stopped there.

    Raises:
        StudioError: no such model, one without patches or without a tokenizer, or settings out of bounds.
    """
    found: list[Explanation] = []
    looks = [service.look(name, picture.image) for name in names]
    inputs = [look.model.preprocess(picture.image)[0] for look in looks]
    made, total = 0, sum(_passes(service, name, prompt, method) for name in names for prompt in prompts)
    yield Progress(made, total, ())
    for prompt in prompts:
        for look, pixels in zip(looks, inputs, strict=True):
            for count in drained(explain(look, pixels, prompt, method), found):
                made += count
                yield Progress(made, total, tuple(found))
            yield Progress(made, total, tuple(found))


def cost_in_words(method: Method, grids: Sequence[TokenGrid] = ()) -> str:
    """What a run takes for each text, before it is run; occlusion needs to know the models' grids."""
    if not isinstance(method, Occlusion):
        return f"{passes(method, (0, 0), 0)} passes for each text and model, most of them there and back."
    counts = dict.fromkeys(passes(method, (grid.rows, grid.cols), 0) for grid in grids)
    return f"{' or '.join(map(str, counts))} passes for each text and model, and one for each word; none back."


def _passes(service: Service, name: str, prompt: str, method: Method) -> int:
    model = service.model(name)
    grid = vision_grid(model)
    return passes(method, (grid.rows, grid.cols), max(0, len(model.tokenizer.pieces(prompt)) - 2))


def _any(value: Any) -> Any:
    """A name that comes from a page, which `checked` or the caller holds against the list of names."""
    return value
