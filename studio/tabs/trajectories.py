"""The tab that shows how λ moved while models were trained."""

import html
from typing import Any

import gradio as gr

from studio.bring import bring_folder
from studio.bring_field import BRINGS, choices_of, known_of, view_of
from studio.failures import told
from studio.lambda_again import taken_runs
from studio.lambdas import Run, chart_value, kept_of, runs_of
from studio.looked_at import EACH_TIME, LookedAt
from studio.result_store import new_token
from studio.runlog import MOST_BYTES
from studio.sent_files import sent_files
from studio.service import Service
from studio.take_strip import take_strip_server
from studio.viewer.lambda_chart import lambda_chart

INTRO = (
    "In each layer λ is `exp(λq1·λk1) − exp(λq2·λk2) + λ_init`, one number for all heads and for every picture. The "
    "lines are what training runs logged: colour is the layer, dashes are the run, both towers share one scale."
)


def trajectories_tab(looked_at: LookedAt, service: Service, tab: gr.Tab) -> None:
    """Make the tab; logs are read when it is opened, and again when a model or a run is chosen."""
    gr.Markdown(INTRO)
    chart = lambda_chart(take_strip_server(service), elem_id="lambda-chart")
    with gr.Accordion("More runs", open=False, elem_id="lambda-more"), gr.Row():
        with gr.Column(min_width=260):
            shipped = gr.CheckboxGroup(
                choices_of(service, []),
                label="Beside the left and the right model",
                elem_id="lambda-shipped",
                interactive=True,
            )
            folders = gr.Textbox(
                label="Run folders on the server, one a line",
                lines=2,
                max_lines=6,
                elem_id="lambda-folders",
                interactive=True,
                visible=not service.policy.public,
            )
        logs = gr.File(
            label=f"Logs of runs, .jsonl up to {MOST_BYTES // 2**20} MB",
            file_types=[".jsonl"],
            file_count="multiple",
            height=140,
            elem_id="lambda-logs",
            interactive=True,
        )
    asked = [looked_at.left, looked_at.right, shipped, logs, folders]
    _wire(looked_at, service, tab, chart, asked)


def _wire(looked_at: LookedAt, service: Service, tab: gr.Tab, chart: gr.HTML, asked: list[Any]) -> None:
    left, right, shipped, logs, folders = asked

    def chosen(left: str, right: str, names: list[str], files: list[str] | None, text: str) -> tuple[Run, ...]:
        # The policy refuses folders in public, also when they were sent past the hidden field.
        return runs_of(service, [left, right, *(names or [])], sent_files(files or []), (text or "").splitlines())

    @told
    def draw_lambdas(left: str, right: str, names: list[str], files: list[str] | None, text: str) -> dict[str, Any]:
        runs = chosen(left, right, names, files, text)
        there, kept, settings = taken_runs(runs)
        curved = any(run.curved for run in kept.runs)
        take = service.results.keep(new_token(), kept, None, settings) if curved else ""
        return chart_value(runs, take, there)

    @told
    def open_checkpoint(
        left: str, right: str, names: list[str], files: list[str] | None, text: str, before: Any, event: gr.EventData
    ) -> tuple[Any, ...]:
        wanted = event._data if isinstance(event._data, dict) else {}
        run, kept = kept_of(chosen(left, right, names, files, text), wanted)
        name, brought = kept.name, known_of(service, before)
        if not name:
            assert kept.folder is not None
            name = f"{run.key} step {kept.step}"
            bring_folder(service, kept.folder, name, f"{run.title}, step {kept.step:,}")
            brought = [name, *(other for other in brought if other != name)]
        places = [name, right] if wanted.get("side") == "left" else [left, name]
        choices = choices_of(service, [*brought, *places])
        said = f"{service.title(name)} is chosen."
        gr.Info(html.escape(said), duration=3)
        fields = [gr.update(choices=choices, value=value) for value in places]
        return view_of(service, said, "", brought), *fields

    settings: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    gr.on(
        [tab.select, looked_at.models.change, shipped.input, logs.change, folders.submit],
        draw_lambdas,
        asked,
        chart,
        **EACH_TIME,
        **settings,
    )
    chart.select(
        open_checkpoint,
        [*asked, looked_at.brought],
        [looked_at.brought, left, right],
        concurrency_id=BRINGS,
        concurrency_limit=2,
        **settings,
    )
