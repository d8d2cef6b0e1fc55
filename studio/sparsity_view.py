"""What the Sparsity tab shows for what is set on it: maps, tables, curves and segmentations, step by step."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from models import StudioError
from studio.chart import Chart
from studio.filled import filled, filled_text
from studio.segmenting import (
    Segmentation,
    remarks_on_classes,
    segment,
    segmentation_said,
    shuffled_said,
    truth_panel,
    typed_labels,
)
from studio.service import Service
from studio.sparsity import RULES, Rule, SparseRun, read_out, run_with
from studio.sparsity_grids import SupportGrid, grids_html, grids_table, support_grids
from studio.sparsity_panels import MEANS, SHUFFLED, controls_said, sparsity_panels, sums_said
from studio.sparsity_sides import (
    MATCHES,
    Controls,
    checked_mode,
    class_names,
    classes_of,
    settings_words,
    sides_of,
    truth_of,
)
from studio.sparsity_sweep import ALPHAS, Curves, alpha_chart, sweep_alpha
from studio.strip import MapPanel, Strip, coloured_classes, no_map, strip_over
from studio.truth import measured_against
from studio.upload import Upload
from studio.zeroshot import parse_prompts

NO_PICTURE = "There is no picture: choose a file, or one of the example scenes."
# It stands in the place of the answers, under their heading.
READOUT_ANSWERS = (
    '<p class="sg-said">A readout changes nothing that a model says. Choose intervention to run the models so.</p>'
)


@dataclass(frozen=True)
class Shown:
    """What is there to see so far.

    Attributes:
        strip: of the maps; the second time with the numbers of the tables.
        grids: tables by layer and head, as HTML.
        answers: why no answer changes, as HTML; "" where `answers_shown` is to give them.
        said: how far it is, or what is to be said of a model without tables.
    """

    strip: Strip
    grids: str
    answers: str
    said: str


def show_sparsity(service: Service, upload: Upload, names: tuple[str, str], controls: Controls) -> Iterator[Shown]:
    """The maps, then the tables by layer and head; an intervention takes one pass of each model.

    Raises:
        StudioError: a setting that makes no sense for either model; of one model it is said in its panel.
    """
    mode = checked_mode(controls.mode)
    if mode == "intervention":
        # Read before anything is shown, so that what was there stays when they are wrong.
        parse_prompts(controls.classes, controls.template)
    truth = truth_of(service, upload, controls)
    sides = sides_of(service, upload, names, controls, truth)
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
    said = [settings_words(sides, controls, mode), sums_said(controls.source, panels), measured_against(truth)]
    strip = strip_over(upload.image, panels, " ".join(filter(None, [*said, controls_said(panels)])))
    yield Shown(strip, "", "", "Counting zeros in every layer …")
    tables, without = _grids(runs)
    grids = grids_html(tables, f"Support by layer and head. {settings_words(sides, controls, mode, layer=False)}")
    counted = replace(strip, tables=(grids_table(tables),) if tables else ())
    yield Shown(counted, grids, READOUT_ANSWERS if mode == "readout" else "", " ".join(without))


def sweep_shown(
    service: Service,
    upload: Upload,
    names: tuple[str, str],
    controls: Controls,
    alphas: tuple[float, ...] = ALPHAS,
) -> Iterator[tuple[str, Chart | None]]:
    """How far the sweep is, then its chart and what is to be said of it; the chart is None until there is one.

    Raises:
        StudioError: neither model has curves.
    """
    truth = truth_of(service, upload, controls)
    sides = sides_of(service, upload, names, replace(controls, match=MATCHES[0]), truth)
    found: list[Curves] = []
    messages: list[str] = []
    for side in sides:
        try:
            if side.look is None:
                raise StudioError(side.message)
            curves = None
            asked = side.asked.source, controls.at, side.head, side.patch, side.objects
            for curves in sweep_alpha(side.look, *asked, alphas):
                yield f"{side.model.title}: {len(curves.alphas)} of {len(alphas)} values of α …", None
            assert curves is not None
            found.append(curves)
        except StudioError as error:
            messages.append(f"{side.model.title}: {error}")
    if not found:
        raise StudioError(" ".join(messages))
    said = "; ".join(f"{curves.title}: {curves.where}" for curves in found)
    words = (
        f"A readout off the unmodified run, source {controls.source}. {said}. Solid: entmax. Broken: softmax over as "
        "many keys (the highest, or drawn at random, the mean of fixed draws), and softmax as concentrated. "
    )
    if any(SHUFFLED in curves.numbers for curves in found):
        words += f"“{SHUFFLED}” is entmax too: {MEANS[SHUFFLED]} "
    words = f"{words}{measured_against(truth)} {' '.join(messages)}".strip()
    yield words, alpha_chart(found, [words])


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
    classes = classes_of(controls)
    truth = truth_of(service, upload, controls)
    template = filled_text(controls.template, "Template")
    asked = Segmentation(preset, classes, template, controls.alpha, background)
    first = (
        [] if truth is None else [truth_panel(truth, (upload.image.height, upload.image.width), class_names(classes))]
    )
    note = segmentation_said(asked, truth, controls.named)
    marked = [] if truth is None else list(typed_labels(truth, class_names(classes)).values())
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
                strip_over(upload.image, [*first, *side], said, class_names(classes), coloured) if side else None
                for side, said in zip(panels, notes, strict=True)
            ]
            yield f"{model.title}, {panel.title}: {done} of {total} …" if done < total else "", strips[0], strips[1]


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
