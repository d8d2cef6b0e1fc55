"""What the tabs hold, written into the address of the page; a line says what an address left out."""

from pathlib import Path
from typing import Any

import gradio as gr

_HERE = Path(__file__).resolve().parent


def address_line(**settings: Any) -> gr.HTML:
    """The component. It writes its value, {"values": of all fields in their order, "at": when}, into the address.

    That begins when its prop `fields` says what they are, as `studio.tabs.linked` makes them: before, the address is
    still to be read. Its prop `said` is what the line says, as text, and `gone` are keys whose values were left out:
    they go from the address, which then says what is shown.

    Args:
        settings: further settings of `gr.HTML`.
    """
    return gr.HTML(
        None,
        html_template=(_HERE / "address.html").read_text(encoding="utf-8"),
        css_template=(_HERE / "address.css").read_text(encoding="utf-8"),
        js_on_load=(_HERE / "address.js").read_text(encoding="utf-8"),
        fields=None,
        said="",
        gone=(),
        apply_default_css=False,
        **settings,
    )
