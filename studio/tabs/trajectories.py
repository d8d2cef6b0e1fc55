"""The tab that shows how λ moved while the models were trained."""

from typing import Any

import gradio as gr

from models import StudioError
from studio.failures import told
from studio.runlog import LOG, TOWERS, read_lambda_log
from studio.service import Service

INTRO = (
    "In each layer λ is `exp(λq1·λk1) − exp(λq2·λk2) + λ_init`, one number for all heads. The lines are what the "
    "training run logged; hover for the two exponential terms."
)


def trajectories_tab(tab: gr.Tab, service: Service) -> None:
    """Make the tab; its logs are read and drawn when it is opened, so a page that never opens it loads no Plotly."""
    gr.Markdown(INTRO)
    notes, plots = [], []
    for name in service.names:
        notes.append(gr.Markdown(elem_classes="studio-log"))
        with gr.Row():
            plots += [gr.Plot(show_label=False, visible=False, elem_id=f"lambda-{name}-{tower}") for tower in TOWERS]

    @told
    def draw() -> list[Any]:
        drawn = [_drawn(service, name) for name in service.names]
        return [note for note, _ in drawn] + [figure for _, figures in drawn for figure in figures]

    tab.select(draw, None, [*notes, *plots], api_visibility="private", show_progress="hidden")


def _drawn(service: Service, name: str) -> tuple[str, list[Any]]:
    """What to say of one model, and its figure for each tower (hidden where there is none)."""
    # Plotly takes a good part of a second to import, and only this tab needs it.
    from studio.figures import trajectory_figure

    nothing = [gr.Plot(visible=False) for _ in TOWERS]
    try:
        model = service.model(name)
        log = read_lambda_log(service.folder(name))
    except StudioError as error:
        return f"**{service.title(name)}**: {error}", nothing
    towers = (model.vision, model.text)
    if not any(tower.differential for tower in towers):
        return f"**{model.title}** has no λ: its attention is standard, nothing is subtracted.", nothing
    if log is None:
        return f"**{model.title}**: there is no `{LOG}` beside its weights, so only its final λ is known.", nothing
    figures = [
        gr.Plot(
            trajectory_figure(log.towers[tower.name], tower.lambda_init, f"{model.title}: {tower.name} tower"),
            visible=True,
        )
        if tower.lambda_init is not None and log.towers[tower.name].samples
        else gr.Plot(visible=False)
        for tower in towers
    ]
    bad = f"{log.bad_lines} lines of its log could not be read and are left out." if log.bad_lines else ""
    empty = "" if any(log.towers[tower.name].samples for tower in towers) else f"Its `{LOG}` holds no λ."
    return f"**{model.title}** {bad} {empty}".strip(), figures
