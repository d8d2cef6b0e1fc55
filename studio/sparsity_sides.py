"""What is asked of each model on the Sparsity tab: the controls as they come, read, and the α that each model gets."""

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from models import LoadedModel, StudioError
from studio.filled import filled_whole
from studio.service import Look, Service, vision_grid
from studio.sparsity import (
    Asked,
    Mode,
    alpha_for_support,
    existing_layer,
    layer_support,
    parse_head,
    parse_query,
    read_out,
    same_patch,
)
from studio.truth import PAINTED, UPLOADED, Truth, mask_truth, painted_mask, scene_truth
from studio.upload import Upload
from studio.zeroshot import parse_prompts

Match = Literal[
    "the same α", "left has the right's support", "right has the left's support", "both have top-k's support"
]
MATCHES: tuple[Match, ...] = get_args(Match)


@dataclass(frozen=True)
class Controls:
    """What is set on the tab, as it comes from the browser.

    Attributes:
        alpha: 1 to 2.
        match: what α each model gets.
        keep: keys of top-k, for the last of the matches.
        source: what makes the scores.
        mode: readout or intervention.
        everywhere: whether an intervention changes all layers, and not the one that is shown alone.
        layer: the one that is shown.
        left_head, right_head: "mean" or a number.
        query: "CLS", or row and column of a patch of the left model.
        classes, template: as in zero-shot.
        mask: an uploaded mask.
        painted: the painter's value.
        named: the class of a mask with one value.
    """

    alpha: float
    match: str
    keep: float | None
    source: str
    mode: str
    everywhere: bool
    layer: float
    left_head: str
    right_head: str
    query: str
    classes: str
    template: str
    mask: Upload | None
    painted: Any
    named: str

    @property
    def at(self) -> int:
        """The layer as a whole number."""
        return filled_whole(self.layer, "Layer")


@dataclass(frozen=True)
class Side:
    """One model with what it is asked for, or why it cannot be (`message`); `remark` is what it could not be given."""

    model: LoadedModel
    look: Look | None
    asked: Asked
    head: int | None
    patch: tuple[int, int] | None
    truth: Truth | None
    message: str = ""
    remark: str = ""

    @property
    def objects(self) -> Any:
        """Where the mask's objects lie on this model's patches."""
        if self.look is None or self.truth is None:
            return None
        return self.truth.objects(self.look.geometry, vision_grid(self.model))


def truth_of(service: Service, upload: Upload, controls: Controls) -> Truth | None:
    """The mask that holds: the painted one, else the uploaded one, else the scene's own.

    Raises:
        StudioError: a mask that does not fit the picture.
    """
    size = upload.image.height, upload.image.width
    painted = None
    if isinstance(controls.painted, dict) and controls.painted.get("token") == upload.token:
        painted = painted_mask(controls.painted, size)
    if painted is not None:
        return mask_truth(painted, size, class_names(classes_of(controls)), controls.named, PAINTED)
    if controls.mask is not None:
        return mask_truth(controls.mask.image, size, class_names(classes_of(controls)), controls.named, UPLOADED)
    example = service.example(upload.token)
    return None if example is None or example.mask is None else scene_truth(example)


def classes_of(controls: Controls) -> tuple[str, ...]:
    """The typed classes, synonyms and all."""
    return tuple(prompt.label for prompt in parse_prompts(controls.classes, controls.template))


def class_names(classes: tuple[str, ...]) -> tuple[str, ...]:
    """The first of each class's synonyms, which is its name."""
    return tuple(next((part.strip() for part in line.split(",") if part.strip()), line) for line in classes)


def sides_of(
    service: Service, upload: Upload, names: tuple[str, str], controls: Controls, truth: Truth | None
) -> list[Side]:
    """Both models, or one that was chosen twice, with the α that each gets."""
    if controls.match not in MATCHES:
        raise StudioError(f"Matching {controls.match!r} is unknown: choose {'; '.join(MATCHES)}.")
    query = parse_query(controls.query)
    asked = Asked(_alpha(controls.alpha), controls.source, None if controls.everywhere else (controls.at,))
    heads = dict(zip(names, (controls.left_head, controls.right_head), strict=True))
    sides: list[Side] = []
    for name in dict.fromkeys(names):
        model = service.model(name)
        try:
            look = service.look(name, upload.image)
            existing_layer(model, controls.at)
            first = service.look(names[0], upload.image) if query is not None else look
            side = Side(model, look, asked, parse_head(heads[name], model), same_patch(query, first, look), truth)
        except StudioError as error:
            side = Side(model, None, asked, None, None, truth, str(error))
        sides.append(side)
    leading = {MATCHES[1]: sides[-1], MATCHES[2]: sides[0]}.get(controls.match)
    return [_matched(side, leading, controls) for side in sides]


def _matched(side: Side, leading: Side | None, controls: Controls) -> Side:
    """The side with its own α: that which gives it the support of the leading side, or of top-k where none leads.

    Where the leading side has no map the α that was set stays, with a remark.
    """
    if side.look is None or side is leading or controls.match == MATCHES[0]:
        return side
    try:
        if leading is not None:
            share = _support(leading, controls.at)
            if share is None:
                kept = f"{side.model.title} keeps the α that is set, {side.asked.alpha:g}"
                why = f"{leading.model.title} has no map whose support it could be given"
                return replace(side, remark=f"{kept}: {why}.")
        else:
            tokens = vision_grid(side.model).tokens
            share = _keep(controls.keep, tokens) / tokens
        asked = replace(side.asked, alpha=alpha_for_support(side.look, side.asked, controls.at, share))
        kept = layer_support(read_out(side.look, asked), controls.at)
    except StudioError as error:
        return replace(side, look=None, message=str(error))
    return replace(side, asked=asked, remark=_matched_said(side, asked.alpha, kept, share, controls))


def _matched_said(side: Side, alpha: float, kept: float, share: float, controls: Controls) -> str:
    """How near a side came to the share of keys that it was to keep: at either end of α it may be far from it."""
    where = f"layer {controls.at}, the mean over maps, heads and queries"
    said = f"{side.model.title} keeps {_percent(kept)} of the keys in {where}; {_percent(share)} wanted"
    # Half a key is more than the steps in which supports fall, where α could still be moved.
    far = abs(kept - share) * vision_grid(side.model).tokens >= 0.5
    end = ": no α from 1 to 2 comes nearer" if far and alpha in (1.0, 2.0) else ""
    # With every layer changed this one is given other tokens than those on which it was matched.
    run = controls.mode == "intervention" and controls.everywhere
    return f"{said}{end}{', both as read off the unmodified run' if run else ''}."


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _support(side: Side, layer: int) -> float | None:
    """The support of a layer's maps; None where there are none, as the side's own panel says."""
    if side.look is None:
        return None
    try:
        return layer_support(read_out(side.look, side.asked), layer)
    except StudioError:
        return None


def _keep(keep: float | None, tokens: int) -> int:
    number = filled_whole(keep, "k of top-k")
    if not 1 <= number <= tokens:
        raise StudioError(f"Of {tokens} keys {number} cannot be kept: write a whole number from 1 to {tokens}.")
    return number


def _alpha(alpha: Any) -> float:
    if not isinstance(alpha, int | float) or not 1 <= alpha <= 2:
        raise StudioError("α must be a number from 1, softmax, to 2, sparsemax.")
    return round(float(alpha), 3)


def checked_mode(mode: str) -> Mode:
    if mode not in get_args(Mode):
        raise StudioError(f"{mode!r} is unknown: choose readout or intervention.")
    return mode  # type: ignore[return-value]


def settings_words(sides: list[Side], controls: Controls, mode: Mode, *, layer: bool = True) -> str:
    """The settings, in words, of a drawn result; with the layer unless it is of all layers, or of none."""
    alphas = "; ".join(f"{side.model.title} α = {side.asked.alpha:g}" for side in sides if side.look is not None)
    where = "in all layers" if controls.everywhere else f"in layer {controls.at} alone"
    told = (
        "Readout: recomputed off the unmodified run; the models themselves used softmax."
        if mode == "readout"
        else f"Intervention: the models were run with it {where}."
    )
    remarks = [side.remark for side in sides if side.remark]
    source = f"Layer {controls.at}, source" if layer else "Source"
    return " ".join([f"{told} {source} {controls.source}, {alphas or 'no map'}.", *remarks])
