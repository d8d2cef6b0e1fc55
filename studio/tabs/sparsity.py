"""The tab on which attention is made sparse: maps with true zeros, tables, curves and segmentations."""

import html
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gradio as gr

from models import StudioError
from models.presets import PRESETS
from studio.examples import Example
from studio.failures import told, told_steps
from studio.fields import layer_slider, layer_to_show, number_slider, untouched
from studio.filled import filled_whole
from studio.kept_runs import run_key
from studio.looked_at import EACH_TIME, MODEL_EVENT, LookedAt
from studio.panels import SOURCES
from studio.result_store import new_token
from studio.service import Service
from studio.sparsity import RULES, parse_query, same_patch
from studio.sparsity_view import MATCHES, NO_PICTURE, Controls, segment_shown, show_sparsity
from studio.stopping import Stopped
from studio.strip import Strip, strip_value
from studio.tab_settings import SIDES, picture_of, segmentation_settings, sparsity_settings
from studio.tabs.following import (
    TIMED,
    asked_with,
    click_if_new,
    click_if_seen,
    long_run,
    outdated_line,
    say_outdated,
    say_waiting,
)
from studio.tabs.sparsity_answers import AnswersPart, answers_part, wire_answers
from studio.tabs.sparsity_sweep import SweepPart, sweep_part, wire_sweep
from studio.take_strip import take_strip_server
from studio.upload import Upload
from studio.uploads import emptied_if_unreadable, picture_field
from studio.viewer.explained import status_line
from studio.viewer.painter import mask_painter, painter_value
from studio.viewer.strip import map_strip
from studio.viewer.tables import said_html, table_html

TEMPLATE = "a photo of a {}"


@dataclass(frozen=True)
class _Widgets:
    """The tab's components, as far as events need them; `controls` in the order of `Controls`."""

    controls: list[Any]
    layer: gr.Slider
    heads: list[gr.Dropdown]
    query: gr.Textbox
    mask: gr.Image
    painter: gr.HTML
    paint: gr.Button
    show: gr.Button
    strip: gr.HTML
    said: gr.HTML
    grids: gr.HTML
    answers: AnswersPart
    sweep: SweepPart
    preset: gr.Dropdown
    background: gr.Slider
    rules: gr.CheckboxGroup
    segment: gr.Button
    stop: gr.Button
    waiting: gr.HTML
    outdated: gr.HTML
    segmented: gr.HTML
    segments: list[gr.HTML]


def sparsity_tab(looked_at: LookedAt, service: Service, tab: gr.Tab, examples: tuple[Example, ...]) -> None:
    """Make the tab; it draws when it is opened."""
    objects = dict.fromkeys(name for example in examples for name in example.objects)
    _wire(looked_at, service, tab, _widgets(", ".join(objects), looked_at, service))


def _widgets(objects: str, at: LookedAt, service: Service) -> _Widgets:
    with gr.Row(elem_classes="sparsity-controls"):
        alpha = number_slider(
            1,
            2,
            1.5,
            step=0.05,
            label="α: 1 softmax, 2 sparsemax",
            min_width=290,
            elem_id="sparsity-alpha",
            interactive=True,
        )
        match = gr.Dropdown(
            list(MATCHES),
            value=MATCHES[0],
            label="α of each model",
            min_width=190,
            elem_id="sparsity-match",
            interactive=True,
        )
        keep = gr.Number(16, precision=0, label="k of top-k", min_width=90, elem_id="sparsity-keep", interactive=True)
        source = gr.Radio(
            list(SOURCES),
            value="qk",
            label="Source of the scores",
            scale=2,
            min_width=300,
            elem_id="sparsity-source",
            interactive=True,
        )
    with gr.Row(elem_classes="sparsity-controls"):
        layer = layer_slider("Layer", min_width=165, elem_id="sparsity-layer")
        heads = [
            gr.Dropdown(
                ["mean"],
                value="mean",
                label=f"Head, {side}",
                min_width=110,
                elem_id=f"sparsity-head-{side}",
                interactive=True,
                allow_custom_value=True,
            )
            for side in ("left", "right")
        ]
        query = gr.Textbox("CLS", label="Query", max_lines=1, min_width=100, elem_id="sparsity-query", interactive=True)
        mode = gr.Radio(
            ["readout", "intervention"],
            value="readout",
            label="Maps of",
            scale=2,
            min_width=235,
            elem_id="sparsity-mode",
            interactive=True,
        )
        everywhere = gr.Checkbox(
            True, label="Intervene in all layers", min_width=130, elem_id="sparsity-everywhere", interactive=True
        )
        show = gr.Button("Show", size="sm", elem_id="sparsity-show", min_width=80)
    strip = map_strip(
        "Choose a picture to see where its attention is exactly zero.",
        "Sparse maps over the picture",
        take_strip_server(service),
        elem_id="sparsity-maps",
    )
    said = table_html(elem_id="sparsity-said")
    grids = table_html(elem_id="sparsity-grids")
    gr.Markdown("#### What the models say when they are run so")
    with gr.Group(), gr.Row():
        classes = gr.Textbox(
            objects,
            label="Classes, by line or by comma",
            lines=2,
            max_lines=6,
            min_width=280,
            elem_id="sparsity-classes",
            interactive=True,
        )
        template = gr.Textbox(
            TEMPLATE,
            label="Template; {} is the class",
            lines=1,
            min_width=280,
            elem_id="sparsity-template",
            interactive=True,
        )
    answers = answers_part(at, service)
    gr.Markdown("#### α from 1 to 2, with controls")
    sweep = sweep_part(service)
    gr.Markdown("#### The picture segmented by the classes above")
    with gr.Row(elem_classes="sparsity-controls"):
        preset = gr.Dropdown(
            [(preset.title, preset.name) for preset in PRESETS],
            value="sclip",
            label="Segment by",
            elem_id="sparsity-preset",
            interactive=True,
        )
        background = number_slider(
            0,
            1,
            0,
            step=0.01,
            label="Ground below (0: left out)",
            elem_id="sparsity-background",
            interactive=True,
        )
        rules = gr.CheckboxGroup(
            list(RULES), value=list(RULES), label="Columns", scale=2, elem_id="sparsity-rules", interactive=True
        )
    with gr.Accordion("Mask of your own", open=False, elem_id="sparsity-mask-part"), gr.Row():
        with gr.Column(min_width=240):
            mask = picture_field(
                label="Mask, as large as the picture: 0 is ground",
                height=190,
                elem_id="sparsity-mask",
                interactive=True,
            )
            emptied_if_unreadable(mask)
            named = gr.Textbox(
                "",
                label="Class of a mask with one value (empty: the first)",
                elem_id="sparsity-named",
                interactive=True,
            )
        with gr.Column(min_width=240):
            paint = gr.Button("Paint a mask", size="sm", elem_id="sparsity-paint")
            painter = mask_painter(elem_id="sparsity-painter")
    with gr.Row():
        segment = gr.Button("Segment", variant="primary", size="sm", elem_id="sparsity-segment")
        stop = gr.Button("Stop", size="sm", elem_id="sparsity-stop", min_width=80, scale=0)
        waiting = status_line("", elem_id="sparsity-waiting", elem_classes="studio-waiting")
    outdated = outdated_line("sparsity-outdated")
    segmented = table_html(elem_id="sparsity-segmented")
    segments = [
        map_strip(
            "",
            f"Segmentation by the {side} model",
            take_strip_server(service),
            elem_id=f"sparsity-segments-{side}",
            visible=False,
        )
        for side in SIDES
    ]
    controls = [
        alpha,
        match,
        keep,
        source,
        mode,
        everywhere,
        layer,
        *heads,
        query,
        classes,
        template,
        mask,
        painter,
        named,
    ]
    return _Widgets(
        controls, layer, heads, query, mask, painter, paint, show, strip, said, grids, answers, sweep, preset,
        background, rules, segment, stop, waiting, outdated, segmented, segments,
    )  # fmt: skip


def _wire(at: LookedAt, service: Service, tab: gr.Tab, w: _Widgets) -> None:
    everything = [*at.inputs, *w.controls]
    shared: dict[str, Any] = {**MODEL_EVENT, "api_visibility": "private", "show_progress": "hidden"}

    @told_steps
    def show(
        asked: float, request: gr.Request, picture: Upload | None, left: str, right: str, *values: Any
    ) -> Iterator[tuple[Any, ...]]:
        upload, names, controls, token = _given(picture), (left, right), Controls(*values), new_token()
        since, value = None if controls.mode == "readout" else asked, None
        for shown in show_sparsity(service, upload, names, controls):
            made = sparsity_settings(upload, names, controls, tables=value is not None)
            service.results.keep(token, shown.strip, picture_of(upload), made)
            if value is None:
                value = strip_value(shown.strip, token)
                # Answers to what was shown before must not come under these maps.
                w.answers.end_earlier(asked, request)
            # The maps again and no `gr.skip()`: it would be written into the step before, if that is still on its way.
            yield value, said_html(shown.said), shown.grids, *w.answers.showing(shown.answers, token, since)

    @told
    def bounds(
        picture: Upload | None, left: str, right: str, layer: float, query: str, query_of: str
    ) -> tuple[Any, ...]:
        towers = [service.model(name).vision for name in (left, right)]
        last, shown = layer_to_show(filled_whole(layer, "Layer"), [tower.layers for tower in towers])
        heads = [gr.Dropdown(["mean", *map(str, range(tower.heads))]) for tower in towers]
        moved = _query_moved(service, picture, query, query_of, left)
        return gr.Slider(maximum=last, value=shown), *heads, moved, left

    @told
    def other_bounds(picture: Upload | None, left: str, right: str, layer: float, *query: str) -> tuple[Any, ...]:
        if untouched(layer):
            return tuple(gr.skip() for _ in ask[1])
        return bounds(picture, left, right, layer, *query)

    @told
    def ask_patch(event: gr.EventData, picture: Upload | None, left: str, right: str) -> str:
        place = event._data if isinstance(event._data, dict) else {}
        name, row, col = (place.get(part) for part in ("key", "row", "col"))
        if name not in (left, right) or not isinstance(row, int) or not isinstance(col, int):
            raise StudioError("That place belongs to another model than the two that are chosen: press Show first.")
        looks = [service.look(each, _given(picture).image) for each in (name, left)]
        patch = same_patch((row, col), *looks)
        assert patch is not None
        return f"{patch[0]}, {patch[1]}"

    segmenting = long_run(at, service.turns)

    @told_steps
    def segment(
        asked: float,
        request: gr.Request,
        picture: Upload | None,
        left: str,
        right: str,
        preset: str,
        background: float,
        rules: list[str],
        *values: Any,
    ) -> Iterator[tuple[Any, ...]]:
        upload, controls, names = _given(picture), Controls(*values), (left, right)
        tokens = [new_token() for _ in SIDES]
        begun = service.kept.begin(
            run_key("segmentation", names, upload, preset, background, rules, controls),
            # Numbered here, since one that goes on has columns ready when it begins.
            lambda: enumerate(segment_shown(service, upload, names, controls, preset, background, rules), 1),
        )

        def kept(at: int, strip: Strip | None, ready: int) -> gr.HTML:
            if strip is None:
                return gr.HTML(value=None, visible=False)
            made = segmentation_settings(upload, names, controls, preset, background, rules, SIDES[at], ready)
            return gr.HTML(value=service.results.value(tokens[at], strip, picture_of(upload), made), visible=True)

        # Told again by a stop and not skipped: a skip would take away columns that are still on their way.
        shown: list[Any] = [gr.skip() for _ in SIDES]
        try:
            for ready, (said, *strips) in segmenting.stops.until(asked, request, begun.steps):
                shown = [kept(at, strip, ready) for at, strip in enumerate(strips)]
                yield said_html(said), *shown, begun.note
        except Stopped:
            yield said_html("Stopped."), *shown, ""

    @told
    def paint(picture: Upload | None) -> dict[str, Any]:
        upload = _given(picture)
        return painter_value(upload.image, upload.token)

    query_of = gr.Textbox(at.left.value, visible=False)
    ask = [*at.inputs, w.layer, w.query, query_of], [w.layer, *w.heads, w.query, query_of]
    again = click_if_seen("sparsity-show")
    # A change that is heard of late is none, if the maps were asked for since.
    asked = asked_with(at, w.show.click)
    new: dict[str, Any] = {"inputs": [at.picture, asked, at.changed], "js": click_if_new("sparsity-show")}
    tab.select(bounds, *ask, **shared).then(None, js=again)
    at.models.change(other_bounds, *ask, **EACH_TIME, **shared).success(None, **new)
    # An uploaded mask belongs to the picture for which it was uploaded, and goes with it before anything is measured.
    at.file.change(None, None, w.mask, js="() => null", show_progress="hidden", **EACH_TIME)
    at.file.change(None, **new)
    alpha, match, keep, source, mode, everywhere = w.controls[:6]
    moved = [part.input for part in (alpha, keep, source, mode, everywhere, w.layer)]
    # A dropdown tells of each choice twice, and of none when it is left: only another value counts.
    gr.on([part.change for part in (match, *w.heads)], None, at.picture, js=again)
    shown = gr.on(
        [*moved, w.query.submit, w.show.click],
        show,
        [w.answers.running.clock, *everything],
        [w.strip, w.said, w.grids, *w.answers.shown],
        js=TIMED,
        trigger_mode="always_last",
        **shared,
    )
    wire_answers(at, service, w.answers, w.show, shown)
    w.strip.select(ask_patch, at.inputs, w.query, **shared).success(None, js=again)
    segmenting.ended_by(w.stop.click)
    segmenting.begun_anew_by(w.segment.click)
    say_outdated(at, w.outdated, w.segmented, [w.segment])
    wire_sweep(at, service, w.sweep, w.controls)
    say_waiting(w.waiting, w.segment.click)
    settings = [w.preset, w.background, w.rules]
    inputs = [*at.inputs, *settings, *w.controls]
    segmenting.begun_by([w.segment.click], segment, inputs, [w.segmented, *w.segments, w.waiting], line=w.waiting)
    w.paint.click(paint, at.picture, w.painter, api_visibility="private", show_progress="hidden")


def _query_moved(service: Service, picture: Upload | None, query: str, before: str, now: str) -> Any:
    """The query's field where another model takes the left one's place: the patch on the same original pixels."""
    try:
        patch = parse_query(query)
    except StudioError:
        # What is wrong with it is told when it is asked for.
        return gr.skip()
    if before == now or patch is None or picture is None:
        return gr.skip()
    try:
        moved = same_patch(patch, service.look(before, picture.image), service.look(now, picture.image))
    except StudioError as error:
        gr.Info(html.escape(f"The query is CLS again. {error}"))
        return "CLS"
    return gr.skip() if moved is None else f"{moved[0]}, {moved[1]}"


def _given(picture: Upload | None) -> Upload:
    if picture is None:
        raise StudioError(NO_PICTURE)
    return picture
