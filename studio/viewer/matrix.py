"""Token × token maps on canvases: rows attend, columns are attended; the readout row is marked."""

from pathlib import Path
from typing import Any

import gradio as gr

from studio.viewer import Answer, served

_HERE = Path(__file__).resolve().parent
# Colours and hatching are the viewer's own.
SCRIPTS = ("colours", "hatch", "save", "view_link", "matrix_values", "matrix_draw", "matrix")


def matrix_script() -> str:
    """The component's JavaScript as one text."""
    return "\n".join((_HERE / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)


def token_matrices(take: Answer, **settings: Any) -> gr.HTML:
    """The maps as a component. Its value is what `studio.text_maps.text_value` makes, or None.

    Head, map, scale and the query are changed in the browser; the server is asked for another layer alone.

    Args:
        take: answers a request of the browser for a file of what is shown, as `studio.take_strip` does; anyone can call
            it.
        settings: further settings of `gr.HTML`.
    """
    return gr.HTML(
        None,
        html_template=(_HERE / "matrix.html").read_text(encoding="utf-8"),
        css_template=(_HERE / "matrix.css").read_text(encoding="utf-8"),
        js_on_load=matrix_script(),
        server_functions=[served("take_strip", take)],
        apply_default_css=False,
        **settings,
    )
