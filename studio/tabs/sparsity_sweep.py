"""α swept from 1 to 2 on the Sparsity tab: a long run that ends in curves, which can be taken away."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gradio as gr

from models import StudioError
from studio.chart_plotly import chart_figure
from studio.failures import told_steps
from studio.kept_runs import run_key
from studio.looked_at import LookedAt
from studio.result_store import new_token
from studio.service import Service
from studio.sparsity_sides import Controls
from studio.sparsity_sweep import ALPHAS
from studio.sparsity_view import NO_PICTURE, sweep_shown
from studio.stopping import Stopped
from studio.tab_settings import alpha_sweep_settings, picture_of
from studio.tabs.following import long_run, outdated_line, say_outdated, say_waiting
from studio.take_strip import take_strip_server
from studio.upload import Upload
from studio.viewer.explained import status_line
from studio.viewer.tables import said_html, table_html
from studio.viewer.take_button import take_button


@dataclass(frozen=True)
class SweepPart:
    """The components: what begins and stops the run, lines about it, its words, its button to take away, its curves."""

    run: gr.Button
    stop: gr.Button
    waiting: gr.HTML
    outdated: gr.HTML
    swept: gr.HTML
    take: gr.HTML
    figure: gr.Plot


def sweep_part(service: Service) -> SweepPart:
    """Make the components, below those that are there."""
    with gr.Row():
        run = gr.Button("Sweep α from 1 to 2", variant="primary", size="sm", elem_id="sparsity-sweep")
        stop = gr.Button("Stop", size="sm", elem_id="sparsity-sweep-stop", min_width=80, scale=0)
        waiting = status_line("", elem_id="sparsity-sweep-waiting", elem_classes="studio-waiting")
    outdated = outdated_line("sparsity-sweep-outdated")
    swept = table_html(elem_id="sparsity-swept")
    take = take_button("the curves over α", take_strip_server(service), "sparsity-sweep-take")
    figure = gr.Plot(show_label=False, visible=False, elem_id="sparsity-figure")
    return SweepPart(run, stop, waiting, outdated, swept, take, figure)


def wire_sweep(at: LookedAt, service: Service, part: SweepPart, controls: list[Any]) -> None:
    """Have the run begin and end.

    Args:
        at: the picture and the models.
        service: the models.
        part: what `sweep_part` made.
        controls: the tab's, in the order of `Controls`.
    """
    sweeping = long_run(at, service.turns)

    @told_steps
    def sweep(
        asked: float, request: gr.Request, picture: Upload | None, left: str, right: str, *values: Any
    ) -> Iterator[tuple[Any, ...]]:
        if picture is None:
            raise StudioError(NO_PICTURE)
        set_to, names = Controls(*values), (left, right)
        begun = service.kept.begin(
            run_key("sweep of alpha", names, picture, set_to), lambda: sweep_shown(service, picture, names, set_to)
        )
        try:
            for said, chart in sweeping.stops.until(asked, request, begun.steps):
                if chart is None:
                    yield said_html(said), gr.skip(), gr.skip(), begun.note
                    continue
                made = alpha_sweep_settings(picture, names, set_to, ALPHAS)
                taken = service.results.keep(new_token(), chart, picture_of(picture), made)
                yield said_html(said), taken, gr.Plot(chart_figure(chart), visible=True), begun.note
        except Stopped:
            yield said_html("Stopped."), gr.skip(), gr.skip(), ""

    sweeping.ended_by(part.stop.click)
    sweeping.begun_anew_by(part.run.click)
    say_outdated(at, part.outdated, part.swept, [part.run])
    say_waiting(part.waiting, part.run.click)
    outputs: list[Any] = [part.swept, part.take, part.figure, part.waiting]
    sweeping.begun_by([part.run.click], sweep, [*at.inputs, *controls], outputs, line=part.waiting)
