"""The methods that explain a similarity, as small settings: what can be set, its bounds, and what it costs.

`Relevance` is by gradients of attention maps and the project's own; the others are captum's.
"""

import math
from dataclasses import dataclass

from models import StudioError
from models.gradients import MapPart
from models.relevance import Rule
from studio.attribution import FORWARD, WITH_GRADIENT
from studio.shuffled_runs import RUNS
from studio.similarity import BASELINES, Baseline

FEWEST_STEPS, MOST_STEPS = 4, 128
MOST_BACK = 24
# One of a batch of forward passes is the unchanged text.
WORDS_AT_ONCE = FORWARD - 1


@dataclass(frozen=True)
class Relevance:
    """Text-conditioned relevance by gradients of attention maps, over the last `back` layers.

    Fewer layers than asked for are taken where a tower has fewer.
    """

    part: MapPart = "weights"
    rule: Rule = "positive"
    back: int = 1


@dataclass(frozen=True)
class IntegratedGradients:
    """Integrated Gradients of pixels and token embeddings, from a bare picture and from padding."""

    steps: int = 32
    baseline: Baseline = "mean colour"


@dataclass(frozen=True)
class GradientShap:
    """GradientSHAP of pixels and token embeddings; its baselines are all three bare pictures, and padding."""

    samples: int = 32


@dataclass(frozen=True)
class Occlusion:
    """One patch, and one word, at a time is put aside."""

    baseline: Baseline = "mean colour"


@dataclass(frozen=True)
class LayerIntegratedGradients:
    """Integrated Gradients of the tokens that enter the layer that is `back` layers from the end, 1 for the last."""

    steps: int = 32
    baseline: Baseline = "mean colour"
    back: int = 1


@dataclass(frozen=True)
class LayerGradCam:
    """Grad-CAM of the tokens that enter the layer that is `back` layers from the end, 1 for the last."""

    back: int = 1


Method = Relevance | IntegratedGradients | GradientShap | Occlusion | LayerIntegratedGradients | LayerGradCam


def checked(method: Method) -> Method:
    """The method, if its settings are ones that can be run.

    Raises:
        StudioError: too few or too many steps or samples, an unknown baseline, or a layer count below 1.
    """
    count = getattr(method, "steps", getattr(method, "samples", FEWEST_STEPS))
    if not FEWEST_STEPS <= count <= MOST_STEPS:
        raise StudioError(
            f"{count} steps cannot be made: choose {FEWEST_STEPS} to {MOST_STEPS}; more hardly change the "
            "values, and each step is a pass through the model and back."
        )
    baseline = getattr(method, "baseline", BASELINES[0])
    if baseline not in BASELINES:
        raise StudioError(f"The baseline {baseline!r} is unknown: choose {', '.join(BASELINES)}.")
    if not 1 <= getattr(method, "back", 1) <= MOST_BACK:
        raise StudioError(f"{method.back} layers from the end is no layer: choose 1 to {MOST_BACK}.")  # type: ignore
    return method


def passes(method: Method, grid: tuple[int, int], words: int) -> int:
    """How many times a tower runs for one model and one prompt of so many tokens; a batch counts for what is in it.

    Args:
        method: with its settings.
        grid: (rows, columns) of the model's patches.
        words: tokens of the prompt, without start and end.
    """
    embedded = 1  # the prompt; the picture was, when it was looked at
    return embedded + _picture_passes(method, grid) + _text_passes(method, words)


def control_passes(method: Method, grid: tuple[int, int]) -> int:
    """How many more it takes to explain the picture's side with A2 shuffled, for one model and one prompt."""
    embedded = 2  # picture and prompt
    return RUNS * (embedded + _picture_passes(method, grid))


def _picture_passes(method: Method, grid: tuple[int, int]) -> int:
    if isinstance(method, Relevance):
        return 2  # both sides come from one run of both towers
    if isinstance(method, Occlusion):
        return grid[0] * (1 + grid[1]) + 2
    if isinstance(method, GradientShap):
        return method.samples + 1 + len(BASELINES)
    return _path_passes(method)


def _text_passes(method: Method, words: int) -> int:
    if isinstance(method, Relevance):
        return 0
    if isinstance(method, Occlusion):
        return words + math.ceil(words / WORDS_AT_ONCE) + 2
    return method.samples + 2 if isinstance(method, GradientShap) else _path_passes(method)


def _path_passes(method: IntegratedGradients | LayerIntegratedGradients | LayerGradCam) -> int:
    """Of one side, by a method that asks the same of both."""
    if isinstance(method, LayerGradCam):
        return 2
    steps = math.ceil(method.steps / WITH_GRADIENT) * WITH_GRADIENT
    return steps + 2 + (2 if isinstance(method, LayerIntegratedGradients) else 0)


def described(method: Method) -> str:
    """The method and its settings, in words."""
    if isinstance(method, Relevance):
        part = {"weights": "A of CLIP, A1 − λA2 of DiffCLIP", "a1": "A or A1", "a2": "A2"}[method.part]
        return f"Text-conditioned relevance: map ({part}) times gradient, rule “{method.rule}”, {_last(method.back)}"
    if isinstance(method, IntegratedGradients):
        return f"Integrated Gradients, {method.steps} steps from the {method.baseline} picture and from padding"
    if isinstance(method, GradientShap):
        return f"GradientSHAP, {method.samples} samples between the picture and bare ones ({', '.join(BASELINES)})"
    if isinstance(method, Occlusion):
        return f"Occlusion by the {method.baseline} picture, patch by patch, and by padding, word by word"
    where = f"of the tokens that enter {'the last layer' if method.back == 1 else f'layer {-method.back} from the end'}"
    if isinstance(method, LayerGradCam):
        return f"Grad-CAM {where}, without ReLU"
    return f"Integrated Gradients {where}, {method.steps} steps from the {method.baseline} picture and from padding"


def unit_of(method: Method) -> str:
    """What the values of a method are."""
    if isinstance(method, Relevance):
        return "relevance, map × gradient"
    if isinstance(method, Occlusion):
        return "fall of the cosine"
    return "token × mean gradient" if isinstance(method, LayerGradCam) else "part of the cosine"


def _last(back: int) -> str:
    return "last layer" if back == 1 else f"last {back} layers"
