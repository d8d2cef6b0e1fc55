"""A canvas on which a mask is painted over a picture, by pointer or by keys."""

from pathlib import Path
from typing import Any

import gradio as gr
from PIL import Image

from studio.examples import data_url

_HERE = Path(__file__).resolve().parent
_LONGEST = 640


def mask_painter(**settings: Any) -> gr.HTML:
    """The painter as a component; its value is what `painter_value` makes, with `mask` as a PNG data URL or None.

    A finished stroke fires `input`.
    """
    return gr.HTML(
        None,
        html_template=(_HERE / "painter.html").read_text(encoding="utf-8"),
        css_template=(_HERE / "painter.css").read_text(encoding="utf-8"),
        js_on_load=(_HERE / "painter.js").read_text(encoding="utf-8"),
        apply_default_css=False,
        **settings,
    )


def painter_value(image: Image.Image, token: str) -> dict[str, Any]:
    """An empty painter over a picture.

    Args:
        image: upright RGB.
        token: the name of its pixels, so that a mask is not laid over another picture.
    """
    shown = image.copy()
    shown.thumbnail((_LONGEST, _LONGEST), Image.Resampling.LANCZOS)
    return {"picture": data_url(shown), "width": shown.width, "height": shown.height, "token": token, "mask": None}
