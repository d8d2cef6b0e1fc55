"""Every prompt by both models, step by step; and what that costs, told before it is run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from models import StudioError
from models.gradients import MapPart
from models.layout import TokenGrid
from models.relevance import Rule
from studio.attribution import drained
from studio.explain_control import explain_shuffled
from studio.explaining import Explanation, explain
from studio.filled import filled_whole
from studio.methods import (
    GradientShap,
    IntegratedGradients,
    LayerGradCam,
    LayerIntegratedGradients,
    Method,
    Occlusion,
    Relevance,
    checked,
    control_passes,
    passes,
)
from studio.service import Service, vision_grid
from studio.similarity import check_readable
from studio.upload import Upload

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
    """How far a run is: passes made and in all, and the explanations that are ready, prompt by prompt.

    `total` is foretold; where a side ends early, it falls by what was not needed, so that a run ends with all made.
    """

    made: int
    total: int
    explanations: tuple[Explanation, ...]

    @property
    def ready(self) -> tuple[int, int]:
        """How many explanations there are, and how many of them have their control."""
        return len(self.explanations), sum(bool(explanation.shuffled) for explanation in self.explanations)


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
    service: Service, picture: Upload, names: Sequence[str], prompts: Sequence[str], method: Method, *, control: bool
) -> Iterator[Progress]:
    """Explain every prompt by every model; yields after each batch of passes, so that it can be stopped there.

    Args:
        service, picture: who explains what.
        names: of the models.
        prompts: the texts.
        method: with its settings.
        control: whether, after all explanations, those of differential models get their control with A2 shuffled.

    Raises:
        StudioError: no such model, one without patches or without a tokenizer, or settings out of bounds.
    """
    found: list[Explanation] = []
    looks = [service.look(name, picture.image) for name in names]
    for look in looks:
        check_readable(look.model, prompts)
    inputs = [look.model.preprocess(picture.image)[0] for look in looks]
    foretold = {(prompt, name): _passes(service, name, prompt, method) for name in names for prompt in prompts}
    shuffled = [name for name in names if control and service.model(name).vision.differential]
    controls = {name: control_passes(method, _grid(service, name)) for name in shuffled}
    made, total = 0, sum(foretold[prompt, name] for name in names for prompt in prompts)
    total += len(prompts) * sum(controls[name] for name in shuffled)
    yield Progress(made, total, ())
    for prompt in prompts:
        for name, look, pixels in zip(names, looks, inputs, strict=True):
            start = made
            for count in drained(explain(look, pixels, prompt, method), found):
                made += count
                yield Progress(made, total, tuple(found))
            total += made - start - foretold[prompt, name]
            yield Progress(made, total, tuple(found))
    for index, explanation in enumerate(tuple(found)):
        side = index % len(names)
        if names[side] not in shuffled:
            continue
        with_control: list[Explanation] = []
        start = made
        for count in drained(explain_shuffled(explanation, inputs[side], method), with_control):
            made += count
            yield Progress(made, total, tuple(found))
        found[index] = with_control[0]
        total += made - start - controls[names[side]]
        yield Progress(made, total, tuple(found))


def cost_in_words(method: Method, grids: Sequence[TokenGrid] = (), shuffled: Sequence[TokenGrid] = ()) -> str:
    """What a run takes for each text, before it is run.

    Args:
        method: with its settings.
        grids: of the models, which occlusion needs to know.
        shuffled: of those that get their control with A2 shuffled.
    """
    more = dict.fromkeys(control_passes(method, (grid.rows, grid.cols)) for grid in shuffled)
    count = " or ".join(map(str, more))
    beside = f" With A2 shuffled {count} more for each text of a differential model." if more else ""
    if not isinstance(method, Occlusion):
        return f"{passes(method, (0, 0), 0)} passes for each text and model, most of them there and back.{beside}"
    counts = dict.fromkeys(passes(method, (grid.rows, grid.cols), 0) for grid in grids)
    return f"{' or '.join(map(str, counts))} passes for each text and model, and one for each word; none back.{beside}"


def _passes(service: Service, name: str, prompt: str, method: Method) -> int:
    words = max(0, len(service.model(name).tokenizer.pieces(prompt)) - 2)
    return passes(method, _grid(service, name), words)


def _grid(service: Service, name: str) -> tuple[int, int]:
    grid = vision_grid(service.model(name))
    return grid.rows, grid.cols


def _any(value: Any) -> Any:
    """A name that comes from a page, which `checked` or the caller holds against the list of names."""
    return value
