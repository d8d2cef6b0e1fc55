"""The tab on which models read one picture, panel beside panel."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import gradio as gr

from models import LoadedModel, StudioError, open_picture
from studio.asked import alpha_asked, models_asked, text_asked, token_asked
from studio.bring_field import choices_of
from studio.comparison import first_text, looked, view_value, waiting_value
from studio.examples import Example
from studio.export import take_away_server
from studio.failures import told
from studio.link import Link, beyond, read_link
from studio.looked_at import EACH_TIME, MODEL_EVENT, LookedAt
from studio.overview import OVERS, overview_steps
from studio.panels import SOURCES
from studio.reading import MapReader, layer_server, numbers_server
from studio.service import Look, Service
from studio.speaking import RelevanceAsked, RelevanceStore
from studio.tab_link import Field, Words, read_settings
from studio.upload import Upload
from studio.viewer import attention_viewer
from studio.zeroshot import message_html, parse_prompts, score, scores_html

TEMPLATE = "a photo of a {}"
CLASSES_LABEL = "Zero-shot classes, by line or by comma"
TEMPLATE_LABEL = "Template; {} is the class"
# The fields below the maps, as an address names them; `studio.tabs.linked` fills them in.
WORDS = (Field("compare.classes", Words(), ""), Field("compare.template", Words(), ""))
NO_PICTURE = "There is no picture: choose a file, or one of the example scenes."
# The viewer's value holds the picture; of it only the names of the models that panels want are sent back.
_ONLY_ASKED = "(...sent) => [...sent.slice(0, -1), sent.at(-1)?.asked ?? []]"
_ASKED_AND_SHOWN = (
    "(...sent) => { const shown = sent.at(-1) ?? {}; "
    "const { asked = [], left, right, token } = shown; "
    "return [...sent.slice(0, -1), { asked, models: [left, right], token }]; }"
)
_KNOWN = (
    "(left, right) => { const asked = new URLSearchParams(location.search), known = %s; "
    "const named = (side, own) => known.includes(asked.get(side)) ? asked.get(side) : own; "
    "return [named('left', left), named('right', right), asked.get('picture') ?? '']; }"
)
Compared = tuple[dict[str, Any], str, int]


@dataclass(frozen=True)
class _Widgets:
    """The tab's components, as far as events need them."""

    classes: gr.Textbox
    template: gr.Textbox
    rank: gr.Button
    scores: gr.HTML
    viewer: gr.HTML


@dataclass(frozen=True)
class _Bench:
    """What the tab's events work with."""

    service: Service
    examples: tuple[Example, ...]
    reader: MapReader
    relevance: RelevanceStore

    def compared(
        self, picture: Upload, left: str, right: str, classes: str, template: str, asked: Any, link: Link | None = None
    ) -> Compared:
        """The viewer's value, the zero-shot bars, and which example scene this is (-1 for none)."""
        self.service.pictures.keep(picture)
        others = models_asked(asked, self.service.knows)
        looks, missing = looked(self.service, picture, left, right, others)
        tokens = [example.token for example in self.examples]
        scene = tokens.index(picture.token) if picture.token in tokens else -1
        text = first_text(self.service, picture.token, classes, template)
        value = view_value(self.service, picture, looks, missing, text, link.state if link else None)
        if link:
            value["note"] = " ".join(
                [*link.remarks, *beyond(link, {look.model.name: look.model for look in looks}), value["note"]]
            ).strip()
        return value, _ranked((looks[0], looks[1]), classes, template), scene

    def scene(self, index: Any) -> Example:
        """The example scene of that number.

        Raises:
            StudioError: there is none.
        """
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(self.examples):
            raise StudioError(f"There is no example scene {str(index)[:40]!r}: choose one of {len(self.examples)}.")
        return self.examples[index]

    def linked(self, link: Link) -> Upload | None:
        """The picture that a link names, if it is here; the first example for a link that names none."""
        if link.picture:
            return self.service.pictures.find(link.picture)
        return _opened(self.examples[0]) if self.examples else None


def compare_tab(demo: gr.Blocks, looked_at: LookedAt, service: Service, examples: tuple[Example, ...]) -> Any:
    """Make the widgets and wire them.

    Returns:
        The event after which picture and models are those that the address of the page names. It runs no model and
        waits for nothing, so that what is asked for on a page that just opened is asked for these.
    """
    bench = _Bench(service, examples, MapReader(service), RelevanceStore(service))
    return _wire(demo, looked_at, _widgets(bench), bench)


def _widgets(bench: _Bench) -> _Widgets:
    """The maps, and zero-shot below them."""
    objects = dict.fromkeys(name for example in bench.examples for name in example.objects)
    take_away = take_away_server(bench.service, bench.service.pictures.find, bench.relevance)
    viewer = attention_viewer(layer_server(bench.reader), numbers_server(bench.reader), take_away, elem_id="viewer")
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


def _wire(demo: gr.Blocks, at: LookedAt, w: _Widgets, bench: _Bench) -> Any:
    shared: dict[str, Any] = {
        **MODEL_EVENT,
        "show_progress": "hidden",
        "trigger_mode": "always_last",
        "api_visibility": "private",
    }
    asked = [at.left, at.right, w.classes, w.template]

    @told
    def compare(picture: Upload | None, left: str, right: str, classes: str, template: str, asked: Any) -> Compared:
        if picture is None:
            raise StudioError(NO_PICTURE)
        return bench.compared(picture, left, right, classes, template, asked)

    @told
    def settle(
        opened: Any,
        linked: Any,
        there: Any,
        picture: Upload | None,
        left: str,
        right: str,
        classes: str,
        template: str,
        shown: Any,
    ) -> Any:
        if not opened or linked != there:
            # What the address names is on its way: an answer to what is chosen by now would come after, without it.
            return gr.skip(), gr.skip(), gr.skip()
        shown = shown if isinstance(shown, dict) else {}
        if picture is None or (shown.get("models") == [left, right] and shown.get("token") == picture.token):
            return gr.skip(), gr.skip(), gr.skip()
        return bench.compared(picture, left, right, classes, template, shown.get("asked"))

    @told
    def choose_scene(index: Any) -> str:
        return str(bench.scene(index).picture)

    @told
    def show_scene(index: Any, left: str, right: str, classes: str, template: str, asked: Any) -> Compared:
        return bench.compared(_opened(bench.scene(index)), left, right, classes, template, asked)

    @told
    def rank_classes(picture: Upload | None, left: str, right: str, classes: str, template: str) -> str:
        if picture is None:
            raise StudioError(NO_PICTURE)
        looks = bench.service.look(left, picture.image), bench.service.look(right, picture.image)
        return _ranked(looks, classes, template)

    answered = [w.viewer, w.scores, at.scenes]
    compared = [
        event(compare, [at.picture, *asked, w.viewer], answered, js=_ONLY_ASKED, **shared)
        for event in (at.picture.upload, w.viewer.submit)
    ]
    # Answers come in the order of their questions, and a choice may be made while an earlier one is answered. So after
    # the answer to a choice it is seen whether what is shown is what is chosen by now; nothing follows on that.
    opened = gr.Textbox("", visible=False)
    # The picture that the address names, and the same again when its field has it.
    linked, there = (gr.Textbox("", visible="hidden", label=f"Picture of the link{part}") for part in ("", ", taken"))
    settled = [opened, linked, there, at.picture, *asked, w.viewer], answered
    settling = {**shared, **EACH_TIME, "js": _ASKED_AND_SHOWN}
    compared[0].success(settle, *settled, **settling)
    # A model that was brought, or named by the address, changes a field without a person's choice in it.
    at.models.change(settle, *settled, **settling).success(settle, *settled, **settling)
    # The picture field has a scene before any model looks at it: an answer that wrote it there would take away a file
    # that was given meanwhile.
    private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    at.scenes.input(choose_scene, at.scenes, at.picture, queue=False, **EACH_TIME, **private)
    scene = at.scenes.input(show_scene, [at.scenes, *asked, w.viewer], answered, js=_ONLY_ASKED, **shared)
    scene.success(settle, *settled, **settling)
    # A file that cannot be read leaves the maps as they are, so the picture field goes back to their picture.
    for event in (*compared, scene):
        event.failure(None, w.viewer, at.picture, js="(value) => (value && value.source) || null")
    gr.on([w.rank.click, w.classes.submit, w.template.submit], rank_classes, [at.picture, *asked], w.scores, **shared)
    # The viewer sends one question at a time: `always_last` would send the first of several once more.
    questions = {**shared, "trigger_mode": "multiple"}
    w.viewer.select(_relevance_steps(bench), at.picture, w.viewer, **questions)
    w.viewer.expand(_overview_steps(bench), None, w.viewer, **questions)
    chosen = _choose_linked(demo, at, bench, linked, there)
    there.change(settle, *settled, **settling)
    first = demo.load(_opening(bench), asked, [w.viewer, w.scores, at.scenes], **shared)
    first.then(None, None, opened, js="() => 'whether it was shown or not'", **private)
    return chosen


def _choose_linked(demo: gr.Blocks, at: LookedAt, bench: _Bench, token: gr.Textbox, there: gr.Textbox) -> Any:
    """Have models and picture chosen that the address names; the event after which the models are.

    The browser knows the models of the start itself, so these are chosen before anything can be asked for. A picture
    is written only where one is named, so that it takes the place of none that was given meanwhile.
    """
    private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}

    @told
    def choose_models(left: str, right: str, request: gr.Request) -> tuple[Any, Any]:
        link = read_link(request.query_params.multi_items(), bench.service.knows)
        names = link.left or left, link.right or right
        if not all(isinstance(name, str) for name in names):
            raise StudioError(f"A model is named by a text, not by {str(names)[:80]}: choose one of the list.")
        return _chosen(bench.service, *names)

    @told
    def choose_picture(token: str) -> tuple[str | None, str]:
        picture = bench.linked(read_link([("picture", str(token))], bench.service.knows))
        return None if picture is None else str(picture.file), token

    models = [at.left, at.right]
    known = _KNOWN % json.dumps(bench.service.names)
    demo.load(None, models, [*models, token], js=known, **private)
    token.change(choose_picture, token, [at.picture, there], queue=False, **private)
    return demo.load(choose_models, models, models, queue=False, **private)


def _opening(bench: _Bench) -> Callable[..., Any]:
    """What the page opens with: what its address names, or the first example scene."""

    @told
    def open_page(left: str, right: str, classes: str, template: str, request: gr.Request) -> Any:
        parameters = request.query_params.multi_items()
        link, words = read_link(parameters, bench.service.knows), read_settings(parameters, WORDS).values
        classes, template = (words.get(field.key, own) for field, own in zip(WORDS, (classes, template), strict=True))
        left, right = link.left or left, link.right or right
        picture = bench.linked(link)
        wanted = [panel["model"] for panel in link.state.get("panels", [])]
        if picture is None:
            said = [*link.remarks, *beyond(link, link_models(bench.service, [left, right, *wanted]))]
            value = waiting_value(link.picture, link.state, said) if link.picture else None
            return value, "", -1
        return bench.compared(picture, left, right, classes, template, wanted, link)

    return open_page


def link_models(service: Service, names: Sequence[str]) -> dict[str, LoadedModel]:
    """Models that a link names by their names, those that can be loaded."""
    models = {}
    for name in dict.fromkeys(names):
        with suppress(StudioError):
            models[name] = service.model(name)
    return models


def _chosen(service: Service, left: str, right: str) -> tuple[Any, Any]:
    """What the fields of the two models hold; their lists too where an address names a model that was brought."""
    if {left, right} <= set(service.names):
        return left, right
    choices = choices_of(service, [left, right])
    return gr.update(choices=choices, value=left), gr.update(choices=choices, value=right)


def _relevance_steps(bench: _Bench) -> Callable[..., Any]:
    """Relevance of the models that panels want, or its control, one after the other; what is wrong is said in the
    viewer.
    """

    def work_out_relevance(picture: Upload | None, event: gr.EventData) -> Iterator[Any]:
        data = _data_of(event)
        try:
            if picture is None:
                raise StudioError(NO_PICTURE)
            if token_asked(data.get("token")) != picture.token:
                raise StudioError("The picture changed meanwhile: ask again.")
            text, first = text_asked(data.get("text")), data.get("first")
            first = first if isinstance(first, int) and not isinstance(first, bool) else None
            models, answers = models_asked(data.get("models"), bench.service.knows), []
            control = data.get("control") is True
            work = bench.relevance.control if control else bench.relevance.relevance
            for index, name in enumerate(models):
                what = "A2 shuffled, " if control else ""
                yield gr.HTML(relevance={"progress": f"{what}model {index + 1} of {len(models)} …"})
                answers.append(work(RelevanceAsked(name, picture.token, text, first), picture.image))
            yield gr.HTML(relevance={"answers": answers, "control": control})
        except StudioError as error:
            yield gr.HTML(relevance=_failed(error))

    return work_out_relevance


def _overview_steps(bench: _Bench) -> Callable[..., Any]:
    """The overview of the models that panels show, layer by layer; what is wrong is said in the viewer."""

    def show_overview(event: gr.EventData) -> Iterator[Any]:
        data = _data_of(event)
        asked = {key: data.get(key) for key in ("token", "models", "over", "alpha", "source")}
        try:
            models = models_asked(asked["models"], bench.service.knows)
            over, source = asked["over"], asked["source"]
            if not models or over not in OVERS or not isinstance(source, str) or source not in SOURCES:
                raise StudioError("An overview is asked for with models, a source and which rows: open it again.")
            steps = overview_steps(
                bench.reader, models, token_asked(asked["token"]), over, alpha_asked(asked["alpha"]), source
            )
            for step in steps:
                yield gr.HTML(overview=step | {"asked": asked})
        except StudioError as error:
            yield gr.HTML(overview=_failed(error) | {"asked": asked})

    return show_overview


def _failed(error: StudioError) -> dict[str, Any]:
    """What is wrong, told anew each time: the page does not notice an answer that is equal to the one before."""
    return {"error": str(error), "at": time.monotonic_ns()}


def _data_of(event: gr.EventData) -> dict[str, Any]:
    """What the viewer sent with an event; anyone can send anything."""
    data = getattr(event, "_data", None)
    return data if isinstance(data, dict) else {}


def _opened(example: Example) -> Upload:
    return Upload(open_picture(example.picture), example.picture)


def _ranked(looks: tuple[Look, Look], classes: str, template: str) -> str:
    """Bars of both models; what is wrong with the classes stands in their place, and does not stop the maps."""
    try:
        prompts = parse_prompts(classes, template)
        return scores_html(prompts, score(looks[0], prompts), score(looks[1], prompts))
    except StudioError as error:
        return message_html(str(error))
