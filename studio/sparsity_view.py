"""What the Sparsity tab shows for what is set on it: maps, tables, curves and segmentations, step by step."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from models import LoadedModel, StudioError
from studio.fields import filled, filled_whole
from studio.segmenting import (
    Segmentation,
    remarks_on_classes,
    segment,
    segmentation_said,
    shuffled_said,
    truth_panel,
    typed_labels,
)
from studio.service import Look, Service, vision_grid
from studio.sparsity import (
    RULES,
    Asked,
    Mode,
    Rule,
    SparseRun,
    alpha_for_support,
    existing_layer,
    layer_support,
    parse_head,
    parse_query,
    read_out,
    run_with,
    same_patch,
)
from studio.sparsity_grids import SupportGrid, grids_html, support_grids
from studio.sparsity_panels import controls_said, sparsity_panels, sums_said
from studio.sparsity_similarity import Answers, answers_html, answers_of
from studio.sparsity_sweep import ALPHAS, Curves, sweep_alpha, sweep_figure
from studio.strip import MapPanel, Strip, coloured_classes, no_map, strip_over
from studio.truth import PAINTED, UPLOADED, Truth, mask_truth, measured_against, painted_mask, scene_truth
from studio.uploads import Upload
from studio.zeroshot import parse_prompts

Match = Literal[
    "the same α", "left has the right's support", "right has the left's support", "both have top-k's support"
]
MATCHES: tuple[Match, ...] = get_args(Match)
NO_PICTURE = "There is no picture: choose a file, or one of the example scenes."
# It stands in the place of the answers, under their heading.
READOUT_ANSWERS = (
    '<p class="sg-said">A readout changes nothing that a model says. Choose intervention to run the models so.</p>'
)


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
class Shown:
    """What is there to see so far.

    Attributes:
        strip: of the maps.
        grids: tables by layer and head, as HTML.
        answers: tables of similarities, or why there are none, as HTML.
        said: how far it is, or what is to be said of a model without tables.
    """

    strip: Strip
    grids: str
    answers: str
    said: str


@dataclass(frozen=True)
class _Side:
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


def show_sparsity(service: Service, upload: Upload, names: tuple[str, str], controls: Controls) -> Iterator[Shown]:
    """The maps, then the tables by layer and head, then, for an intervention, what the models say.

    Raises:
        StudioError: a setting that makes no sense for either model; of one model it is said in its panel.
    """
    mode = _checked_mode(controls.mode)
    # Read before anything is shown, so that what was there stays when they are wrong.
    prompts = parse_prompts(controls.classes, controls.template) if mode == "intervention" else []
    truth = truth_of(service, upload, controls)
    sides = _sides(service, upload, names, controls, truth)
    panels: list[MapPanel] = []
    runs: list[SparseRun] = []
    for side in sides:
        try:
            if side.look is None:
                raise StudioError(side.message)
            run = (
                read_out(side.look, side.asked) if mode == "readout" else run_with(side.look, upload.image, side.asked)
            )
            panels += sparsity_panels(run, controls.at, side.head, side.patch, side.objects)
            runs.append(run)
        except StudioError as error:
            geometry = side.model.preprocess(upload.image)[1] if side.look is None else side.look.geometry
            panels.append(no_map("no map", side.model.title, geometry, str(error)))
    said = [_words(sides, controls, mode), sums_said(controls.source, panels), measured_against(truth)]
    strip = strip_over(upload.image, panels, " ".join(filter(None, [*said, controls_said(panels)])))
    yield Shown(strip, "", "", "Counting zeros in every layer …")
    tables, without = _grids(runs)
    grids = grids_html(tables, f"Support by layer and head. {_words(sides, controls, mode)}")
    if mode == "readout":
        yield Shown(strip, grids, READOUT_ANSWERS, " ".join(without))
        return
    caption = f"Similarity to each class, with the model run as changed. {_words(sides, controls, mode)}"
    done: dict[int, Answers] = {}
    for at, run in enumerate(runs):
        for answers in answers_of(run.look, upload.image, prompts, run.asked, RULES):
            done[at] = answers
            title, count = run.look.model.title, len(answers.runs)
            yield Shown(
                strip,
                grids,
                answers_html(prompts, list(done.values()), caption),
                f"{title}: run {count} of {len(RULES)} …",
            )
    yield Shown(strip, grids, answers_html(prompts, list(done.values()), caption), " ".join(without))


def sweep_shown(
    service: Service, upload: Upload, names: tuple[str, str], controls: Controls
) -> Iterator[tuple[str, Any]]:
    """How far the sweep is, then its figure; the figure is None until there is one.

    Raises:
        StudioError: neither model has curves.
    """
    truth = truth_of(service, upload, controls)
    sides = _sides(service, upload, names, replace(controls, match=MATCHES[0]), truth)
    found: list[Curves] = []
    messages: list[str] = []
    for side in sides:
        try:
            if side.look is None:
                raise StudioError(side.message)
            curves = None
            for curves in sweep_alpha(side.look, side.asked.source, controls.at, side.head, side.patch, side.objects):
                yield f"{side.model.title}: {len(curves.alphas)} of {len(ALPHAS)} values of α …", None
            assert curves is not None
            found.append(curves)
        except StudioError as error:
            messages.append(f"{side.model.title}: {error}")
    if not found:
        raise StudioError(" ".join(messages))
    said = "; ".join(f"{curves.title}: {curves.where}" for curves in found)
    yield (
        f"A readout off the unmodified run, source {controls.source}. {said}. Solid: entmax. Broken: softmax over as "
        f"many keys (the highest, or drawn at random), and softmax as concentrated. {measured_against(truth)} "
        f"{' '.join(messages)}".strip(),
        sweep_figure(found),
    )


def segment_shown(
    service: Service,
    upload: Upload,
    names: tuple[str, str],
    controls: Controls,
    preset: str,
    background: float,
    rules: list[str],
) -> Iterator[tuple[str, Strip | None, Strip | None]]:
    """How far it is, and the strip of each model so far; None for a strip without panels.

    Raises:
        StudioError: no column, an unknown one, or classes that cannot be read.
    """
    chosen: tuple[Rule, ...] = tuple(rule for rule in RULES if rule in rules)
    if not chosen or len(chosen) < len(set(rules)):
        raise StudioError(f"Columns {rules!r} cannot be shown: choose among {', '.join(RULES)}.")
    background = filled(background, "Ground below")
    classes = _classes(controls)
    truth = truth_of(service, upload, controls)
    asked = Segmentation(preset, classes, controls.template, controls.alpha, background)
    first = [] if truth is None else [truth_panel(truth, (upload.image.height, upload.image.width), _named(classes))]
    note = segmentation_said(asked, truth, controls.named)
    marked = [] if truth is None else list(typed_labels(truth, _named(classes)).values())
    panels: tuple[list[MapPanel], list[MapPanel]] = ([], [])
    total = len(dict.fromkeys(names)) * len(chosen)
    notes = [note] * 2
    for at, name in enumerate(dict.fromkeys(names)):
        model = service.model(name)
        remarks = [f"{model.title}: {clause}." for clause in remarks_on_classes(model, asked)]
        notes[at] = " ".join(filter(None, [note, "" if truth is None else shuffled_said(model), *remarks]))
        for panel in segment(model, upload.image, asked, truth, chosen):
            panels[at].append(panel)
            done = sum(map(len, panels))
            # Both strips give a class the same colour, so the first one is made again with the second.
            coloured = coloured_classes([*panels[0], *panels[1]], len(classes), marked)
            strips = [
                strip_over(upload.image, [*first, *side], said, _named(classes), coloured) if side else None
                for side, said in zip(panels, notes, strict=True)
            ]
            yield f"{model.title}, {panel.title}: {done} of {total} …" if done < total else "", strips[0], strips[1]


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
        return mask_truth(painted, size, _named(_classes(controls)), controls.named, PAINTED)
    if controls.mask is not None:
        return mask_truth(controls.mask.image, size, _named(_classes(controls)), controls.named, UPLOADED)
    example = service.example(upload.token)
    return None if example is None or example.mask is None else scene_truth(example)


def _classes(controls: Controls) -> tuple[str, ...]:
    return tuple(prompt.label for prompt in parse_prompts(controls.classes, controls.template))


def _named(classes: tuple[str, ...]) -> tuple[str, ...]:
    """The first of each class's synonyms, which is its name."""
    return tuple(next((part.strip() for part in line.split(",") if part.strip()), line) for line in classes)


def _sides(
    service: Service, upload: Upload, names: tuple[str, str], controls: Controls, truth: Truth | None
) -> list[_Side]:
    """Both models, or one that was chosen twice, with the α that each gets."""
    if controls.match not in MATCHES:
        raise StudioError(f"Matching {controls.match!r} is unknown: choose {'; '.join(MATCHES)}.")
    query = parse_query(controls.query)
    asked = Asked(_alpha(controls.alpha), controls.source, None if controls.everywhere else (controls.at,))
    heads = dict(zip(names, (controls.left_head, controls.right_head), strict=True))
    sides: list[_Side] = []
    for name in dict.fromkeys(names):
        model = service.model(name)
        try:
            look = service.look(name, upload.image)
            existing_layer(model, controls.at)
            first = service.look(names[0], upload.image) if query is not None else look
            side = _Side(model, look, asked, parse_head(heads[name], model), same_patch(query, first, look), truth)
        except StudioError as error:
            side = _Side(model, None, asked, None, None, truth, str(error))
        sides.append(side)
    leading = {MATCHES[1]: sides[-1], MATCHES[2]: sides[0]}.get(controls.match)
    return [_matched(side, leading, controls) for side in sides]


def _matched(side: _Side, leading: _Side | None, controls: Controls) -> _Side:
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
        alpha = alpha_for_support(side.look, side.asked, controls.at, share)
    except StudioError as error:
        return replace(side, look=None, message=str(error))
    return replace(side, asked=replace(side.asked, alpha=alpha))


def _support(side: _Side, layer: int) -> float | None:
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


def _checked_mode(mode: str) -> Mode:
    if mode not in get_args(Mode):
        raise StudioError(f"{mode!r} is unknown: choose readout or intervention.")
    return mode  # type: ignore[return-value]


def _grids(runs: list[SparseRun]) -> tuple[list[SupportGrid], list[str]]:
    """Tables of all runs, and what to say of runs without."""
    grids: list[SupportGrid] = []
    said: list[str] = []
    for run in runs:
        try:
            grids += support_grids(run)
        except StudioError as error:
            said.append(f"{run.look.model.title}: {error}")
    return grids, said


def _words(sides: list[_Side], controls: Controls, mode: Mode) -> str:
    """The settings, in words, of a drawn result."""
    alphas = "; ".join(f"{side.model.title} α = {side.asked.alpha:g}" for side in sides if side.look is not None)
    where = "in all layers" if controls.everywhere else f"in layer {controls.at} alone"
    told = (
        "Readout: recomputed off the unmodified run; the models themselves used softmax."
        if mode == "readout"
        else f"Intervention: the models were run with it {where}."
    )
    remarks = [side.remark for side in sides if side.remark]
    return " ".join([f"{told} Layer {controls.at}, source {controls.source}, {alphas or 'no map'}.", *remarks])
