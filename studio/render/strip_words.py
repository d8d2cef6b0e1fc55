"""What a strip's figure says: numbers at the ends of its bars, signs of hatching, where it is from."""

from collections.abc import Sequence

import numpy as np

from studio.recipe import Picture
from studio.render.numbers import rounded
from studio.render.sources import model_line, picture_line
from studio.strip import MapPanel, Strip
from studio.tab_recipe import Style, TabRecipe

TITLES = {
    "sparsity": "Maps of sparse attention",
    "segmentation": "Segmentation",
    "explain": "Explanations",
    "intervene": "Maps before and after an intervention",
    "alpha-sweep": "Sparse attention over α",
    "lambda-sweep": "λ swept",
    "duel": "A duel of maps",
    "text": "What tokens read",
    "lambda": "λ over training",
}


def short(value: float) -> str:
    """A value as the page's bars write it: four significant digits or less, with a true minus sign."""
    size = abs(value)
    if value == 0:
        return "0"
    if size < 5e-5:
        mantissa, _, exponent = f"{value:.1e}".partition("e")
        return f"{mantissa}e{int(exponent)}".replace("-", "−")
    return rounded(value, 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 4)


def bar_words(panel: MapPanel, top: float, style: Style) -> tuple[tuple[str, str, str], str]:
    """((low end, middle, high end), what the bar counts) of the range that a panel shares; `top` is its end."""
    bend = "square-root ramp" if style.ramp == "root" else "linear ramp"
    said = ", ".join(filter(None, [": ".join(filter(None, [panel.scale, panel.unit])), bend]))
    signed = panel.kind == "signed"
    if not top:
        return ("", "0", "") if signed else ("0", "", ""), f"0 everywhere · {said}"
    sign = " ×" if panel.unit.startswith("×") else " %" if panel.unit == "%" else ""
    end = f"{short(top)}{sign}"
    return (f"−{end}", "0", f"+{end}") if signed else ("0", "", end), said


def caption_of(strip: Strip, recipe: TabRecipe, note: str) -> list[str]:
    """The lines below the panels, `note` last; what does not concern this figure is not said."""
    drawn = [panel for panel in strip.panels if not panel.message]
    picture, style = recipe.over
    lines = [*strip.note.split("\n"), f"{_drawing(drawn, style)} {_signs(strip, picture, drawn)}"]
    lines += [model_line(found) for found in recipe.models if found.name in recipe.settings.shown]
    lines.append(picture_line(picture, strip.window))
    return [line for line in (text.strip() for text in (*lines, note)) if line]


def _drawing(drawn: Sequence[MapPanel], style: Style) -> str:
    coloured = any(panel.kind != "classes" for panel in drawn)
    said = [f"Colours at {100 * style.opacity:.0f} % over the picture in grey."]
    if coloured and style.drawing == "smooth":
        said.append(
            "Smooth drawing: values between patch centres are interpolated, there are no such values in the model."
        )
    elif coloured:
        said.append("One colour a value; panels of one scale share its range.")
    return " ".join(said)


def _signs(strip: Strip, picture: Picture, drawn: Sequence[MapPanel]) -> str:
    """What hatching means where there is any."""
    lines = []
    if any(panel.zeros and (panel.values == 0).any() for panel in drawn):
        lines.append("Fine hatching without colour: exactly 0.")
    if any(panel.kind != "classes" and np.isnan(panel.values).any() for panel in drawn):
        lines.append("Dark hatching inside a map: no value there.")
    if any(panel.kind == "classes" and np.isnan(panel.values).any() for panel in drawn):
        lines.append("Dark hatching inside a map: no class, which is ground or what was not typed.")
    if any(panel.kind == "sequential" and (panel.values < 0).any() for panel in drawn):
        lines.append("Negative values on a scale from 0 are drawn by their magnitude.")
    whole = (0.0, 0.0, float(picture.height), float(picture.width))
    boxes = [panel.geometry.seen_box for panel in strip.panels]
    if any(max(abs(a - b) for a, b in zip(box, whole, strict=True)) > 0.5 for box in boxes):
        lines.append("Dark and hatched: cropped away, the model never saw it.")
    return " ".join(lines)
