"""The tab on what the tokens of a prompt read in the text towers of both models."""

from typing import Any

import gradio as gr

from models import StudioError
from studio.failures import told
from studio.fields import number_slider
from studio.looked_at import MODEL_EVENT, LookedAt
from studio.service import Service
from studio.tabs.following import click_if_seen
from studio.text_maps import TextRun, parse_texts, run_text, text_value
from studio.viewer.matrix import token_matrices

INTRO = (
    "What each token of a prompt reads of the others, in the text tower as it is (a readout). These maps know nothing "
    "of the picture. The row of the token that is read out, which makes the embedding, is marked."
)
PROMPTS = "a photo of a teddy bear\na photo of an airplane"
PROMPTS_LABEL = "Prompts, one a line, up to three side by side"


def text_tab(looked_at: LookedAt, service: Service, tab: gr.Tab) -> None:
    """Make the widgets and wire them; the towers run when the tab is opened."""
    gr.Markdown(INTRO)
    with gr.Row(equal_height=False):
        with gr.Column(min_width=300), gr.Group():
            prompts = gr.Textbox(
                PROMPTS, label=PROMPTS_LABEL, lines=3, max_lines=6, elem_id="text-prompts", interactive=True
            )
        with gr.Column(min_width=300):
            with gr.Group():
                layer = number_slider(0, 11, 0, step=1, label="Layer", elem_id="text-layer", interactive=True)
            run = gr.Button("Read these prompts", variant="primary", size="sm", elem_id="text-run")
    maps = token_matrices(elem_id="text-maps")

    @told
    def read(left: str, right: str, text: str, at: float) -> tuple[Any, dict[str, Any]]:
        return _read(service, (left, right), text, at)

    @told
    def read_opened(left: str, right: str, text: str, at: float, shown: Any) -> tuple[Any, dict[str, Any]]:
        return _read(service, (left, right), text, None if shown is None else at)

    private: dict[str, Any] = {**MODEL_EVENT, "api_visibility": "private", "show_progress": "hidden"}
    asked = [looked_at.left, looked_at.right, prompts, layer]
    gr.on([looked_at.left.change, looked_at.right.change], None, js=click_if_seen("text-run"))
    tab.select(read_opened, [*asked, maps], [layer, maps], **private)
    gr.on([run.click, prompts.submit, layer.input], read, asked, [layer, maps], trigger_mode="always_last", **private)


def _read(service: Service, names: tuple[str, str], text: str, layer: float | None) -> tuple[Any, dict[str, Any]]:
    """The layers that there are, and the maps of one; a model whose text tower cannot be read says why."""
    prompts = parse_texts(text)
    runs: list[TextRun | tuple[str, str]] = []
    for name in names:
        try:
            runs.append(run_text(service.model(name), prompts))
        except StudioError as error:
            runs.append((service.title(name), str(error)))
    deepest = max([run.model.text.layers - 1 for run in runs if isinstance(run, TextRun)], default=0)
    at = deepest if layer is None else min(max(0, round(layer)), deepest)
    return gr.Slider(maximum=max(1, deepest), value=at), text_value(runs, prompts, at)
