"""The tab on which two models read one picture."""

from dataclasses import dataclass
from typing import Any

import gradio as gr

from models import StudioError, open_picture
from studio.comparison import layer_server, view_value
from studio.examples import Example
from studio.failures import told
from studio.looked_at import MODEL_EVENT, LookedAt
from studio.service import Look, Service
from studio.uploads import Upload
from studio.viewer import attention_viewer
from studio.zeroshot import message_html, parse_prompts, score, scores_html

TEMPLATE = "a photo of a {}"
CLASSES_LABEL = "Zero-shot classes, by line or by comma"
TEMPLATE_LABEL = "Template; {} is the class"


@dataclass(frozen=True)
class _Widgets:
    """The tab's components, as far as events need them."""

    classes: gr.Textbox
    template: gr.Textbox
    rank: gr.Button
    scores: gr.HTML
    viewer: gr.HTML


def compare_tab(demo: gr.Blocks, looked_at: LookedAt, service: Service, examples: tuple[Example, ...]) -> None:
    """Make the widgets and wire them."""
    _wire(demo, looked_at, _widgets(service, examples), service, examples)


def _widgets(service: Service, examples: tuple[Example, ...]) -> _Widgets:
    """The maps, and zero-shot below them."""
    objects = dict.fromkeys(name for example in examples for name in example.objects)
    viewer = attention_viewer(layer_server(service), elem_id="viewer")
    with gr.Row(equal_height=False, elem_classes="studio-zeroshot"):
        with gr.Column(scale=1, min_width=260):
            with gr.Group():
                classes = _text_field(", ".join(objects), CLASSES_LABEL, "classes", lines=2)
                template = _text_field(TEMPLATE, TEMPLATE_LABEL, "template", lines=1)
            rank = gr.Button("Rank classes", variant="primary", size="sm", elem_id="rank")
        with gr.Column(scale=2, min_width=260):
            scores = gr.HTML(elem_id="scores", apply_default_css=False)
    return _Widgets(classes, template, rank, scores, viewer)


def _text_field(value: str, label: str, elem_id: str, lines: int) -> gr.Textbox:
    return gr.Textbox(value, label=label, lines=lines, max_lines=6, elem_id=elem_id, interactive=True)


def _wire(demo: gr.Blocks, at: LookedAt, w: _Widgets, service: Service, examples: tuple[Example, ...]) -> None:
    shared: dict[str, Any] = {**MODEL_EVENT, "show_progress": "hidden"}
    asked = [at.left, at.right, w.classes, w.template]

    @told
    def compare(
        picture: Upload | None, left: str, right: str, classes: str, template: str
    ) -> tuple[dict[str, Any], str, int]:
        if picture is None:
            raise StudioError("There is no picture: choose a file, or one of the example scenes.")
        return _compared(service, examples, picture, left, right, classes, template)

    @told
    def show_scene(
        index: int, left: str, right: str, classes: str, template: str
    ) -> tuple[str, dict[str, Any], str, int]:
        if not isinstance(index, int) or not 0 <= index < len(examples):
            raise StudioError(f"There is no example scene {index!r}: choose one of {len(examples)}.")
        file = examples[index].picture
        return str(file), *_compared(
            service, examples, Upload(open_picture(file), file), left, right, classes, template
        )

    @told
    def rank_classes(picture: Upload | None, left: str, right: str, classes: str, template: str) -> str:
        if picture is None:
            raise StudioError("There is no picture to rank classes for: choose a file, or one of the example scenes.")
        looks = service.look(left, picture.image), service.look(right, picture.image)
        return _ranked(looks, classes, template)

    compared = gr.on(
        [at.picture.upload, at.left.input, at.right.input, w.viewer.submit],
        compare,
        [at.picture, *asked],
        [w.viewer, w.scores, at.scenes],
        trigger_mode="always_last",
        api_name="compare",
        **shared,
    )
    # A file that cannot be read leaves the maps as they are, so the picture field goes back to their picture.
    compared.failure(None, w.viewer, at.picture, js="(value) => (value && value.source) || null")
    at.scenes.input(
        show_scene,
        [at.scenes, *asked],
        [at.picture, w.viewer, w.scores, at.scenes],
        trigger_mode="always_last",
        api_visibility="private",
        **shared,
    )
    gr.on(
        [w.rank.click, w.classes.submit, w.template.submit],
        rank_classes,
        [at.picture, *asked],
        w.scores,
        trigger_mode="always_last",
        api_name="rank_classes",
        **shared,
    )
    if examples:

        def first_scene(left: str, right: str, classes: str, template: str) -> tuple[dict[str, Any], str, int]:
            return show_scene(0, left, right, classes, template)[1:]

        demo.load(first_scene, asked, [w.viewer, w.scores, at.scenes], api_visibility="private", **shared)


def _compared(
    service: Service, examples: tuple[Example, ...], picture: Upload, left: str, right: str, classes: str, template: str
) -> tuple[dict[str, Any], str, int]:
    """The viewer's value, the zero-shot bars, and which example scene this is (-1 for none)."""
    looks = service.look(left, picture.image), service.look(right, picture.image)
    tokens = [example.token for example in examples]
    scene = tokens.index(picture.token) if picture.token in tokens else -1
    return view_value(service, picture, looks), _ranked(looks, classes, template), scene


def _ranked(looks: tuple[Look, Look], classes: str, template: str) -> str:
    """Bars of both models; what is wrong with the classes stands in their place, and does not stop the maps."""
    try:
        prompts = parse_prompts(classes, template)
    except StudioError as error:
        return message_html(str(error))
    return scores_html(prompts, score(looks[0], prompts), score(looks[1], prompts))
