"""The tab on which two models read one picture."""

from dataclasses import dataclass
from typing import Any

import gradio as gr

from models import StudioError, open_picture
from studio.comparison import layer_server, view_value
from studio.examples import Example, thumbnail
from studio.failures import told
from studio.service import Look, Service
from studio.uploads import Upload, picture_field
from studio.viewer import attention_viewer, scene_strip
from studio.zeroshot import message_html, parse_prompts, score, scores_html

LEFT, RIGHT = "clip-scenes", "diffclip-scenes"
TEMPLATE = "a photo of a {}"
CLASSES_LABEL = "Zero-shot classes, by line or by comma"
TEMPLATE_LABEL = "Template; {} is the class"
# All events that run a model share this, so that they wait for each other and not for cores.
RUNS_MODEL = "model"


@dataclass(frozen=True)
class _Widgets:
    """The tab's components, as far as events need them."""

    picture: gr.Image
    scenes: gr.HTML
    left: gr.Dropdown
    right: gr.Dropdown
    classes: gr.Textbox
    template: gr.Textbox
    rank: gr.Button
    scores: gr.HTML
    viewer: gr.HTML


def compare_tab(demo: gr.Blocks, service: Service, examples: tuple[Example, ...]) -> None:
    """Make the widgets and wire them."""
    widgets = _widgets(service, examples)
    _wire(demo, widgets, service, examples)


def _widgets(service: Service, examples: tuple[Example, ...]) -> _Widgets:
    """Three blocks: what is looked at, the maps, zero-shot. On a phone they follow each other in that order."""
    names = service.names
    choices = [(service.title(name), name) for name in names]
    first = str(examples[0].picture) if examples else None
    scenes = [{"url": thumbnail(example), "caption": example.caption} for example in examples]
    objects = dict.fromkeys(name for example in examples for name in example.objects)
    with gr.Row(equal_height=False, elem_classes="studio-page"):
        with gr.Column(elem_classes="studio-looked-at"):
            picture = picture_field(value=first, label="Picture", height=230, elem_id="picture", interactive=True)
            strip = scene_strip(scenes, elem_id="scenes", visible=bool(examples))
            with gr.Group():
                left = _model_field(choices, LEFT if LEFT in names else names[0], "Left model", "left")
                right = _model_field(choices, RIGHT if RIGHT in names else names[-1], "Right model", "right")
        with gr.Column(elem_classes="studio-maps"):
            viewer = attention_viewer(layer_server(service), elem_id="viewer")
        with gr.Column(elem_classes="studio-zeroshot"):
            with gr.Group():
                classes = _text_field(", ".join(objects), CLASSES_LABEL, "classes", lines=2)
                template = _text_field(TEMPLATE, TEMPLATE_LABEL, "template", lines=1)
            rank = gr.Button("Rank classes", variant="primary", size="sm", elem_id="rank")
            scores = gr.HTML(elem_id="scores", apply_default_css=False)
    return _Widgets(picture, strip, left, right, classes, template, rank, scores, viewer)


def _text_field(value: str, label: str, elem_id: str, lines: int) -> gr.Textbox:
    return gr.Textbox(value, label=label, lines=lines, max_lines=6, elem_id=elem_id, interactive=True)


def _model_field(choices: list[tuple[str, str]], value: str, label: str, elem_id: str) -> gr.Dropdown:
    return gr.Dropdown(choices, value=value, label=label, elem_id=elem_id, interactive=True)


def _wire(demo: gr.Blocks, w: _Widgets, service: Service, examples: tuple[Example, ...]) -> None:
    shared: dict[str, Any] = {"concurrency_id": RUNS_MODEL, "concurrency_limit": 1, "show_progress": "hidden"}
    asked = [w.left, w.right, w.classes, w.template]

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
        [w.picture.upload, w.left.input, w.right.input, w.viewer.submit],
        compare,
        [w.picture, *asked],
        [w.viewer, w.scores, w.scenes],
        trigger_mode="always_last",
        api_name="compare",
        **shared,
    )
    # A file that cannot be read leaves the maps as they are, so the picture field goes back to their picture.
    compared.failure(None, w.viewer, w.picture, js="(value) => (value && value.source) || null")
    w.scenes.input(
        show_scene,
        [w.scenes, *asked],
        [w.picture, w.viewer, w.scores, w.scenes],
        trigger_mode="always_last",
        api_visibility="private",
        **shared,
    )
    gr.on(
        [w.rank.click, w.classes.submit, w.template.submit],
        rank_classes,
        [w.picture, *asked],
        w.scores,
        trigger_mode="always_last",
        api_name="rank_classes",
        **shared,
    )
    if examples:

        def first_scene(left: str, right: str, classes: str, template: str) -> tuple[dict[str, Any], str, int]:
            return show_scene(0, left, right, classes, template)[1:]

        demo.load(first_scene, asked, [w.viewer, w.scores, w.scenes], api_visibility="private", **shared)


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
