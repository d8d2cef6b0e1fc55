"""Maps side by side over one picture: what tabs other than Compare draw with, in the browser and as a figure.

`strip_value` makes of a `Strip` the value of `studio.viewer.strip.map_strip`. All panels of one scale share one range,
from 0 for sequential panels, symmetric about 0 for signed ones; nothing is stretched on its own. The crosshair is
linked: a patch that is pointed at is outlined on every panel, on the same pixels of the picture, with its number.
"""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from PIL import Image

from models import StudioError
from models.geometry import ImageGeometry
from studio.examples import data_url
from studio.frame import Box, on_preview, preview, shown_window
from studio.scored_texts import ScoredText

Kind = Literal["sequential", "signed", "classes"]
NO_CLASS = 255  # stands for NaN where classes are sent as bytes
_CELL_BYTES = 64  # what a cell of a table takes, a number as an object of Python
COLOURS = 8  # how many classes get one of their own; further ones share a grey


@dataclass(frozen=True)
class Fact:
    """One number under a panel, and beside it the same number of each of the panel's controls, "" for none.

    Attributes:
        label: what it is called.
        value: as a person reads it.
        controls: the number of each control, in the order of `MapPanel.controls`; () where it has none.
        meaning: in a sentence.
        number, numbers: `value` and `controls` in full, None where there is no number; for those who count on.
    """

    label: str
    value: str
    controls: tuple[str, ...] = ()
    meaning: str = ""
    number: float | None = None
    numbers: tuple[float | None, ...] = ()


def measured(
    label: str,
    number: float,
    write: Callable[[float], str],
    controls: Sequence[float | None] = (),
    meaning: str = "",
) -> Fact:
    """A number and those of the controls, None for none, written by `write`."""
    written = tuple("" if control is None else write(control) for control in controls)
    return Fact(label, write(number), written, meaning, number, tuple(controls))


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
        controls: what stands over the columns of the controls' numbers.
        badges: short remarks in the header.
        message: a sentence instead of the map, "" where there is a map.
        zeros: whether an exact 0 means "none at all" and is hatched.
        marked: (row, col) of a cell that is outlined for good, as the query; None for none.
        key: comes back with a click on the panel, so that its handler knows which one it was.
        shuffled: the same map of the model run with A2 shuffled (K, R, C), one a run, NaN where a run has none; taken
            away and not drawn. None where there is none.
    """

    title: str
    of: str
    values: np.ndarray
    geometry: ImageGeometry
    kind: Kind = "sequential"
    scale: str = ""
    unit: str = ""
    facts: tuple[Fact, ...] = ()
    controls: tuple[str, ...] = ()
    badges: tuple[str, ...] = ()
    message: str = ""
    zeros: bool = False
    marked: tuple[int, int] | None = None
    key: str = ""
    shuffled: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or not self.values.size:
            raise StudioError(f"A panel's values must be (R, C) and not {self.values.shape}: give one map.")
        if self.shuffled is not None and self.shuffled.shape[1:] != self.values.shape:
            raise StudioError(
                f"Maps with A2 shuffled must be (K, R, C) of the shape {self.values.shape} and not "
                f"{self.shuffled.shape}: give them as fine as the map."
            )
        for fact in self.facts:
            if len(fact.controls) not in (0, len(self.controls)):
                raise StudioError(
                    f"{fact.label!r} has {len(fact.controls)} numbers of controls and the panel {len(self.controls)} "
                    "controls: give one for each, or none."
                )


@dataclass(frozen=True)
class Table:
    """Numbers that belong to a strip and to none of its panels; taken away they are a file of their own.

    Attributes:
        name: of the file, without its ending.
        columns: what stands over them.
        rows: as many cells each; None and NaN are empty.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | None, ...], ...]


def no_map(title: str, of: str, geometry: ImageGeometry, message: str) -> MapPanel:
    """A panel that says why there is no map."""
    return MapPanel(title, of, np.full((1, 1), np.nan), geometry, message=message)


@dataclass(frozen=True)
class Strip:
    """Panels over one picture.

    Attributes:
        shown: the part of the picture that is shown, small.
        window: that part (top, left, bottom, right) in pixels of the picture.
        panels: from left to right.
        note: what is to be said of all of them, in plain text.
        classes: names of the classes, for panels of that kind.
        coloured: the classes that get a colour of their own.
        together: so many neighbours are not parted where a figure begins a new row.
        texts: words with their scores, one text a panel; () where maps say nothing of words. The browser has them in
            a component of their own.
        tables: further numbers, which the browser has in components of their own.
    """

    shown: Image.Image
    window: tuple[int, int, int, int]
    panels: tuple[MapPanel, ...]
    note: str = ""
    classes: tuple[str, ...] = ()
    coloured: tuple[int, ...] = ()
    together: int = 1
    texts: tuple[ScoredText, ...] = ()
    tables: tuple[Table, ...] = ()

    @property
    def nbytes(self) -> int:
        """What it takes in memory, the words of people apart."""
        values = [array for panel in self.panels for array in (panel.values, panel.shuffled)]
        values += [each.values for each in self.texts]
        held = sum(array.nbytes for array in values if array is not None)
        cells = sum(len(table.columns) * len(table.rows) for table in self.tables)
        return 3 * self.shown.width * self.shown.height + held + _CELL_BYTES * cells


def strip_over(
    image: Image.Image,
    panels: Sequence[MapPanel],
    note: str = "",
    classes: Sequence[str] = (),
    coloured: Sequence[int] | None = None,
    together: int = 1,
    texts: Sequence[ScoredText] = (),
) -> Strip:
    """Panels over a picture.

    Args:
        image: upright RGB, of the size that the panels' geometries name.
        panels: from left to right.
        note: what is to be said of all of them, in plain text.
        classes: names of the classes, for panels of that kind.
        coloured: the classes that get a colour of their own, as `coloured_classes` gives them for several strips that
            are to agree; those of these panels if not given.
        together: so many neighbours are not parted where a figure begins a new row.
        texts: words with their scores, one text a panel.

    Raises:
        StudioError: no panel.
    """
    if not panels:
        raise StudioError("There is no map to show: give at least one panel.")
    window = shown_window((image.height, image.width), [panel.geometry.seen_box for panel in panels])
    chosen = coloured_classes(panels, len(classes)) if coloured is None else coloured
    small, named = preview(image, window), tuple(classes)
    return Strip(small, window, tuple(panels), note, named, tuple(chosen), together, tuple(texts))


def strip_value(strip: Strip, take: str = "") -> dict[str, Any]:
    """The value of a map strip for the browser.

    Args:
        strip: what is shown.
        take: the name by which it can be taken away, "" where it cannot.
    """
    return {
        "picture": data_url(strip.shown),
        "height": strip.shown.height,
        "width": strip.shown.width,
        "panels": [_panel(panel, strip.window) for panel in strip.panels],
        "classes": list(strip.classes),
        "coloured": list(strip.coloured),
        "note": strip.note,
        "take": take,
    }


def coloured_classes(panels: Sequence[MapPanel], count: int, first: Sequence[int] = ()) -> list[int]:
    """Which of `count` classes get a colour of their own: all if there are few, else those that cover most.

    Args:
        panels: of the classes' areas; other panels do not count.
        count: of the classes.
        first: classes that come first, whatever they cover.
    """
    if count <= COLOURS:
        return list(range(count))
    area = np.zeros(count)
    for panel in panels:
        if panel.kind == "classes" and not panel.message:
            shown = panel.values[~np.isnan(panel.values)].astype(int)
            area += np.bincount(shown, minlength=count)[:count] / panel.values.size
    order = [*first, *np.argsort(-area, kind="stable").tolist()]
    return list(dict.fromkeys(order))[:COLOURS]


def _panel(panel: MapPanel, window: tuple[int, int, int, int]) -> dict[str, Any]:
    box: Box = on_preview(panel.geometry.seen_box, window)
    rows, cols = panel.values.shape
    return {
        "title": panel.title,
        "of": panel.of,
        "rows": rows,
        "cols": cols,
        "box": box,
        **_packed(panel),
        "kind": panel.kind,
        "scale": panel.scale,
        "unit": panel.unit,
        "facts": [[fact.label, fact.value, list(fact.controls), fact.meaning] for fact in panel.facts],
        "controls": list(panel.controls),
        "badges": list(panel.badges),
        "message": panel.message,
        "zeros": panel.zeros,
        "marked": None if panel.marked is None else list(panel.marked),
        "key": panel.key,
    }


def _packed(panel: MapPanel) -> dict[str, str]:
    """The values as text: bytes where they are the numbers of few classes, which may be one for each pixel."""
    values = np.asarray(panel.values, np.float32)
    if panel.kind == "classes" and np.nanmax(values, initial=0) < NO_CLASS:
        array, dtype = np.where(np.isnan(values), NO_CLASS, values).astype(np.uint8), "u1"
    else:
        array, dtype = np.ascontiguousarray(values, "<f4"), "f4"
    return {"values": base64.b64encode(array.tobytes()).decode("ascii"), "dtype": dtype}
