"""The section of the Explain tab in which maps compete: whose order of patches says best what the model needs."""

import time
from collections.abc import Iterator
from typing import Any

import gradio as gr

from models import StudioError
from studio.attribution import drained
from studio.chart_plotly import plot_figure
from studio.chart_recipe import DuelSettings
from studio.duel import DEPTHS, FEWEST_POINTS, MOST_POINTS, ORDERS, Side, duel, passes_of_duel
from studio.duel_figure import KINDS, areas_table, duel_chart
from studio.examples import data_url
from studio.failures import told_steps
from studio.fields import number_slider
from studio.filled import filled_whole
from studio.frame import preview
from studio.kept_runs import run_key
from studio.looked_at import EACH_TIME, LookedAt
from studio.prompts import prompts_of
from studio.result_store import new_token
from studio.service import Look, Service
from studio.similarity import BASELINES, check_readable
from studio.stopping import Stopped
from studio.tab_settings import picture_of
from studio.tabs.following import long_run, outdated_line, passes_ended, passes_made, say_outdated, say_waiting
from studio.take_strip import take_strip_server
from studio.upload import Upload
from studio.viewer.explained import explained_html, status_line
from studio.viewer.take_button import take_button

INTRO = (
    "### Faithfulness duel\n"
    "Patches are taken out of the picture (deletion) or put into a bare one (insertion) in the order of each map, "
    "highest first, and the similarity is followed. CLIP's A is judged on CLIP; A1, A1 − λA2 (in signed order) and "
    "relevance on DiffCLIP. **A good map falls fast and rises fast; what does not beat the random order explains "
    "nothing, however clean it looks.**"
)
POINTS = 14


def duel_section(at: LookedAt, service: Service, tab: gr.Tab, prompts: gr.Textbox) -> None:
    """Make the widgets, below those that are there, and wire them.

    Args:
        at: the picture and the models.
        service: the models.
        tab: the one that is open.
        prompts: the texts of the tab; the first stands in where the duel is given none.
    """
    gr.Markdown(INTRO)
    with gr.Row(equal_height=False, elem_classes="studio-explain"):
        with gr.Column(scale=8, min_width=280), gr.Group(), gr.Row():
            text = gr.Textbox(
                label="Text of the duel",
                placeholder="Empty: the first of the texts above",
                lines=1,
                max_lines=1,
                min_width=220,
                elem_id="duel-text",
                interactive=True,
            )
            depth = gr.Dropdown(list(DEPTHS), value=DEPTHS[0], label="Layers", elem_id="duel-depth", interactive=True)
            bare = gr.Dropdown(
                list(BASELINES), value=BASELINES[0], label="Bare picture", elem_id="duel-baseline", interactive=True
            )
            points = number_slider(
                FEWEST_POINTS, MOST_POINTS, POINTS, step=1, label="Steps", elem_id="duel-points", interactive=True
            )
        with gr.Column(scale=2, min_width=180):
            run = gr.Button("Run the duel", variant="primary", size="sm", elem_id="duel-run")
            stop = gr.Button("Stop", size="sm", elem_id="duel-stop")
            cost = status_line(_cost(POINTS), elem_id="duel-cost")
            status = status_line("", elem_id="duel-status")
    outdated = outdated_line("duel-outdated")
    table = explained_html(elem_id="duel-table")
    take = take_button("the curves and areas of the duel", take_strip_server(service), "duel-take")
    with gr.Row():
        plots = [gr.Plot(show_label=False, visible=False, elem_id=f"duel-{kind}") for kind in KINDS]

    dueling = long_run(at, service.turns)

    @told_steps
    def run_duel(
        asked: float,
        request: gr.Request,
        picture: Upload | None,
        left: str,
        right: str,
        texts: str,
        own: str,
        layers: str,
        baseline: str,
        count: float,
    ) -> Iterator[tuple[Any, ...]]:
        if picture is None:
            raise StudioError("There is no picture for a duel: choose a file, or one of the example scenes.")
        prompt = prompts_of(own if own and own.strip() else texts, service.example(picture.token))[0]
        number = filled_whole(count, "Steps")
        started, made, remembered, sides = time.monotonic(), 0, None, tuple[Side, ...]()
        looks = [service.look(name, picture.image) for name in (left, right)]
        for look in looks:
            check_readable(look.model, [prompt])
        total = sum(passes_of_duel(ORDERS[look.model.vision.differential], number) for look in looks)
        try:
            begun = service.kept.begin(
                run_key("duel", (left, right), picture, prompt, layers, baseline, number),
                lambda: _both(looks, picture, prompt, layers, baseline, number),
            )
            for made, sides in dueling.stops.until(asked, request, begun.steps):  # noqa: B007 - the last are shown
                if remembered is None:
                    remembered = made if begun.remembered else 0
                yield *[gr.skip()] * 4, passes_made(made, total)
        except Stopped:
            yield *[gr.skip()] * 4, "Stopped."
            return
        heading = f"“{prompt}” · {layers} · taken out: {baseline}"
        shown = preview(picture.image, (0, 0, picture.image.height, picture.image.width))
        shown.thumbnail((300, 300))
        chart = duel_chart(sides, prompt, layers, baseline)
        settings = DuelSettings(prompt, (left, right), layers, baseline, number)
        yield (
            areas_table(sides, data_url(shown), heading),
            service.results.keep(new_token(), chart, picture_of(picture), settings),
            *(gr.Plot(plot_figure(plot), visible=True) for plot in chart.plots),
            passes_ended(made, time.monotonic() - started, remembered or 0),
        )

    private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    dueling.ended_by(stop.click)
    dueling.begun_anew_by(run.click)
    say_waiting(status, run.click)
    say_outdated(at, outdated, status, [run])
    given = [*at.inputs, prompts, text, depth, bare, points]
    dueling.begun_by([run.click], run_duel, given, [table, take, *plots, status], line=status)
    points.change(_cost, points, cost, trigger_mode="always_last", **private)
    # An address may have set the steps before the tab was ever open.
    tab.select(_cost, points, cost, **EACH_TIME, **private)


def _both(
    looks: list[Look], picture: Upload, prompt: str, layers: str, baseline: str, points: int
) -> Iterator[tuple[int, tuple[Side, ...]]]:
    """How many passes were made, and the sides that are ready; both models at the end."""
    made, sides = 0, list[Side]()
    for look in looks:
        pixels = look.model.preprocess(picture.image)[0]
        steps = duel(look, pixels, prompt, layers, baseline, points)  # pyright: ignore[reportArgumentType]
        for passes in drained(steps, sides):
            made += passes
            yield made, tuple(sides)
    yield made, tuple(sides)


def _cost(points: float | None) -> str:
    """The cost in words; nothing while a person clears the field to write another number."""
    if points is None:
        return ""
    few, many = (passes_of_duel(orders, filled_whole(points, "Steps")) for orders in ORDERS)
    return f"{few} passes of CLIP, {many} of DiffCLIP."
