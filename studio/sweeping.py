"""λ from 0 to 1.5: the model is run at each step, with its own A2 and, as a control, with one that knows nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from PIL import Image
from torch import Tensor

from models import LoadedModel, Recording, StudioError
from models.intervention import Edit, ShuffledA2, UniformA2, edited_maps
from studio.changes import HIGHEST, LOWEST, Change, LearnedA2, TowerChange, edits_of, layers_in_words, words_of
from studio.examples import data_url
from studio.intervened_maps import MapChoice, existing_layer, inside_of, map_choice, object_share
from studio.intervening import asked_change, read_prompts, run_text, run_vision
from studio.service import Look, Service, vision_grid
from studio.upload import Upload
from studio.zeroshot import Prompt, parse_prompts

STEPS = tuple(round(LOWEST + (HIGHEST - LOWEST) * step / 15, 6) for step in range(16))
OWN, EDITED = "the model's own A2", "the A2 that the edits put in"
_THUMBNAIL = 72
TowerName = Literal["vision", "text"]


@dataclass(frozen=True)
class Point:
    """One run.

    Attributes:
        cosine: similarity of picture and prompts (P,).
        probability: softmax of it, times the model's scale (P,).
        inside: share of the positive mass of the chosen map's readout row that lies on objects; NaN without a mask.
    """

    cosine: tuple[float, ...]
    probability: tuple[float, ...]
    inside: float


@dataclass(frozen=True)
class Sweep:
    """λ of one model, swept.

    Attributes:
        title: of the model.
        tower: whose λ.
        layers: in words.
        labels: of the classes, P of them.
        lam: the steps, S of them.
        own, control: a run at each step, with the model's own A2 (or the one that was chosen) and with the control's.
        control_name: what the control is, in words.
        learned: λ of the swept layers as learned, or None where it is not one number.
        at_learned: the run without an override.
        area: share of patches on an object, None without a mask.
        map_name: whose mass it is, in words.
        kept: the other edits, in words.
        own_name: which A2 the runs have that are no control, in words.
        idle: whether that A2 is the control's, so that both are the same runs.
        picture: what was looked at, small, as a data URL; "" where it is not shown.
    """

    title: str
    tower: TowerName
    layers: str
    labels: tuple[str, ...]
    lam: tuple[float, ...]
    own: tuple[Point, ...]
    control: tuple[Point, ...]
    control_name: str
    learned: tuple[float, ...] | None
    at_learned: Point
    area: float | None
    map_name: str
    kept: tuple[str, ...]
    own_name: str = OWN
    idle: bool = False
    picture: str = ""


@dataclass(frozen=True)
class Swept:
    """How far a sweep is: `done` of `total` runs."""

    done: int
    total: int


def sweep_lambda(
    look: Look,
    image: Image.Image,
    prompts: list[Prompt],
    change: Change,
    tower_name: TowerName,
    choice: MapChoice,
    layer: int | None = None,
    other: Recording | None = None,
) -> Iterator[Swept | Sweep]:
    """Sweep λ over `STEPS`; how far it is comes between the runs, the sweep last.

    Args:
        look, image, prompts, other: as for `run_changed`.
        change: edits that are kept, but for λ of the swept layers.
        tower_name: whose λ is swept.
        choice: the map whose mass on objects is followed, where the vision tower is swept.
        layer: the one layer that is swept, or None for all.

    Raises:
        StudioError: a tower without λ, a layer that does not exist, or an edit that does not fit.
    """
    model = look.model
    tower = model.text if tower_name == "text" else model.vision
    layers = _swept_layers(model, tower_name, layer)
    if tower_name == "vision" and look.objects is not None:
        existing_layer(model, choice)
    kept = {name: change.of(name) for name in ("vision", "text")}
    kept[tower_name] = replace(
        kept[tower_name], lam={at: v for at, v in kept[tower_name].lam.items() if at not in layers}
    )
    control = ShuffledA2() if tower_name == "vision" else UniformA2()
    runner = _Runner(look, image, prompts, kept, tower_name, choice, other)
    total = 2 * len(STEPS) + 1
    points: list[Point] = []
    variants = [(None, ())] + [(a2, (value,)) for a2 in (None, control) for value in STEPS]
    for a2, override in variants:
        base = kept[tower_name] if a2 is None else replace(kept[tower_name], a2=a2)
        lam = {**base.lam, **{at: value for value in override for at in layers}}
        points.append(runner.run(replace(base, lam=lam)))
        yield Swept(len(points), total)
    lambdas = tower.lambdas()
    head = "mean head" if choice.head is None else f"head {choice.head}"
    yield Sweep(
        model.title,
        tower_name,
        layers_in_words(layers, tower),
        tuple(prompt.label for prompt in prompts) if points[0].cosine else (),
        STEPS,
        tuple(points[1 : 1 + len(STEPS)]),
        tuple(points[1 + len(STEPS) :]),
        "A2 shuffled over the patches" if tower_name == "vision" else "A2 uniform",
        None if lambdas is None else tuple(lambdas[at] for at in layers),
        points[0],
        object_share(look) if tower_name == "vision" else None,
        f"layer {model.vision.layer_name(choice.layer)}, {head}",
        tuple(word for name in ("vision", "text") for word in words_of(kept[name], getattr(model, name))),
        OWN if kept[tower_name].a2 == LearnedA2() else EDITED,
        kept[tower_name].a2 == control,
    )


@dataclass(frozen=True)
class LambdaAsked:
    """What a sweep of both models is asked for.

    Attributes:
        classes, template: as in zero-shot, as they were typed.
        choice: the map whose mass on objects is followed.
        other: the picture whose A2 may have been put in.
        tower: whose λ is swept.
        only: whether that of the map's layer alone.
    """

    classes: str
    template: str
    choice: MapChoice
    other: Upload | None
    tower: TowerName
    only: bool


def lambda_asked(
    classes: str, template: str, layer: float, head: str, part: str, other: Upload | None, tower: Any, only: Any
) -> LambdaAsked:
    """What the page's controls ask for.

    Raises:
        StudioError: a control's value that is not possible.
    """
    if tower not in ("vision", "text"):
        raise StudioError(f"There is no tower {str(tower)[:40]!r}: choose vision or text.")
    return LambdaAsked(classes, template, map_choice(layer, head, part), other, tower, bool(only))


def swept_model(
    service: Service, picture: Upload, name: str, edits: Any, asked: LambdaAsked
) -> Iterator[Swept | Sweep]:
    """Sweep λ of one model with the edits that are kept, as the page's table sends them.

    Raises:
        StudioError: classes that cannot be read, an edit that does not fit, or a model without λ.
    """
    prompts = parse_prompts(asked.classes, asked.template)
    look, change, recording = asked_change(service, name, picture, edits, asked.other)
    one = asked.choice.layer if asked.only else None
    for step in sweep_lambda(look, picture.image, prompts, change, asked.tower, asked.choice, one, recording):
        yield replace(step, picture=data_url(_small(picture.image))) if isinstance(step, Sweep) else step


def swept_models(
    service: Service, picture: Upload, names: Sequence[str], edits: Sequence[Any], asked: LambdaAsked
) -> Iterator[str | list[Sweep | str]]:
    """Sweep λ of both models: how far it is in words, and at the end a sweep for each.

    A model that has no λ to sweep gives its sentence; if neither has, that is refused.

    Args:
        edits: those that are kept, as the page's tables send them, one a model.

    Raises:
        StudioError: classes that cannot be read, or no model with λ.
    """
    parse_prompts(asked.classes, asked.template)
    results: list[Sweep | str] = []
    for name, kept in zip(names, edits, strict=True):
        try:
            for step in swept_model(service, picture, name, kept, asked):
                if isinstance(step, Sweep):
                    results.append(step)
                elif step.done % 4 == 1:
                    yield f"{service.title(name)}: run {step.done} of {step.total}."
        except StudioError as error:
            results.append(str(error))
    if not any(isinstance(result, Sweep) for result in results):
        raise StudioError(" ".join(dict.fromkeys(map(str, results))))
    yield results


def _small(image: Image.Image) -> Image.Image:
    small = image.copy()
    small.thumbnail((_THUMBNAIL, _THUMBNAIL))
    return small


def _swept_layers(model: LoadedModel, tower_name: TowerName, layer: int | None) -> tuple[int, ...]:
    tower = model.text if tower_name == "text" else model.vision
    if not tower.differential:
        raise StudioError(
            f"{model.title} has no λ to sweep in its {tower_name} tower, whose attention is standard: choose a "
            "differential model or tower."
        )
    layers = tuple(range(len(tower.blocks)))
    if layer is None:
        return layers
    if layer not in layers:
        raise StudioError(f"Layer {layer} of {model.title} has no λ: choose 0–{layers[-1]}, or all layers.")
    return (layer,)


class _Runner:
    """Runs a model with one tower changed in many ways; what the other tower gives is worked out once."""

    def __init__(
        self,
        look: Look,
        image: Image.Image,
        prompts: list[Prompt],
        kept: dict[str, TowerChange],
        tower_name: TowerName,
        choice: MapChoice,
        other: Recording | None,
    ) -> None:
        self.look, self.image, self.choice, self.other = look, image, choice, other
        model = self.model = look.model
        self.in_text = tower_name == "text"
        self.tokens, _ = read_prompts(model, prompts)
        self.texts = None if self.in_text else run_text(model, self.tokens, edits_of(kept["text"], model.text))
        vision = edits_of(kept["vision"], model.vision, other)
        self.embedding = run_vision(model, image, vision)[0] if self.in_text else None

    def run(self, change: TowerChange) -> Point:
        """One run with the swept tower changed."""
        if self.in_text:
            assert self.embedding is not None
            return self._point(self.embedding, run_text(self.model, self.tokens, edits_of(change, self.model.text)))
        edits = edits_of(change, self.model.vision, self.other)
        embedding, recording = run_vision(self.model, self.image, edits)
        return self._point(embedding, self.texts, self._inside(edits, recording))

    def _point(self, embedding: Tensor, texts: Tensor | None, inside: float = float("nan")) -> Point:
        cosine = torch.empty(0) if texts is None else (texts @ embedding[0]).float()
        probability = torch.softmax(cosine * self.model.logit_scale, dim=0)
        return Point(tuple(cosine.tolist()), tuple(probability.tolist()), inside)

    def _inside(self, edits: list[Edit], recording: Recording) -> float:
        if self.look.objects is None:
            return float("nan")
        layer = self.choice.layer
        maps = edited_maps(self.model.vision, edits, layer, recording[layer])
        return inside_of(maps, self.choice, vision_grid(self.model), self.look)
