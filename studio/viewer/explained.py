"""HTML of explanations with its own styles: words with their scores, and the table of a duel."""

from pathlib import Path
from typing import Any

import gradio as gr

_CSS = Path(__file__).resolve().parent / "explained.css"


def explained_html(**settings: Any) -> gr.HTML:
    """A component for what `studio.explained.words_html` and `studio.duel_figure.areas_table` make."""
    return gr.HTML("", css_template=_CSS.read_text(encoding="utf-8"), apply_default_css=False, **settings)


def status_line(value: str, **settings: Any) -> gr.HTML:
    """A line that tells how far a run is; screen readers are told when it changes."""
    return gr.HTML(
        value,
        html_template='<p class="studio-status" role="status" aria-live="polite">{{value}}</p>',
        apply_default_css=False,
        **settings,
    )
