"""The section of the Explain tab in which maps compete: whose order of patches says best what the model needs."""

import time
from collections.abc import Iterator
from typing import Any

import gradio as gr

from models import StudioError
from studio.attribution import drained
from studio.duel import DEPTHS, FEWEST_POINTS, MOST_POINTS, ORDERS, SEEDS, Side, duel, passes_of_duel
from studio.duel_figure import areas_table, curve_figure
from studio.examples import data_url
from studio.failures import told_steps
from studio.fields import filled_whole, number_slider
from studio.frame import preview
from studio.looked_at import LookedAt
from studio.prompts import prompts_of
from studio.service import Service
from studio.similarity import BASELINES
from studio.stopping import Stopped
from studio.tabs.following import long_run, outdated_line, passes_made, say_outdated, say_waiting
from studio.uploads import Upload
from studio.viewer.explained import explained_html, status_line

INTRO = (
    "### Faithfulness duel\n"
    "Patches are taken out of the picture (deletion) or put into a bare one (insertion) in the order of each map, "
    "highest first, and the similarity is followed. CLIP's A is judged on CLIP; A1, A1 − λA2 (in signed order) and "
    "relevance on DiffCLIP. **A good map falls fast and rises fast; what does not beat the random order explains "
    "nothing, however clean it looks.**"
)
NOTE = (
    "Areas are the mean cosine over the curve: lower is better for deletion, higher for insertion. “Beyond random” is "
    f"more than two standard deviations of {SEEDS} random orders. “A2 shuffled” is the same difference "
    f"with A2 permuted over the patches, {SEEDS} fixed shuffles: where A1 − λA2 is not beyond it, it owes nothing to "
    "what A2 knows of the picture. Areas of two models are not comparable, since their cosines have different ranges; "
    "compare each with its own controls. One picture is no evidence."
)
POINTS = 14


def duel_section(at: LookedAt, service: Service, prompts: gr.Textbox) -> None:
    """Make the widgets, below those that are there, and wire them.

    Args:
        at: the picture and the models.
        service: the models.
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
    with gr.Row():
        plots = [gr.Plot(show_label=False, visible=False, elem_id=f"duel-{kind}") for kind in ("deletion", "insertion")]

    dueling = long_run(service.turns)

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
        prompt = prompts_of(own if own.strip() else texts, service.example(picture.token))[0]
        number = filled_whole(count, "Steps")
        sides: list[Side] = []
        made, started = 0, time.monotonic()
        looks = [service.look(name, picture.image) for name in (left, right)]
        total = sum(passes_of_duel(ORDERS[look.model.vision.differential], number) for look in looks)
        try:
            for look in looks:
                pixels = look.model.preprocess(picture.image)[0]
                steps = duel(look, pixels, prompt, layers, baseline, number)  # pyright: ignore[reportArgumentType]
                for passes in dueling.stops.until(asked, request, drained(steps, sides)):
                    made += passes
                    yield gr.skip(), gr.skip(), gr.skip(), passes_made(made, total)
        except Stopped:
            yield gr.skip(), gr.skip(), gr.skip(), "Stopped."
            return
        heading = f"“{prompt}” · {layers} · taken out: {baseline}"
        shown = preview(picture.image, (0, 0, picture.image.height, picture.image.width))
        shown.thumbnail((300, 300))
        figures = [
            gr.Plot(curve_figure(sides, kind, f"{kind.capitalize()}: “{prompt}”"), visible=True)
            for kind in ("deletion", "insertion")
        ]
        yield (
            areas_table(sides, data_url(shown), heading, NOTE),
            *figures,
            f"{made} passes in {time.monotonic() - started:.1f} s",
        )

    private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    dueling.ended_by(stop.click)
    dueling.begun_anew_by(run.click)
    say_waiting(status, run.click)
    say_outdated(at, outdated, status, [run], dueling)
    given = [*at.inputs, prompts, text, depth, bare, points]
    dueling.begun_by(run.click, run_duel, given, [table, *plots, status], line=status)
    points.change(_cost, points, cost, trigger_mode="always_last", **private)


def _cost(points: float | None) -> str:
    """The cost in words; nothing while a person clears the field to write another number."""
    if points is None:
        return ""
    few, many = (passes_of_duel(orders, filled_whole(points, "Steps")) for orders in ORDERS)
    return f"{few} passes of CLIP, {many} of DiffCLIP."
