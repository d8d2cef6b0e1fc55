"""The table of edits of one model: λ by layer, which A2, which heads. It asks the server nothing until one is made."""

from pathlib import Path
from typing import Any

import gradio as gr

_HERE = Path(__file__).resolve().parent


def edit_bench(**settings: Any) -> gr.HTML:
    """The table as a component. Its value is what `studio.changes.controls_value` makes, with `chosen` filled in.

    It fires `input` after each edit.

    Args:
        settings: further settings of `gr.HTML`.
    """
    return gr.HTML(
        None,
        html_template=(_HERE / "bench.html").read_text(encoding="utf-8"),
        css_template=(_HERE / "bench.css").read_text(encoding="utf-8"),
        js_on_load=(_HERE / "bench.js").read_text(encoding="utf-8"),
        apply_default_css=False,
        **settings,
    )
