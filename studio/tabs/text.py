"""The tab on what the tokens of a prompt read in the text towers of both models."""

from dataclasses import replace
from typing import Any

import gradio as gr

from models import StudioError
from studio.failures import told
from studio.fields import layer_slider, layer_to_show
from studio.filled import filled_whole
from studio.looked_at import MODEL_EVENT, LookedAt
from studio.result_store import new_token
from studio.service import Service
from studio.tabs.following import click_if_seen
from studio.take_strip import take_strip_server
from studio.text_maps import TextRun, parse_texts, run_or_why, text_value, token_maps
from studio.text_recipe import TextSettings
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
                layer = layer_slider("Layer", elem_id="text-layer")
            run = gr.Button("Read these prompts", variant="primary", size="sm", elem_id="text-run")
    maps = token_matrices(take_strip_server(service), elem_id="text-maps")

    @told
    def read(left: str, right: str, text: str, at: float) -> tuple[Any, dict[str, Any]]:
        return _read(service, (left, right), text, at)

    private: dict[str, Any] = {**MODEL_EVENT, "api_visibility": "private", "show_progress": "hidden"}
    asked = [looked_at.left, looked_at.right, prompts, layer]
    looked_at.models.change(None, js=click_if_seen("text-run"))
    tab.select(read, asked, [layer, maps], **private)
    gr.on([run.click, prompts.submit, layer.input], read, asked, [layer, maps], trigger_mode="always_last", **private)


def _read(service: Service, names: tuple[str, str], text: str, layer: float) -> tuple[Any, dict[str, Any]]:
    """The layers that there are, and the maps of one; a model whose text tower cannot be read says why."""
    prompts = parse_texts(text)
    runs: list[TextRun | tuple[str, str]] = []
    there: list[int] = []
    for row, name in enumerate(names):
        try:
            model = service.model(name)
        except StudioError as error:
            runs.append((service.title(name), str(error)))
            continue
        there.append(row)
        runs.append(run_or_why(model, prompts))
    depths = [run.model.text.layers for run in runs if isinstance(run, TextRun)]
    deepest, at = layer_to_show(filled_whole(layer, "Layer"), depths)
    maps = token_maps(runs, prompts, at)
    # A recipe has no place for a model that cannot be loaded.
    kept = replace(maps, rows=tuple(maps.rows[row] for row in there))
    settings = TextSettings(tuple(prompts), tuple(names[row] for row in there), at)
    take = service.results.keep(new_token(), kept, None, settings) if kept.drawable else ""
    return gr.Slider(maximum=max(1, deepest), value=at), text_value(maps, take, there)
