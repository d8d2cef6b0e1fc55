"""Results in words and bars, with their styles: what `studio.outcome` writes."""

from pathlib import Path
from typing import Any

import gradio as gr

_HERE = Path(__file__).resolve().parent


def outcome_page(**settings: Any) -> gr.HTML:
    """The component; its value is HTML in which every text of a person is escaped.

    Args:
        settings: further settings of `gr.HTML`.
    """
    css = (_HERE / "outcome.css").read_text(encoding="utf-8")
    return gr.HTML("", css_template=css, apply_default_css=False, **settings)
