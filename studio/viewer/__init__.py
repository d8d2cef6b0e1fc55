"""The viewer: attention maps drawn in the browser, so that moving a query or a head asks the server nothing.

Its JavaScript is a few files, one idea each, that run as one function with the names `element`, `props`, `server`,
`trigger` and `watch` given by `gr.HTML`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr
import orjson
from fastapi import Response

Answer = Callable[[Any], dict[str, Any]]
_HERE = Path(__file__).resolve().parent
# In this order: later files use the names of earlier ones when they are read, all use all names when they run.
SCRIPTS = (
    "state",
    "colours",
    "hatch",
    "save",
    "layers",
    "places",
    "values",
    "draw",
    "paint",
    "panels",
    "facts",
    "captions",
    "pointer",
    "swipe",
    "questions",
    "relevance",
    "overview",
    "link",
    "take",
    "controls",
    "main",
)


def viewer_script() -> str:
    """The viewer's JavaScript as one text."""
    return "\n".join((_HERE / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)


def attention_viewer(get_layer: Answer, get_numbers: Answer, take_away: Answer, **settings: Any) -> gr.HTML:
    """The viewer as a component. Its value is what `studio.comparison.view_value` makes.

    It fires `submit` when models are to look at the picture (the names are the value's `asked`), `select` when
    relevance is wanted and `expand` when the overview is (what is wanted is `event._data`); the answers to the latter
    two go into its props `relevance` and `overview`.

    Args:
        get_layer: answers a request of the browser for the maps of a layer; anyone can call it.
        get_numbers: likewise for the numbers under the panels.
        take_away: likewise for a file of what is shown, `{"name", "data"}` with base64, or `{"error"}`.
        settings: further settings of `gr.HTML`.
    """
    answers = {"get_layer": get_layer, "get_numbers": get_numbers, "take_away": take_away}
    return gr.HTML(
        None,
        html_template=(_HERE / "viewer.html").read_text(encoding="utf-8"),
        css_template=(_HERE / "viewer.css").read_text(encoding="utf-8"),
        js_on_load=viewer_script(),
        server_functions=[served(name, answer) for name, answer in answers.items()],
        relevance=None,
        overview=None,
        apply_default_css=False,
        **settings,
    )


def served(name: str, answer: Answer) -> Callable[[Any], Response]:
    """A function of the server under the name by which the browser calls it.

    What it answers is written by orjson: a layer is a megabyte of text, for which Python's own writer takes 7 ms.
    """

    def serve(asked: Any) -> Response:
        return Response(orjson.dumps(answer(asked)), media_type="application/json")

    serve.__name__ = name
    return serve
