"""What became of bringing a model, as a component: a line while it loads, then what was recognised."""

from pathlib import Path
from typing import Any

import gradio as gr

_HERE = Path(__file__).resolve().parent


def brought_list(**settings: Any) -> gr.HTML:
    """The component. Its value is {"said", "state": "" | "busy" | "failed", "models": [{"name", "title", "rows"}]},
    rows as the text of a list of pairs.

    Texts are shown as text, whatever they hold.
    """
    return gr.HTML(
        None,
        html_template=(_HERE / "brought.html").read_text(encoding="utf-8"),
        css_template=(_HERE / "brought.css").read_text(encoding="utf-8"),
        js_on_load=(_HERE / "brought.js").read_text(encoding="utf-8"),
        apply_default_css=False,
        **settings,
    )
