"""The page: a header and its tabs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from models import available_models
from studio.api import add_api
from studio.examples import FOLDER, PHOTOGRAPHS, load_gallery
from studio.looked_at import choose_what_is_looked_at
from studio.public import policy_of
from studio.refusals import Page
from studio.service import RECORDING_BYTES, Service
from studio.tabs.compare import compare_tab
from studio.tabs.explain import explain_tab
from studio.tabs.intervene import intervene_tab
from studio.tabs.linked import hold_in_address
from studio.tabs.sparsity import sparsity_tab
from studio.tabs.text import text_tab
from studio.tabs.trajectories import trajectories_tab
from studio.theme import page_css, studio_theme
from studio.tour import guided_tour
from studio.viewer.address import address_line

TITLE = "DiffCLIP Studio"
HEADER = (
    '<a class="studio-skip" href="#studio-tabs">To the tabs</a>'
    '<div class="studio-header"><h1>Diff<i>CLIP</i> Studio</h1>'
    "What CLIP's attention and DiffCLIP's differential attention read of the same picture, patch by patch.</div>"
)
NO_MODELS = (
    "There is no trained model under `assets/checkpoints`. Train one with `python -m train fit`, or fetch the "
    "repository with its checkpoints, and start again."
)


def build_app(models: Sequence[str | Path] | None = None, recording_bytes: int = RECORDING_BYTES) -> gr.Blocks:
    """The page as Gradio blocks; `launch(**launch_settings())` shows it.

    No session state is kept on the server: that would hold one connection open for each tab of a browser.

    Args:
        models: names of shipped models or checkpoint folders; all shipped ones if not given.
        recording_bytes: how much is kept of what models did with pictures.
    """
    examples = load_gallery()
    service = Service(available_models() if models is None else models, examples, recording_bytes)
    with Page(title=TITLE, analytics_enabled=False, fill_width=True, delete_cache=(3600, 86400)) as demo:
        gr.HTML(HEADER, apply_default_css=False)
        if not service.names:
            gr.Markdown(NO_MODELS)
            return demo
        guided_tour()
        with gr.Row(equal_height=False, elem_classes="studio-page"):
            with gr.Column(elem_classes="studio-looked-at"):
                looked_at = choose_what_is_looked_at(service, examples)
            with gr.Column(elem_id="studio-tabs", elem_classes="studio-tabs"):
                line = address_line(elem_id="address-said", elem_classes="studio-address-line")
                with gr.Tabs(overflow_behavior="wrap") as tabs:
                    with gr.Tab("Compare", id="compare"):
                        opened = compare_tab(demo, looked_at, service, examples)
                    with gr.Tab("Sparsity", id="sparsity") as tab:
                        sparsity_tab(looked_at, service, tab, examples)
                    with gr.Tab("λ trajectories", id="trajectories") as tab:
                        trajectories_tab(looked_at, service, tab)
                    with gr.Tab("Explain", id="explain") as tab:
                        explain_tab(looked_at, service, tab)
                    with gr.Tab("Intervene", id="intervene") as tab:
                        intervene_tab(looked_at, service, tab, examples)
                    with gr.Tab("Text", id="text") as tab:
                        text_tab(looked_at, service, tab)
        looked_at.pass_changes_on(demo)
        hold_in_address(demo, opened, tabs, looked_at, service, line)
        add_api(service)
    return demo


def launch_settings() -> dict[str, Any]:
    """What `launch` needs for the page to look and behave as it should; host and port come from the environment."""
    return {
        "theme": studio_theme(),
        "css": page_css(),
        "footer_links": [],
        "run_history": False,
        "enable_monitoring": False,
        "max_file_size": policy_of().upload_bytes,
        # Gradio copies the examples from here also when the page is started from another folder.
        "allowed_paths": [str(FOLDER), str(PHOTOGRAPHS)],
        "show_error": False,
    }
