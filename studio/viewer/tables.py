"""HTML that the server wrote, with the styles of the Sparsity tab's tables; texts of persons must come escaped."""

import html
from pathlib import Path
from typing import Any

import gradio as gr

_CSS = Path(__file__).resolve().parent / "tables.css"


def table_html(**settings: Any) -> gr.HTML:
    """A component whose value is HTML with tables of `studio.sparsity_grids` and `studio.sparsity_similarity`."""
    return gr.HTML("", css_template=_CSS.read_text(encoding="utf-8"), apply_default_css=False, **settings)


def said_html(text: str) -> str:
    """A line for such a component that screen readers are told; the text is escaped."""
    return f'<p class="sg-said" role="status" aria-live="polite">{html.escape(text)}</p>'
