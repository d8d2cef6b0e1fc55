"""Token × token maps on canvases: rows attend, columns are attended; the readout row is marked."""

from pathlib import Path
from typing import Any

import gradio as gr

_HERE = Path(__file__).resolve().parent
# Colours and hatching are the viewer's own.
SCRIPTS = ("colours", "hatch", "matrix_values", "matrix_draw", "matrix")


def matrix_script() -> str:
    """The component's JavaScript as one text."""
    return "\n".join((_HERE / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)


def token_matrices(**settings: Any) -> gr.HTML:
    """The maps as a component. Its value is what `studio.text_maps.text_value` makes, or None.

    Head, map, scale and the query are changed in the browser; the server is asked for another layer alone.

    Args:
        settings: further settings of `gr.HTML`.
    """
    return gr.HTML(
        None,
        html_template=(_HERE / "matrix.html").read_text(encoding="utf-8"),
        css_template=(_HERE / "matrix.css").read_text(encoding="utf-8"),
        js_on_load=matrix_script(),
        apply_default_css=False,
        **settings,
    )
