"""The tab on which a model is run as changed: edits of both models, and what they do to similarities and maps."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.components import Component

from models import StudioError
from studio.changes import controls_value
from studio.chart_plotly import plot_figure
from studio.examples import Example
from studio.failures import told, told_steps
from studio.fields import layer_slider, layer_to_show, untouched
from studio.filled import filled_whole
from studio.intervened_maps import map_choice, maps_strip
from studio.intervening import changed_model
from studio.kept_runs import run_key
from studio.looked_at import EACH_TIME, MODEL_EVENT, LookedAt
from studio.outcome import message_html, outcome_html
from studio.result_store import new_token
from studio.service import Service
from studio.stopping import Stopped
from studio.sweep_figure import sweep_chart, sweep_plots, sweep_words
from studio.sweeping import LambdaAsked, Sweep, lambda_asked, swept_models
from studio.tab_settings import intervene_settings, lambda_sweep_settings, picture_of
from studio.tabs.following import (
    asked_with,
    click_if_new,
    click_if_seen,
    long_run,
    outdated_line,
    say_outdated,
    say_waiting,
)
from studio.take_strip import take_strip_server
from studio.upload import Upload
from studio.uploads import picture_field
from studio.viewer.bench import edit_bench
from studio.viewer.explained import status_line
from studio.viewer.gallery import gallery
from studio.viewer.outcome import outcome_page
from studio.viewer.strip import map_strip
from studio.viewer.take_button import take_button
from studio.zeroshot import parse_prompts

INTRO = (
    "Here the model itself is run with edits (an *intervention*): what is changed in one layer reaches every layer "
    "behind it, the similarities and the ranking. Each model has its own table; “before” is the model as it is."
)
PARTS = [("what multiplies V: A, A1 − λA2", "weights"), ("A1", "a1"), ("λA2", "subtracted")]
SWEPT = [("vision tower", "vision"), ("text tower", "text")]
LAYERS = [("all layers", False), ("the layer of the maps", True)]
SWEEP_INTRO = (
    "λ from 0 to 1.5 in steps of 0.1, a run each; the other edits above stay. The control is the same with an A2 that "
    "knows nothing of the picture. 33 runs a model that has λ."
)
STOPPED = "Stopped; the same sweep goes on from here when it is run again."
# How a link's other picture is asked for; the sentence goes when a picture is given.
NEED = "The link"
NO_PICTURE = "There is no picture to run the models on: choose a file, or one of the example scenes."


@dataclass(frozen=True)
class _Widgets:
    benches: tuple[gr.HTML, gr.HTML]
    classes: gr.Textbox
    template: gr.Textbox
    layer: gr.Slider
    head: gr.Dropdown
    part: gr.Radio
    run: gr.Button
    other: gr.Image
    token: gr.Textbox
    need: gr.HTML
    scenes: gr.HTML
    outcome: gr.HTML
    maps: gr.HTML
    tower: gr.Radio
    only: gr.Radio
    sweep: gr.Button
    stop: gr.Button
    waiting: gr.HTML
    outdated: gr.HTML
    swept: gr.HTML
    take: gr.HTML
    plots: tuple[gr.Plot, ...]

    @property
    def asked(self) -> list[Component]:
        """What a run needs beside the picture and the models, in the order of the handlers' arguments."""
        return [*self.benches, self.classes, self.template, self.layer, self.head, self.part, self.other]


def intervene_tab(looked_at: LookedAt, service: Service, tab: gr.Tab, examples: tuple[Example, ...]) -> None:
    """Make the widgets and wire them; the first run comes when the tab is opened."""
    widgets = _widgets(examples, service)
    _wire_runs(tab, looked_at, widgets, service)
    _wire_other(widgets, service, examples)
    _wire_sweep(looked_at, widgets, service)


def _widgets(examples: tuple[Example, ...], service: Service) -> _Widgets:
    objects = dict.fromkeys(name for example in examples for name in example.objects)
    gr.Markdown(INTRO)
    with gr.Row(equal_height=False):
        benches = [
            _in_column(lambda side=side: edit_bench(elem_id=f"bench-{side}"), min_width=330)
            for side in ("left", "right")
        ]
    with gr.Accordion("Another picture, for its A2", open=False, elem_id="intervene-other-fold"):
        need = status_line("", elem_id="intervene-other-need")
        # What the address holds of it: one that is not on the page at all would not be heard to change.
        hidden: dict[str, Any] = {"visible": "hidden", "label": "Name of the other picture", "interactive": True}
        token = gr.Textbox("", elem_id="intervene-other-token", **hidden)
        with gr.Row(equal_height=False):
            other = picture_field(label="Another picture", height=150, elem_id="intervene-other", interactive=True)
            with gr.Column(min_width=200):
                strip = gallery(examples, elem_id="intervene-scenes", visible=bool(examples))
    with gr.Row(equal_height=False):
        with gr.Column(min_width=300), gr.Group():
            classes = _text(", ".join(objects), "Zero-shot classes, by line or by comma", "intervene-classes", 2)
            template = _text("a photo of a {}", "Template; {} is the class", "intervene-template", 1)
        with gr.Column(min_width=300), gr.Group():
            layer = layer_slider("Layer of the maps", elem_id="intervene-layer")
            with gr.Row():
                head = gr.Dropdown(["mean"], value="mean", label="Head", elem_id="intervene-head", interactive=True)
                part = _choice(PARTS, "weights", "Map", "intervene-part")
    run = gr.Button("Run with these edits", variant="primary", size="sm", elem_id="intervene-run")
    outcome = outcome_page(elem_id="intervene-outcome")
    maps = map_strip(
        label="Maps before and after the intervention", take=take_strip_server(service), elem_id="intervene-maps"
    )
    gr.Markdown(f"#### Sweep λ\n{SWEEP_INTRO}")
    with gr.Row(equal_height=False):
        tower = _choice(SWEPT, "vision", "λ of the", "sweep-tower")
        only = _choice(LAYERS, False, "in", "sweep-only")
        with gr.Column(min_width=140):
            sweep = gr.Button("Sweep λ", variant="primary", size="sm", elem_id="sweep-run")
            stop = gr.Button("Stop", size="sm", elem_id="sweep-stop")
            waiting = status_line("", elem_id="sweep-waiting")
    outdated = outdated_line("sweep-outdated")
    swept = outcome_page(elem_id="sweep-words")
    take = take_button("the curves of the sweep over λ", take_strip_server(service), "sweep-take")
    plots = []
    for side in ("left", "right"):
        with gr.Row(equal_height=False):
            plots += [
                gr.Plot(show_label=False, visible=False, min_width=300, elem_id=f"sweep-{side}-{what}")
                for what in ("classes", "inside")
            ]
    return _Widgets(
        (benches[0], benches[1]),
        classes,
        template,
        layer,
        head,
        part,
        run,
        other,
        token,
        need,
        strip,
        outcome,
        maps,
        tower,
        only,
        sweep,
        stop,
        waiting,
        outdated,
        swept,
        take,
        tuple(plots),
    )


def _in_column(make: Callable[[], gr.HTML], min_width: int) -> gr.HTML:
    with gr.Column(min_width=min_width):
        return make()


def _text(value: str, label: str, elem_id: str, lines: int) -> gr.Textbox:
    return gr.Textbox(value, label=label, lines=lines, max_lines=6, elem_id=elem_id, interactive=True)


def _choice(choices: list[tuple[str, Any]], value: Any, label: str, elem_id: str) -> gr.Radio:
    return gr.Radio(choices, value=value, label=label, min_width=200, elem_id=elem_id, interactive=True)


def _wire_runs(tab: gr.Tab, at: LookedAt, w: _Widgets, service: Service) -> None:
    private: dict[str, Any] = {**MODEL_EVENT, "api_visibility": "private", "show_progress": "hidden"}

    @told
    def fill(left: str, right: str, left_edits: Any, right_edits: Any, layer: float, head: str) -> tuple[Any, ...]:
        return _filled(service, (left, right), (left_edits, right_edits), layer, head)

    @told
    def fill_again(left: str, right: str, left_edits: Any, right_edits: Any, layer: float, head: str) -> Any:
        if untouched(layer):
            return tuple(gr.skip() for _ in filled)
        return fill(left, right, left_edits, right_edits, layer, head)

    def ran(picture: Upload, left: str, right: str, *asked: Any) -> tuple[str, dict[str, Any] | None]:
        return _ran(service, picture, (left, right), *asked)

    @told
    def run_edits(picture: Upload | None, left: str, right: str, *asked: Any) -> tuple[str, dict[str, Any] | None]:
        if picture is None:
            raise StudioError(NO_PICTURE)
        return ran(picture, left, right, *asked)

    @told
    def run_opened(picture: Upload | None, left: str, right: str, *asked: Any) -> tuple[str, dict[str, Any] | None]:
        return (message_html(NO_PICTURE), None) if picture is None else ran(picture, left, right, *asked)

    filled = [*w.benches, w.layer, w.head]
    filling = [at.left, at.right, *w.benches, w.layer, w.head]
    results = [w.outcome, w.maps]
    # A change that is heard of late is none, if the run was asked for since.
    asked = asked_with(at, tab.select, w.run.click)
    new: dict[str, Any] = {"inputs": [at.picture, asked, at.changed], "js": click_if_new("intervene-run")}
    tab.select(fill, filling, filled, **private).success(run_opened, [*at.inputs, *w.asked], results, **private)
    at.models.change(fill_again, filling, filled, **EACH_TIME, **private).success(None, **new)
    at.file.change(None, **new)
    # A dropdown tells of each choice twice, and of none when it is left: only another value counts.
    w.head.change(None, at.picture, js=click_if_seen("intervene-run"))
    gr.on(
        [
            w.run.click,
            *(bench.input for bench in w.benches),
            w.classes.submit,
            w.template.submit,
            w.layer.input,
            w.part.input,
        ],
        run_edits,
        [*at.inputs, *w.asked],
        results,
        trigger_mode="always_last",
        **private,
    )


def _wire_other(w: _Widgets, service: Service, examples: tuple[Example, ...]) -> None:
    private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}

    @told
    def choose_other(index: int, wanted: str, said: str) -> tuple[str, str, str]:
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(examples):
            raise StudioError(f"There is no example scene {str(index)[:40]!r}: choose one of {len(examples)}.")
        return str(examples[index].picture), *_given_other(examples[index].token, wanted, said)

    @told
    def keep_other(other: Upload | None, wanted: str, said: str) -> tuple[str, str]:
        if other is None:
            return "", ""
        service.pictures.keep(other)
        return _given_other(other.token, wanted, said)

    named = [w.token, w.need]
    w.scenes.input(choose_other, [w.scenes, *named], [w.other, *named], **private)
    # A file that is no picture leaves the place empty; a picture that a link asks for is asked for still.
    refused = f"(token, said) => [null, said.startsWith({NEED!r}) ? token : '']"
    w.other.upload(keep_other, [w.other, *named], named, **private).failure(
        None, named, [w.other, w.token], js=refused, **private
    )
    w.other.clear(None, None, named, js="() => ['', '']", **private)


def need_other(token: str) -> str:
    """How a link's other picture is asked for where it is not here."""
    return (
        f"{NEED} takes A2 of the picture whose pixels have the sha256 {token}…, and a link does not contain its "
        "pictures: choose that picture on Intervene, under “Another picture, for its A2”."
    )


def _given_other(token: str, wanted: str, said: str) -> tuple[str, str]:
    """The name of the other picture, and a sentence where a link asked for one."""
    if not (isinstance(said, str) and said.startswith(NEED)):
        return token, ""
    if token == wanted:
        return token, "This is the picture of the link, whose A2 is taken."
    return token, f"This is not the picture of the link: its sha256 is {token}…, the link’s is {str(wanted)[:32]}…."


def _wire_sweep(at: LookedAt, w: _Widgets, service: Service) -> None:
    sweeping = long_run(at, service.turns)

    @told_steps
    def sweep(
        since: float,
        request: gr.Request,
        picture: Upload | None,
        left: str,
        right: str,
        left_edits: Any,
        right_edits: Any,
        *controls: Any,
    ) -> Iterator[tuple[Any, ...]]:
        if picture is None:
            raise StudioError(NO_PICTURE)
        asked, names, edits = lambda_asked(*controls), (left, right), (left_edits, right_edits)
        begun = service.kept.begin(
            run_key("sweep of lambda", names, picture, edits, asked),
            lambda: swept_models(service, picture, names, edits, asked),
        )
        try:
            for step in sweeping.stops.until(since, request, begun.steps):
                if isinstance(step, str):
                    yield message_html(step), *[gr.skip()] * (1 + len(w.plots)), begun.note
                else:
                    yield *_shown_sweeps(service, picture, names, edits, asked, step), begun.note
        except Stopped:
            yield message_html(STOPPED), *[gr.skip()] * (1 + len(w.plots)), ""

    sweeping.ended_by(w.stop.click)
    sweeping.begun_anew_by(w.sweep.click)
    say_outdated(at, w.outdated, w.swept, [w.sweep])
    inputs = [*at.inputs, *w.asked, w.tower, w.only]
    say_waiting(w.waiting, w.sweep.click)
    sweeping.begun_by([w.sweep.click], sweep, inputs, [w.swept, w.take, *w.plots, w.waiting], line=w.waiting)


def _filled(
    service: Service, names: tuple[str, str], edits: tuple[Any, Any], layer: float, head: str
) -> tuple[Any, ...]:
    """The tables of edits of the chosen models, kept where they are of the same model; the layers and heads to see.

    The chosen head stays chosen where one of the models has it.
    """
    models = [service.model(name) for name in names]
    benches = [
        gr.skip() if isinstance(value, dict) and value.get("name") == name else controls_value(model, name)
        for name, model, value in zip(names, models, edits, strict=True)
    ]
    depths = [model.vision.layers for model in models]
    deepest, shown = layer_to_show(filled_whole(layer, "Layer of the maps"), depths)
    heads = ["mean", *map(str, range(max(model.vision.heads for model in models)))]
    slider = gr.Slider(maximum=max(1, deepest), value=shown)
    return *benches, slider, gr.Dropdown(heads, value=head if head in heads else "mean")


def _ran(
    service: Service,
    picture: Upload,
    names: tuple[str, str],
    left_edits: Any,
    right_edits: Any,
    classes: str,
    template: str,
    layer: float,
    head: str,
    part: str,
    other: Upload | None,
) -> tuple[str, dict[str, Any] | None]:
    """Both models before and after, in words and as maps; wrong classes are told and do not stop the maps."""
    try:
        prompts, problem = parse_prompts(classes, template), ""
    except StudioError as error:
        prompts, problem = [], str(error)
    choice = map_choice(layer, head, part)
    outcomes = [
        changed_model(service, name, picture, edits, prompts, other)
        for name, edits in zip(names, (left_edits, right_edits), strict=True)
    ]
    words, strip = outcome_html(prompts, outcomes, problem), maps_strip(picture, outcomes, choice, prompts)
    if strip is None:
        return words, None
    asked = (classes, template) if prompts else ("", "")
    made = intervene_settings(service, names, (left_edits, right_edits), outcomes, choice, other, asked)
    return words, service.results.value(new_token(), strip, picture_of(picture), made)


def _shown_sweeps(
    service: Service,
    picture: Upload,
    names: tuple[str, str],
    edits: tuple[Any, Any],
    asked: LambdaAsked,
    results: list[Sweep | str],
) -> tuple[Any, ...]:
    """What the end of a sweep shows: words, what it is taken away by, and two figures for each model."""
    chart, taken = sweep_chart(results), None
    if chart is not None:
        made = lambda_sweep_settings(service, names, edits, results, asked)
        taken = service.results.keep(new_token(), chart, picture_of(picture), made)
    plots = [plot for each in results for plot in (sweep_plots(each) if isinstance(each, Sweep) else (None, None))]
    shown = [
        gr.Plot(visible=False) if plot is None else gr.Plot(plot_figure(plot, 370), visible=True) for plot in plots
    ]
    return sweep_words(results), taken, *shown
