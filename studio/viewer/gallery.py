"""The pictures that come with the project, as rows of buttons under headings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from studio.examples import Example, thumbnail

_HERE = Path(__file__).resolve().parent


def gallery(examples: Sequence[Example], **settings: Any) -> gr.HTML:
    """The component; its value is the index in `examples` of the chosen picture, -1 for none of them.

    Args:
        examples: those of one heading need not stand together.
        settings: further settings of `gr.HTML`.
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for index, example in enumerate(examples):
        item = {"index": index, "url": thumbnail(example), "caption": example.caption}
        groups.setdefault(example.group, []).append(item)
    return gr.HTML(
        -1,
        html_template=(_HERE / "gallery.html").read_text(encoding="utf-8"),
        css_template=(_HERE / "gallery.css").read_text(encoding="utf-8"),
        js_on_load=(_HERE / "gallery.js").read_text(encoding="utf-8"),
        groups=[{"title": title, "items": items} for title, items in groups.items()],
        apply_default_css=False,
        **settings,
    )
