"""Maps side by side over one picture, as plain values for the browser: what tabs other than Compare draw with.

`strip_value` makes the value of `studio.viewer.strip.map_strip`. All panels of one scale share one range, from 0 for
sequential panels, symmetric about 0 for signed ones; nothing is stretched on its own. The crosshair is linked: a patch
that is pointed at is outlined on every panel, on the same pixels of the picture, with its number.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from PIL import Image

from models import StudioError
from models.geometry import ImageGeometry
from studio.examples import data_url
from studio.frame import Box, on_preview, preview, shown_window

Kind = Literal["sequential", "signed", "classes"]


@dataclass(frozen=True)
class Fact:
    """One number under a panel, and the control's beside it where there is one."""

    label: str
    value: str
    control: str = ""
    meaning: str = ""


@dataclass(frozen=True)
class MapPanel:
    """One map.

    Attributes:
        title: what it is, as "A1 − λA2".
        of: of which model, or how it was made.
        values: (R, C) floats, from the top left of what the model saw; NaN has no value and is hatched; for "classes"
            the index of the class.
        geometry: where the model saw them on the picture.
        kind: "sequential" from 0, "signed" about 0, or "classes".
        scale: panels of one kind and one scale share a range; the name stands on the colour bar.
        unit: of the values, for the colour bar and the crosshair.
        facts: numbers under the panel.
        badges: short remarks in the header.
        message: a sentence instead of the map, "" where there is a map.
        zeros: whether an exact 0 means "none at all" and is hatched.
    """

    title: str
    of: str
    values: np.ndarray
    geometry: ImageGeometry
    kind: Kind = "sequential"
    scale: str = ""
    unit: str = ""
    facts: tuple[Fact, ...] = ()
    badges: tuple[str, ...] = ()
    message: str = ""
    zeros: bool = False

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or not self.values.size:
            raise StudioError(f"A panel's values must be (R, C) and not {self.values.shape}: give one map.")


def strip_value(
    image: Image.Image, panels: Sequence[MapPanel], note: str = "", classes: Sequence[str] = ()
) -> dict[str, Any]:
    """The value of a map strip: the picture and the panels over it.

    Args:
        image: upright RGB, of the size that the panels' geometries name.
        panels: from left to right.
        note: what is to be said of all of them, in plain text.
        classes: names of the classes, for panels of that kind.

    Raises:
        StudioError: no panel.
    """
    if not panels:
        raise StudioError("There is no map to show: give at least one panel.")
    window = shown_window((image.height, image.width), [panel.geometry.seen_box for panel in panels])
    shown = preview(image, window)
    return {
        "picture": data_url(shown),
        "height": shown.height,
        "width": shown.width,
        "panels": [_panel(panel, window) for panel in panels],
        "classes": list(classes),
        "note": note,
    }


def _panel(panel: MapPanel, window: tuple[int, int, int, int]) -> dict[str, Any]:
    box: Box = on_preview(panel.geometry.seen_box, window)
    rows, cols = panel.values.shape
    return {
        "title": panel.title,
        "of": panel.of,
        "rows": rows,
        "cols": cols,
        "box": box,
        "values": base64.b64encode(np.ascontiguousarray(panel.values, "<f4").tobytes()).decode("ascii"),
        "kind": panel.kind,
        "scale": panel.scale,
        "unit": panel.unit,
        "facts": [[fact.label, fact.value, fact.control, fact.meaning] for fact in panel.facts],
        "badges": list(panel.badges),
        "message": panel.message,
        "zeros": panel.zeros,
    }
