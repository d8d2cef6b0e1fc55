"""What a figure says of itself, in headers, colour bars and the lines below: it must be understood without the page."""

from collections.abc import Sequence

from studio.recipe import Recipe, View
from studio.render.numbers import SHUFFLES_SAID, rounded
from studio.render.ranges import Shown, unit, written

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


def caption_lines(
    recipe: Recipe, shown: Sequence[Shown], window: tuple[int, int, int, int], size: tuple[int, int], note: str
) -> list[str]:
    """The lines below the panels; what does not concern this figure is not said."""
    view = recipe.view
    shown = [panel for panel in shown if not panel.reading.message]
    lines = [_place(view, shown), _run(view, shown)]
    lines += [_scale(view), *_aside(view, shown)]
    if any(panel.reading.signed for panel in shown):
        lines.append(
            "The norm behind a differential head makes the size of a row irrelevant: compare shape and sign of "
            f"A1 − λA2, not brightness. {SHUFFLES_SAID}."
        )
    elif any(panel.reading.control for panel in shown):
        lines.append(f"{SHUFFLES_SAID}.")
    lines += _signs(recipe, shown)
    lines += [_model(recipe, name) for name in dict.fromkeys(panel.reading.panel.model for panel in shown)]
    lines.append(_picture(recipe, window, size))
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
    return f"Scale: {_SCALES[view.scale].format(line=line)}; colours at 75 % over the picture in grey. {smooth}"


def _aside(view: View, shown: Sequence[Shown]) -> list[str]:
    """What the ranges leave out; nothing is said of the prefix alone, which has no place on the picture."""
    if view.set_aside == "prefix":
        return []
    if view.set_aside == "none":
        return ["The ranges cover all tokens, also CLS and registers, which are no patches and so are not drawn."]
    if view.direction == "read by":
        return ["Sinks are tokens that most queries read; among readers there are none, so none is set aside."]
    parts = [
        f"{panel.reading.name} of {panel.reading.look.model.title}: {panel.left_out} with "
        f"{rounded(100 * panel.share, 0)} % of the row"
        for panel in shown
    ]
    return [
        "Set aside from the ranges and hatched dark on light: sinks, tokens that receive over 3 × uniform from all "
        f"queries; {'; '.join(parts)}."
    ]


def _signs(recipe: Recipe, shown: Sequence[Shown]) -> list[str]:
    lines = []
    if any(((panel.values == 0) & ~panel.aside).any() for panel in shown):
        lines.append("Fine hatching without colour: exactly 0.")
    sizes = {panel.reading.look.geometry.seen_box for panel in shown}
    whole = (0.0, 0.0, float(recipe.picture.height), float(recipe.picture.width))
    if any(max(abs(a - b) for a, b in zip(box, whole, strict=True)) > 0.5 for box in sizes):
        lines.append("Dark and hatched: cropped away, the model never saw it.")
    return [" ".join(lines)] if lines else []


def _model(recipe: Recipe, name: str) -> str:
    found, layer = recipe.found(name), recipe.view.layer
    digest = f"weights sha256 {found.sha256[:12]}" if found.sha256 else "weight file no longer at hand"
    height, width = found.preprocess.input_size
    how = "squashed" if found.preprocess.mode == "squash" else "short side, centre crop"
    lam = f" · λ of layer {layer} {rounded(found.lam[layer], 4)}" if found.lam and layer < len(found.lam) else ""
    assumed = f" · assumed: {'; '.join(found.assumed)}" if found.assumed else ""
    return f"{found.title} · {digest} · input {width} × {height}, {how}, {found.preprocess.interpolation}{lam}{assumed}"


def _picture(recipe: Recipe, window: tuple[int, int, int, int], size: tuple[int, int]) -> str:
    picture = recipe.picture
    shown = window[2] - window[0], window[3] - window[1]
    part = "" if shown == size else f", shown are the {shown[1]} × {shown[0]} around what the models saw"
    named = f"{picture.name} · " if picture.name else ""
    return f"Picture · {named}{picture.width} × {picture.height}{part} · sha256 of its pixels {picture.sha256[:12]}…"
