"""The tab that shows what speaks for the similarity of picture and text, for both models, and the duel of maps."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import gradio as gr
from gradio.components import Component

from models import StudioError
from models.layout import TokenGrid
from studio.explain_all import (
    CAM,
    IG,
    LAYER_IG,
    OCCLUSION,
    RELEVANCE,
    SETTINGS,
    SHAP,
    Progress,
    cost_in_words,
    explain_all,
    method_of,
)
from studio.explained import PATCHES, PIXELS, explanations_strip, words_html
from studio.failures import told, told_steps
from studio.fields import number_slider
from studio.kept_runs import run_key
from studio.looked_at import EACH_TIME, LookedAt
from studio.methods import FEWEST_STEPS, MOST_BACK, MOST_STEPS, Method, Relevance, unit_of
from studio.prompts import prompts_of
from studio.result_store import new_token
from studio.service import Service, vision_grid
from studio.similarity import BASELINES
from studio.stopping import Stopped
from studio.tab_settings import explain_settings, picture_of
from studio.tabs.duel import duel_section
from studio.tabs.following import long_run, outdated_line, passes_ended, passes_made, say_outdated, say_waiting
from studio.take_strip import take_strip_server
from studio.upload import Upload
from studio.viewer.explained import explained_html, status_line
from studio.viewer.strip import map_strip

METHODS = [
    ("Relevance: map × gradient", RELEVANCE),
    ("Integrated Gradients", IG),
    ("GradientSHAP", SHAP),
    ("Occlusion, patch by patch", OCCLUSION),
    ("Integrated Gradients of a layer", LAYER_IG),
    ("Grad-CAM of a layer", CAM),
]
PARTS = [("A / A1 − λA2", "weights"), ("A / A1", "a1"), ("A2", "a2")]
RULES = [
    ("positive products, as published", "positive"),
    ("negative products", "negative"),
    ("absolute products", "absolute"),
    ("all products, signed", "signed"),
    ("map > 0, gradient > 0: attended, and it helps", "++"),
    ("map > 0, gradient < 0: attended, and it hurts", "+-"),
    ("map < 0, gradient > 0: suppressed, and that hurts", "-+"),
    ("map < 0, gradient < 0: suppressed, and that helps", "--"),
]
INTRO = (
    "Which patches and which words make the picture and a text alike. The target is the **cosine similarity** of their "
    "embeddings, without the logit scale. Unlike attention itself, these maps depend on the text."
)
# The queries of the paper's Figure 2 by picture, as the files of its project page name them; () is texts of one's own.
FIGURE_2 = (("mug", "desk lamp"), ("dog", "flower"), ())
FIGURE_2_NOTE = (
    "The paper's Fig. 2 asks for mug and desk lamp in a picture of a detective's office, and for dog and flower in one "
    "of a dog with flowers. Both pictures are the authors': bring them by upload."
)


@dataclass(frozen=True)
class _Widgets:
    """The tab's components, as far as events need them; the settings are in the order in which handlers take them."""

    prompts: gr.Textbox
    settings: list[Component]
    presets: tuple[gr.Button, ...]
    run: gr.Button
    stop: gr.Button
    cost: gr.HTML
    status: gr.HTML
    outdated: gr.HTML
    strip: gr.HTML
    words: gr.HTML


def explain_tab(looked_at: LookedAt, service: Service, tab: gr.Tab) -> None:
    """Make the widgets and wire them; nothing runs before it is asked for."""
    widgets = _widgets(service)
    _wire(looked_at, service, tab, widgets)
    duel_section(looked_at, service, tab, widgets.prompts)


def _widgets(service: Service) -> _Widgets:
    gr.Markdown(INTRO)
    with gr.Row(equal_height=False, elem_classes="studio-explain"):
        with gr.Column(scale=3, min_width=250):
            prompts = gr.Textbox(
                label="Texts, one a line",
                placeholder="Empty: a photo of each object of the example scene",
                lines=3,
                max_lines=6,
                elem_id="explain-prompts",
                interactive=True,
            )
            presets = _presets()
        with gr.Column(scale=5, min_width=280), gr.Group():
            settings = _settings()
        with gr.Column(scale=2, min_width=180):
            run = gr.Button("Explain", variant="primary", size="sm", elem_id="explain-run")
            stop = gr.Button("Stop", size="sm", elem_id="explain-stop")
            # Relevance costs the same on every grid.
            opening = cost_in_words(Relevance(), shuffled=[TokenGrid(1, 1, 1)])
            cost = status_line(opening, elem_id="explain-cost")
            status = status_line("", elem_id="explain-status")
    outdated = outdated_line("explain-outdated")
    strip = map_strip(
        "Nothing was explained yet: choose Explain.",
        "Explanations",
        take_strip_server(service),
        elem_id="explain-strip",
    )
    words = explained_html(elem_id="explain-words")
    return _Widgets(prompts, settings, presets, run, stop, cost, status, outdated, strip, words)


def _presets() -> tuple[gr.Button, ...]:
    """Buttons that set what the paper's Figure 2 shows, one for each of its pictures, and one for other texts."""
    with gr.Row():
        presets = tuple(
            gr.Button(
                f"Fig. 2: {', '.join(queries)}" if queries else "Fig. 2's method, these texts",
                size="sm",
                min_width=110,
                elem_id=f"explain-preset-{queries[0]}" if queries else "explain-preset",
            )
            for queries in FIGURE_2
        )
    gr.HTML(f'<p class="studio-status">{FIGURE_2_NOTE}</p>', apply_default_css=False)
    return presets


def _figure_2(*queries: str) -> tuple[Any, str, str, str, int]:
    """The texts, if there are any, and the settings of the paper's Figure 2: method, map, rule, layers from the end."""
    return "\n".join(queries) if queries else gr.skip(), RELEVANCE, "weights", "positive", 1


def _settings() -> list[Component]:
    def shared(name: str) -> dict[str, Any]:
        return {"elem_id": f"explain-{name}", "interactive": True, "visible": name in SETTINGS[RELEVANCE]}

    method = gr.Dropdown(METHODS, value=RELEVANCE, label="Method", elem_id="explain-method", interactive=True)
    bare = list(BASELINES)
    details = [("sums by patch", PATCHES), ("pixels", PIXELS)]
    return [
        method,
        gr.Radio(PARTS, value="weights", label="Map", **shared("part")),
        gr.Dropdown(RULES, value="positive", label="What counts of map × gradient", **shared("rule")),
        number_slider(1, MOST_BACK, 1, step=1, label="Layers, counted from the last", **shared("back")),
        number_slider(FEWEST_STEPS, MOST_STEPS, 32, step=4, label="Steps", **shared("steps")),
        gr.Dropdown(bare, value=bare[0], label="Bare picture", **shared("baseline")),
        gr.Radio(details, value=PATCHES, label="Shown", **shared("detail")),
        gr.Checkbox(
            True,
            label="then, as control, the same with A2 shuffled",
            elem_id="explain-control",
            interactive=True,
        ),
    ]


def _wire(at: LookedAt, service: Service, tab: gr.Tab, w: _Widgets) -> None:
    private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}

    explaining = long_run(at, service.turns)

    @told_steps
    def run(
        asked: float,
        request: gr.Request,
        picture: Upload | None,
        left: str,
        right: str,
        prompts: str,
        method: str,
        part: str,
        rule: str,
        back: float,
        steps: float,
        baseline: str,
        detail: str,
        control: bool,
    ) -> Iterator[tuple[Any, Any, Any]]:
        if picture is None:
            raise StudioError("There is no picture to explain: choose a file, or one of the example scenes.")
        chosen = method_of(method, part, rule, back, steps, baseline)
        texts = prompts_of(prompts, service.example(picture.token))
        fields = (method, part, rule, back, steps, baseline, detail)
        named: dict[str, Any] = dict(zip(("method", *_NAMES), fields, strict=True))
        started, ready, token = time.monotonic(), (0, 0), new_token()
        begun = service.kept.begin(
            run_key("explain", (left, right), picture, texts, chosen, control),
            lambda: explain_all(service, picture, (left, right), texts, chosen, control=control),
        )
        remembered = None
        # What was shown last is told again and not skipped: Gradio writes a step into the one before, so that a skip
        # would take away maps that are still on their way to the page.
        shown: tuple[Any, Any] = gr.skip(), gr.skip()
        try:
            for state in explaining.stops.until(asked, request, begun.steps):
                if remembered is None:
                    remembered = state.made if begun.remembered else 0
                if state.ready == ready:
                    # The page is told of every batch, so that no connection falls silent.
                    yield *shown, passes_made(state.made, state.total)
                    continue
                ready = state.ready
                settings = explain_settings((left, right), texts, named, ready)
                strip = explanations_strip(picture.image, state.explanations, chosen, detail)
                value = service.results.value(token, strip, picture_of(picture), settings)
                words, said = _told(state, chosen, time.monotonic() - started, remembered)
                shown = value, words
                yield *shown, said
        except Stopped:
            yield *shown, "Stopped; what was ready stays."

    @told
    def settings_of(left: str, right: str, method: str, *others: Any) -> list[Any]:
        if not isinstance(method, str) or method not in SETTINGS:
            raise StudioError(f"The method {str(method)[:40]!r} is unknown: choose one of the list.")
        models = [service.model(name) for name in (left, right)]
        shuffled = [vision_grid(model) for model in models if model.vision.differential]
        shown = [gr.update(visible=name in SETTINGS[method]) for name in _NAMES]
        shown.append(gr.update(visible=bool(shuffled)))
        try:
            chosen = method_of(method, *others[:5])
        except StudioError as error:
            # A field is empty for a moment while a person writes another number; that is no reason to interrupt.
            return [*shown, str(error)]
        grids = [vision_grid(model) for model in models] if method == OCCLUSION else []
        return [*shown, cost_in_words(chosen, grids, shuffled if others[6] else [])]

    runs = [w.run, *w.presets]
    clicks = [each.click for each in runs]
    explaining.ended_by(w.stop.click)
    explaining.begun_anew_by(*clicks)
    say_waiting(w.status, *clicks)
    say_outdated(at, w.outdated, w.status, runs)
    set_up = [
        button.click(partial(_figure_2, *queries), None, [w.prompts, *w.settings[:4]], **private).then
        for button, queries in zip(w.presets, FIGURE_2, strict=True)
    ]
    outputs: list[Component] = [w.strip, w.words, w.status]
    explaining.begun_by([w.run.click, *set_up], run, [*at.inputs, w.prompts, *w.settings], outputs, line=w.status)
    changes: list[Any] = [setting.change for setting in w.settings]  # pyright: ignore[reportAttributeAccessIssue]
    asked = [at.left, at.right, *w.settings], [*w.settings[1:], w.cost]
    gr.on(changes, settings_of, *asked, trigger_mode="always_last", **private)
    # What an address set before the tab was ever open was changed without an event.
    gr.on([tab.select, at.models.change], settings_of, *asked, **EACH_TIME, **private)


_NAMES = ("part", "rule", "back", "steps", "baseline", "detail")


def _told(state: Progress, method: Method, seconds: float, remembered: int) -> tuple[str, str]:
    """What is ready of the words, and the line that says how far it is."""
    ended = state.made >= state.total
    line = passes_ended(state.made, seconds, remembered) if ended else passes_made(state.made, state.total)
    return words_html(state.explanations, unit_of(method)), line
