"""Models' looks at one picture -> the value of the viewer: what it has to know before it asks for layers."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from models import StudioError
from studio.examples import data_url
from studio.frame import on_preview, preview, shown_window
from studio.overview import described
from studio.panels import default_panels, kinds_of
from studio.service import Look, Service, vision_grid
from studio.upload import Upload


def view_value(
    service: Service,
    upload: Upload,
    looks: Sequence[Look],
    missing: Mapping[str, str] | None = None,
    text: str = "",
    link: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The picture, the models' grids over it, and what can be chosen.

    Args:
        service: whose models these are.
        upload: the picture.
        looks: of the left model, the right model, and further models that panels show.
        missing: models that panels want and that cannot be looked at, with the reason.
        text: what relevance is asked for at first.
        link: settings that the address of the page names.
    """
    image, token = upload.image, upload.token
    size = image.height, image.width
    window = shown_window(size, [look.geometry.seen_box for look in looks])
    shown = preview(image, window)
    example = service.example(token)
    marked = example is not None and example.mask is not None
    left, right = looks[0].model, looks[1].model
    # A model that was brought is told to nobody else, but whoever looks at it can choose it in every panel.
    names = list(dict.fromkeys([*service.names, *(look.model.name for look in looks)]))
    differential = any(look.model.vision.differential for look in looks)
    return {
        "token": token,
        "run": secrets.token_hex(6),
        "picture": data_url(shown),
        "source": {"path": str(upload.file), "meta": {"_type": "gradio.FileData"}},
        "height": shown.height,
        "width": shown.width,
        "window": list(window),
        "mask": marked,
        "note": _window_note(size, window),
        "left": left.name,
        "right": right.name,
        "defaults": [panel.plain() for panel in default_panels(left, right)],
        "choices": [[name, service.title(name)] for name in names],
        "sides": {look.model.name: _side(look, window, known=marked) for look in looks},
        "missing": dict(missing or {}),
        "statistics": described(differential, example is not None),
        "text": text,
        "link": dict(link or {}),
    }


def waiting_value(token: str, link: Mapping[str, Any], remarks: Sequence[str]) -> dict[str, Any]:
    """What the viewer shows for a link whose picture is not here: it asks for the picture, and keeps the settings."""
    return {"need": token, "link": dict(link), "note": " ".join(remarks)}


def _side(look: Look, window: tuple[int, int, int, int], *, known: bool) -> dict[str, Any]:
    model, grid = look.model, vision_grid(look.model)
    return {
        "name": model.name,
        "title": model.title,
        "differential": model.vision.differential,
        "layers": model.vision.layers,
        "pooled": model.vision.pooled,
        "heads": model.vision.heads,
        "rows": grid.rows,
        "cols": grid.cols,
        "prefix": grid.prefix,
        "cls": grid.cls is not None,
        "kinds": list(kinds_of(model.vision.differential)),
        "box": on_preview(look.geometry.seen_box, window),
        "badge": "" if known else domain_warning(model.domain),
    }


def domain_warning(domain: str) -> str:
    """What to say of a picture that is not one of the shipped scenes, by the model's domain; "" for open domains."""
    return "Outside this model's domain: it was trained on generated scenes." if domain == "scenes" else ""


def first_text(service: Service, token: str, classes: str, template: str) -> str:
    """What relevance is asked for at first: an example's caption, or the first class in its template."""
    example = service.example(token)
    if example is not None:
        return example.caption
    label = next((part.strip() for part in classes.replace("\n", ",").split(",") if part.strip()), "")
    return template.replace("{}", label) if "{}" in template and label else label


def looked(
    service: Service, upload: Upload, left: str, right: str, others: Sequence[str]
) -> tuple[list[Look], dict[str, str]]:
    """The looks of the left model, the right one and others, and for others that fail the reason.

    Raises:
        StudioError: the left or the right model cannot look at the picture.
    """
    looks, missing = [service.look(name, upload.image) for name in (left, right)], {}
    for name in others:
        if name in (left, right):
            continue
        try:
            looks.append(service.look(name, upload.image))
        except StudioError as error:
            missing[name] = str(error)
    return looks, missing


def _window_note(size: tuple[int, int], window: tuple[int, int, int, int]) -> str:
    height, width = window[2] - window[0], window[3] - window[1]
    if (height, width) == size:
        return ""
    return (
        f"The picture is {size[1]} × {size[0]} pixels; shown are the {width} × {height} around what the models saw. "
        "No model saw the rest."
    )
