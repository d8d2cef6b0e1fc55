"""What a figure says of itself, in headers, colour bars and the lines below: it must be understood without the page."""

from collections.abc import Sequence

from studio.recipe import Recipe, View
from studio.render.numbers import RUNS_SAID, SHUFFLES_SAID, numbers_of, rounded
from studio.render.ranges import Shown, unit, written
from studio.render.sources import model_line, picture_line

_NORMALIZERS = {1.0: "softmax", 1.5: "1.5-entmax", 2.0: "sparsemax"}
_SCALES = {
    "raw": "raw values",
    "uniform": "weights are given × uniform, that is times the number of tokens",
    "row": "each {line} is divided by the sum of its magnitudes, prefix tokens included",
}


def heading(panel: Shown) -> tuple[str, str, str]:
    """(map, model, a remark) over a panel."""
    reading = panel.reading
    heads = reading.look.model.vision.heads
    head = f"mean of {heads} heads" if reading.panel.head == "mean" else f"head {reading.panel.head} of {heads}"
    if reading.group == "relevance":
        head = "all heads"
    remark = f"{head}; signed, own range" if reading.signed else f"{head}; own range" if reading.panel.own else head
    if reading.panel.kind == "subtracted" and bool((reading.row < 0).any()):
        remark = f"{head}; λ < 0: added, size drawn"
    return reading.name, reading.look.model.title, remark


def map_names(shown: Sequence[Shown]) -> str:
    """The maps' names, each once, in words."""
    names = list(dict.fromkeys(panel.reading.name for panel in shown))
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def bar_text(view: View, panels: Sequence[Shown]) -> tuple[tuple[str, str, str], str]:
    """((low end, middle, high end), what the bar counts and for which panels)."""
    reading, top = panels[0].reading, panels[0].top
    end = written(view, top)
    bend = "square-root ramp" if view.ramp == "root" else "linear ramp"
    said = f"{map_names(panels)}: {unit(view, reading.group)}, {bend}"
    if len(panels) > 1:
        said = f"one range for {said}"
    return (f"−{end}", "0", f"+{end}") if reading.signed else ("0", "", end), said


def caption_lines(recipe: Recipe, shown: Sequence[Shown], window: tuple[int, int, int, int], note: str) -> list[str]:
    """The lines below the panels; what does not concern this figure is not said."""
    view = recipe.view
    shown = [panel for panel in shown if not panel.reading.message]
    lines = [_place(view, shown), _run(view, shown)]
    lines += [_scale(view), *_aside(view, shown)]
    if any(panel.reading.signed for panel in shown):
        lines.append(
            "The norm behind a differential head (DIFF V2 alone has none) makes the size of a row irrelevant: compare "
            f"shape and sign of A1 − λA2, not brightness. {SHUFFLES_SAID}."
        )
    elif any(panel.reading.control for panel in shown if panel.reading.group != "relevance"):
        lines.append(f"{SHUFFLES_SAID}.")
    if any(panel.reading.control for panel in shown if panel.reading.group == "relevance"):
        lines.append(f"{RUNS_SAID}.")
    lines += _signs(recipe, shown)
    models = dict.fromkeys(panel.reading.panel.model for panel in shown)
    lines += [model_line(recipe.found(name), view.layer) for name in models]
    lines.append(picture_line(recipe.picture, window))
    return [line for line in [*lines, note] if line]


def _place(view: View, shown: Sequence[Shown]) -> str:
    readings = [panel.reading for panel in shown if panel.reading.group != "relevance"]
    if not readings:
        return ""
    which = " / ".join(dict.fromkeys(reading.query for reading in readings))
    if view.direction == "read by":
        return f"Layer {view.layer} (from 0) · each patch shows how much it reads {which} (column of the map)."
    return f"Layer {view.layer} (from 0) · each patch shows how much {which} reads it (row of the map)."


def _run(view: View, shown: Sequence[Shown]) -> str:
    said = []
    if any(panel.reading.group != "relevance" for panel in shown):
        alpha = _NORMALIZERS.get(view.alpha, f"{view.alpha:g}-entmax")
        if view.alpha == 1 and view.source == "qk":
            said.append("Readout: maps as the models made them in an unmodified run (softmax, QK).")
        else:
            said.append(
                f"Readout with {alpha} (α = {view.alpha:g}) and source {view.source}: recomputed from the unmodified "
                "run, in which the models used softmax and QK."
            )
    if any(panel.reading.group == "relevance" for panel in shown):
        first = "the last layer alone" if view.from_layer is None else f"layers from {view.from_layer} on"
        said.append(
            f"Relevance to “{view.text}”: map × gradient of the cosine similarity, positive products, mean over heads, "
            f"{first}; it does not depend on layer, head or query."
        )
    return " ".join(said)


def _scale(view: View) -> str:
    smooth = (
        "Smooth drawing: values between patch centres are interpolated, there are no such values in the model."
        if view.drawing == "smooth"
        else "One colour a patch."
    )
    line = "column" if view.direction == "read by" else "row"
    scale = _SCALES[view.scale].format(line=line)
    return f"Scale: {scale}; colours at {100 * view.opacity:.0f} % over the picture in grey. {smooth}"


def _aside(view: View, shown: Sequence[Shown]) -> list[str]:
    """What the ranges leave out, and what relevance does: nothing is set aside in silence."""
    return [*_range_leaves_out(view, shown), *_relevance_leaves_out(shown)]


def _range_leaves_out(view: View, shown: Sequence[Shown]) -> list[str]:
    if view.set_aside == "prefix":
        numbers = [number for panel in shown if panel.reading.prefix for number in numbers_of(panel.reading)]
        labels = "” or “".join(dict.fromkeys(number.label for number in numbers if number.measure == "cls"))
        said = f"The ranges cover patches only. How much lies on CLS and registers is the number “{labels}”."
        return [said] if labels else []
    maps = [panel for panel in shown if panel.reading.group != "relevance"]
    if not maps:  # relevance has patches alone: no prefix, no sinks, and no readers
        return []
    if view.set_aside == "none":
        return ["The ranges cover all tokens, also CLS and registers, which are no patches and so are not drawn."]
    if view.direction == "read by":
        return ["Sinks are tokens that most queries read; among readers there are none, so none is set aside."]
    parts = [
        f"{panel.reading.name} of {panel.reading.look.model.title}: {panel.left_out} with "
        f"{rounded(100 * panel.share, 0)} % of the row"
        for panel in maps
    ]
    return [
        "Set aside from the ranges and hatched dark on light: sinks, tokens that receive over 3 × uniform from all "
        f"queries; {'; '.join(parts)}."
    ]


def _relevance_leaves_out(shown: Sequence[Shown]) -> list[str]:
    if not any(panel.reading.group == "relevance" and panel.reading.grid.prefix for panel in shown):
        return []
    return ["Only the relevance of patches is drawn and counted; what fell on CLS and registers is left out."]


def _signs(recipe: Recipe, shown: Sequence[Shown]) -> list[str]:
    lines = []
    if any(((panel.values == 0) & ~panel.aside).any() for panel in shown):
        lines.append("Fine hatching without colour: exactly 0.")
    sizes = {panel.reading.look.geometry.seen_box for panel in shown}
    whole = (0.0, 0.0, float(recipe.picture.height), float(recipe.picture.width))
    if any(max(abs(a - b) for a, b in zip(box, whole, strict=True)) > 0.5 for box in sizes):
        lines.append("Dark and hatched: cropped away, the model never saw it.")
    return [" ".join(lines)] if lines else []
