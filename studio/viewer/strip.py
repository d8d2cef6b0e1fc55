"""The map strip: panels over one picture with a linked crosshair, for maps that the server has worked out."""

from pathlib import Path
from typing import Any

import gradio as gr

from studio.viewer import Answer, served

_HERE = Path(__file__).resolve().parent
# Colours and drawing are the viewer's own; what is the strip's stands in the last files.
SCRIPTS = ("colours", "hatch", "draw", "save", "view_link", "strip_values", "strip_panels", "strip")
EMPTY = "Nothing was run yet."


def strip_script() -> str:
    """The strip's JavaScript as one text."""
    return "\n".join((_HERE / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)


def map_strip(
    empty: str = EMPTY, label: str = "Maps over the picture", take: Answer | None = None, **settings: Any
) -> gr.HTML:
    """Panels over a picture as a component. Its value is what `studio.strip.strip_value` makes, or None.

    Pointing at a patch of one panel outlines the same pixels on all of them, with each one's number; arrow keys do the
    same, Escape clears. A click, or Enter, fires `select` with `{"panel", "key", "row", "col"}` (`event._data`).

    Args:
        empty: what stands there while there is no value.
        label: what the group of panels is, for screen readers.
        take: answers a request of the browser for a file of what is shown, as `studio.take_strip` does; anyone can call
            it. Without it nothing can be taken away.
        settings: further settings of `gr.HTML`.
    """
    return gr.HTML(
        None,
        html_template=(_HERE / "strip.html").read_text(encoding="utf-8"),
        css_template=(_HERE / "strip.css").read_text(encoding="utf-8"),
        js_on_load=strip_script(),
        server_functions=None if take is None else [served("take_strip", take)],
        empty=empty,
        group=label,
        apply_default_css=False,
        **settings,
    )
