"""The tab that shows what speaks for the similarity of picture and text, for both models, and the duel of maps."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.components import Component

from models import StudioError
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
from studio.explained import PATCHES, PIXELS, explanations_value, words_html
from studio.failures import told, told_steps
from studio.fields import number_slider
from studio.looked_at import LookedAt
from studio.methods import FEWEST_STEPS, MOST_BACK, MOST_STEPS, Method, Relevance, described, unit_of
from studio.prompts import prompts_of
from studio.service import Service, vision_grid
from studio.similarity import BASELINES
from studio.stopping import Stopped
from studio.tabs.duel import duel_section
from studio.tabs.following import long_run, outdated_line, passes_made, say_outdated, say_waiting
from studio.uploads import Upload
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
RELEVANCE_NOTE = (
    "Relevance has no unit. The positive rule merges what is attended and helps with what is suppressed and whose "
    "suppression helps; the four rules by sign tell them apart. CLIP's map has no negative entries."
)
PATH_NOTE = (
    "Values add up to the cosine less that of the bare picture, up to “sum − change”. A bare picture is a choice: what "
    "looks like it counts as nothing."
)


@dataclass(frozen=True)
class _Widgets:
    """The tab's components, as far as events need them; the settings are in the order in which handlers take them."""

    prompts: gr.Textbox
    settings: list[Component]
    preset: gr.Button
    run: gr.Button
    stop: gr.Button
    cost: gr.HTML
    status: gr.HTML
    outdated: gr.HTML
    strip: gr.HTML
    words: gr.HTML


def explain_tab(looked_at: LookedAt, service: Service) -> None:
    """Make the widgets and wire them."""
    widgets = _widgets()
    _wire(looked_at, service, widgets)
    duel_section(looked_at, service, widgets.prompts)


def _widgets() -> _Widgets:
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
            preset = gr.Button("As in the paper's Fig. 2", size="sm", elem_id="explain-preset")
        with gr.Column(scale=5, min_width=280), gr.Group():
            settings = _settings()
        with gr.Column(scale=2, min_width=180):
            run = gr.Button("Explain", variant="primary", size="sm", elem_id="explain-run")
            stop = gr.Button("Stop", size="sm", elem_id="explain-stop")
            cost = status_line(cost_in_words(Relevance()), elem_id="explain-cost")
            status = status_line("", elem_id="explain-status")
    outdated = outdated_line("explain-outdated")
    strip = map_strip("Nothing was explained yet: choose Explain.", "Explanations", elem_id="explain-strip")
    words = explained_html(elem_id="explain-words")
    return _Widgets(prompts, settings, preset, run, stop, cost, status, outdated, strip, words)


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
    ]


def _wire(at: LookedAt, service: Service, w: _Widgets) -> None:
    private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}

    explaining = long_run()

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
    ) -> Iterator[tuple[Any, Any, Any]]:
        if picture is None:
            raise StudioError("There is no picture to explain: choose a file, or one of the example scenes.")
        chosen = method_of(method, part, rule, back, steps, baseline)
        texts = prompts_of(prompts, service.example(picture.token))
        started, ready = time.monotonic(), 0
        states = explain_all(service, picture, (left, right), texts, chosen)
        try:
            for state in explaining.stops.until(asked, request, states):
                done = len(state.explanations)
                if done == ready:
                    # The page is told of every batch, so that no connection falls silent.
                    yield gr.skip(), gr.skip(), passes_made(state.made, state.total)
                    continue
                ready = done
                yield _shown(picture, state, chosen, detail, time.monotonic() - started)
        except Stopped:
            yield gr.skip(), gr.skip(), "Stopped; what was ready stays."

    @told
    def settings_of(left: str, right: str, method: str, *others: Any) -> list[Any]:
        if method not in SETTINGS:
            raise StudioError(f"The method {str(method)[:40]!r} is unknown: choose one of the list.")
        shown = [gr.update(visible=name in SETTINGS[method]) for name in _NAMES]
        try:
            chosen = method_of(method, *others[:5])
        except StudioError as error:
            # A field is empty for a moment while a person writes another number; that is no reason to interrupt.
            return [*shown, str(error)]
        grids = [vision_grid(service.model(name)) for name in (left, right)] if method == OCCLUSION else []
        return [*shown, cost_in_words(chosen, grids)]

    def preset() -> tuple[str, str, str, int]:
        return RELEVANCE, "weights", "positive", 1

    explaining.ended_by(w.stop.click)
    explaining.begun_anew_by(w.run.click, w.preset.click)
    say_waiting(w.status, w.run.click, w.preset.click)
    say_outdated(at, w.outdated, w.status, [w.run, w.preset], explaining)
    set_up = w.preset.click(preset, None, w.settings[:4], **private)
    for event in (w.run.click, set_up.then):
        explaining.begun_by(
            event, run, [*at.inputs, w.prompts, *w.settings], outputs=[w.strip, w.words, w.status]
        ).failure(None, None, w.status, js="() => ''", **private)
    changes: list[Any] = [setting.change for setting in w.settings]  # pyright: ignore[reportAttributeAccessIssue]
    gr.on(
        [*changes, at.left.change, at.right.change],
        settings_of,
        [at.left, at.right, *w.settings],
        [*w.settings[1:], w.cost],
        trigger_mode="always_last",
        **private,
    )


_NAMES = ("part", "rule", "back", "steps", "baseline", "detail")


def _shown(picture: Upload, state: Progress, method: Method, detail: str, seconds: float) -> tuple[Any, str, str]:
    """What is ready: the strip's value, the words, and the line that says how far it is."""
    unit, done = unit_of(method), state.explanations
    said = RELEVANCE_NOTE if isinstance(method, Relevance) else PATH_NOTE if any(e.picture.gap for e in done) else ""
    note = (
        f"{described(method)}. Both models, all panels on one scale. The target is the cosine similarity, without the "
        f"logit scale.\n{said}"
    )
    value = explanations_value(picture.image, done, detail, unit, note)
    ended = state.made >= state.total
    line = f"{state.made} passes in {seconds:.1f} s" if ended else passes_made(state.made, state.total)
    return value, words_html(done, unit), line
