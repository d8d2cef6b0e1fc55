"""Two models' looks at one picture -> the value of the viewer; and the answers to what the viewer then asks."""

import secrets
from collections.abc import Callable
from typing import Any

from models import StudioError
from studio.examples import data_url
from studio.frame import on_preview, preview, shown_window
from studio.service import Look, Service, vision_grid
from studio.uploads import Upload

ALPHA_STEPS = 20  # alpha is taken in steps of 1 / 20, which bounds the number of different answers


def view_value(service: Service, upload: Upload, looks: tuple[Look, Look]) -> dict[str, Any]:
    """What the viewer has to know before it asks for layers: the picture, and the two models' grids over it."""
    image, token = upload.image, upload.token
    size = image.height, image.width
    window = shown_window(size, [look.geometry.seen_box for look in looks])
    shown = preview(image, window)
    example = service.example(token)
    return {
        "token": token,
        "run": secrets.token_hex(6),
        "picture": data_url(shown),
        "source": {"path": str(upload.file), "meta": {"_type": "gradio.FileData"}},
        "height": shown.height,
        "width": shown.width,
        "mask": example is not None,
        "note": _window_note(size, window),
        "sides": [_side(look, window, known=example is not None) for look in looks],
    }


def _side(look: Look, window: tuple[int, int, int, int], *, known: bool) -> dict[str, Any]:
    model, grid = look.model, vision_grid(look.model)
    return {
        "name": model.name,
        "title": model.title,
        "differential": model.vision.differential,
        "layers": model.vision.layers,
        "heads": model.vision.heads,
        "rows": grid.rows,
        "cols": grid.cols,
        "prefix": grid.prefix,
        "box": on_preview(look.geometry.seen_box, window),
        "badge": "" if known else domain_warning(model.domain),
    }


def domain_warning(domain: str) -> str:
    """What to say of a picture that is not one of the shipped scenes, by the model's domain; "" for open domains."""
    return "Outside this model's domain: it was trained on generated scenes." if domain == "scenes" else ""


def _window_note(size: tuple[int, int], window: tuple[int, int, int, int]) -> str:
    height, width = window[2] - window[0], window[3] - window[1]
    if (height, width) == size:
        return ""
    return (
        f"The picture is {size[1]} × {size[0]} pixels; shown are the {width} × {height} around what the models saw. "
        "No model saw the rest."
    )


def layer_server(service: Service) -> Callable[[Any], dict[str, Any]]:
    """The function that the browser calls for one layer. Anyone can call it, with anything; it never runs a model."""

    def get_layer(asked: Any) -> dict[str, Any]:
        try:
            payload = service.layer(*checked_request(asked, service.names))
        except StudioError as error:
            return {"error": str(error)}
        return {"evicted": True} if payload is None else payload

    return get_layer


def checked_request(asked: Any, names: list[str]) -> tuple[str, str, int, float]:
    """(model, token, layer, alpha) of a request.

    Raises:
        StudioError: it is not a request as the viewer sends it.
    """
    if not isinstance(asked, dict):
        raise StudioError("A request for a layer is an object with token, model, layer and alpha.")
    model, token, layer, alpha = (asked.get(key) for key in ("model", "token", "layer", "alpha"))
    if not isinstance(model, str) or model not in names:
        raise StudioError(f"There is no such model here: choose {', '.join(names)}.")
    if not isinstance(token, str) or len(token) != 32:
        raise StudioError("The picture's token is not one that this page gave: choose the picture again.")
    if not isinstance(layer, int) or isinstance(layer, bool):
        raise StudioError("The layer must be a whole number.")
    if not isinstance(alpha, int | float) or isinstance(alpha, bool) or not 1 <= alpha <= 2:
        raise StudioError("alpha must be a number; outside [1, 2] there is none: 1 is softmax, 2 is sparsemax.")
    return model, token, layer, round(alpha * ALPHA_STEPS) / ALPHA_STEPS
