"""The viewer: attention maps drawn in the browser, so that moving a query or a head asks the server nothing.

Its JavaScript is a few files, one idea each, that run as one function with the names `element`, `props`, `server`,
`trigger` and `watch` given by `gr.HTML`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr

_HERE = Path(__file__).resolve().parent
# In this order: later files use the names of earlier ones when they are read, all use all names when they run.
SCRIPTS = ("state", "colours", "layers", "places", "values", "draw", "panels", "captions", "pointer", "main")


def viewer_script() -> str:
    """The viewer's JavaScript as one text."""
    return "\n".join((_HERE / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)


def attention_viewer(get_layer: Callable[[Any], dict[str, Any]], **settings: Any) -> gr.HTML:
    """The viewer as a component. Its value is what `studio.comparison.view_value` makes.

    Args:
        get_layer: answers one request of the browser for a layer; anyone can call it.
        settings: further settings of `gr.HTML`.
    """
    return gr.HTML(
        None,
        html_template=(_HERE / "viewer.html").read_text(encoding="utf-8"),
        css_template=(_HERE / "viewer.css").read_text(encoding="utf-8"),
        js_on_load=viewer_script(),
        server_functions=[get_layer],
        apply_default_css=False,
        **settings,
    )


def scene_strip(scenes: list[dict[str, str]], **settings: Any) -> gr.HTML:
    """Buttons with example scenes; the value is the index of the chosen one, -1 for none of them.

    Args:
        scenes: for each its `url` (a data URL) and `caption`.
        settings: further settings of `gr.HTML`.
    """
    return gr.HTML(
        -1,
        html_template=(_HERE / "scenes.html").read_text(encoding="utf-8"),
        css_template=(_HERE / "scenes.css").read_text(encoding="utf-8"),
        js_on_load=(_HERE / "scenes.js").read_text(encoding="utf-8"),
        scenes=scenes,
        apply_default_css=False,
        **settings,
    )
