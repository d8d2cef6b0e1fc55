"""λ over training as a chart: a plot for each tower and quantity, a line for each layer and run, its numbers."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from models import StudioError
from studio.chart import Axis, Cell, Chart, Curve, Dash, Mark, Plot, Table, faded
from studio.lambda_recipe import LambdaStyle
from studio.lambdas import LambdaRuns, Run
from studio.runlog import TOWERS, TowerLambdas

COLUMNS = ("run", "title", "tower", "layer", "step", "samples", "lambda", "term_one", "term_two", "lambda_init")
QUANTITIES = {"lam": "λ", "one": "exp(λq1·λk1)", "two": "exp(λq2·λk2)"}
AXES = {"samples": "pictures seen", "steps": "optimiser steps"}
# From blue to ochre by depth, as in the page's viewer/lambda_scales.js.
DEPTH = ((63, 127, 208), (138, 111, 209), (201, 95, 159), (224, 118, 90), (196, 130, 14))
DASHES: tuple[Dash, ...] = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_INK, _GREY, _ACCENT, _PALE = "#1f2933", "#6f7b86", "#0b6e8a", 0.12
_NOTCH = 0.012  # of the axis: a short stroke at its left
_HEADING = "λ of each layer over training"
_FORMULA = (
    "λ is exp(λq1·λk1) − exp(λq2·λk2) + λ_init in each layer, one number for all heads and for every picture. Colour "
    "is the layer, from blue for 0 to ochre for the last; the number at the end of a line is its layer; dashes are the "
    "run. Plots of one quantity share one scale."
)


def lambda_chart(shown: LambdaRuns, style: LambdaStyle) -> Chart:
    """The chart of runs.

    Args:
        shown: the runs, of which those are drawn that the style does not hide.
        style: what of them is drawn.

    Raises:
        StudioError: every run is hidden, or none has a λ to draw.
    """
    curved = [run for run in shown.runs if run.curved]
    dashes: dict[str, Dash] = {run.key: DASHES[at % len(DASHES)] for at, run in enumerate(curved)}
    drawn = [run for at, run in enumerate(shown.runs) if run.curved and at not in style.hidden]
    if not drawn:
        raise StudioError("No run with a λ is shown: choose one that has, or show one that is hidden.")
    towers = [name for name in TOWERS if any(_logged(run, name) or name in run.final for run in drawn)]
    span = (0.0, max([1.0, *(_last(run, style) for run in drawn)]))
    plots = [
        _plot(drawn, dashes, tower, quantity, style, span) for quantity in _quantities(drawn, style) for tower in towers
    ]
    hidden = [run.title for at, run in enumerate(shown.runs) if run.curved and at in style.hidden]
    notes = (*_notes(drawn, style), *_sources(shown.runs))
    left_out = (f"Not drawn: {', '.join(hidden)}.",) if hidden else ()
    table = Table(COLUMNS, tuple(_rows(shown.runs)))
    return Chart(_HEADING, tuple(plots), (*notes, *left_out), lambda_arrays(shown), table, max(1, len(towers)))


def lambda_arrays(shown: LambdaRuns) -> dict[str, np.ndarray]:
    """All series, of hidden runs too, in float64: S logged steps, L layers.

    `run0_vision_steps` and `run0_vision_samples` (S,), `run0_vision_lambda` (S, L); where the log holds its
    terms, `run0_vision_term_one` and `run0_vision_term_two` (S, L) and `run0_vision_lambda_init` (L,); of a run without
    a log `run0_vision_final` (L,).
    """
    arrays: dict[str, np.ndarray] = {}
    for at, run in enumerate(shown.runs):
        for tower in TOWERS:
            logged, start = _logged(run, tower), f"run{at}_{tower}"
            if logged is None:
                arrays |= {f"{start}_final": np.array(run.final[tower])} if tower in run.final else {}
                continue
            arrays |= {f"{start}_steps": np.array(logged.steps), f"{start}_samples": np.array(logged.samples)}
            arrays[f"{start}_lambda"] = np.array(logged.lam)
            if logged.terms is not None:
                terms, init = np.array(logged.terms), logged.lambda_init()
                arrays |= {f"{start}_term_one": terms[..., 0], f"{start}_term_two": terms[..., 1]}
                arrays[f"{start}_lambda_init"] = np.array(init)
    return arrays


def _rows(runs: Sequence[Run]) -> Iterator[tuple[Cell, ...]]:
    """A line for each logged step and layer; of a run without a log one for each layer, without a step."""
    for at, run in enumerate(runs):
        for tower in TOWERS:
            logged = _logged(run, tower)
            if logged is None:
                for layer, value in enumerate(run.final.get(tower, ())):
                    yield at, run.title, tower, layer, None, None, value, None, None, None
                continue
            init = logged.lambda_init() or (None,) * logged.layers
            for index, (step, samples) in enumerate(zip(logged.steps, logged.samples, strict=True)):
                for layer, value in enumerate(logged.lam[index]):
                    one, two = logged.terms[index][layer] if logged.terms else (None, None)
                    yield at, run.title, tower, layer, step, samples, value, one, two, init[layer]


def _logged(run: Run, tower: str) -> TowerLambdas | None:
    found = run.log.towers[tower] if run.log is not None else None
    return found if found is not None and found.lam else None


def _quantities(drawn: Sequence[Run], style: LambdaStyle) -> list[str]:
    known = any(logged.terms for run in drawn for tower in TOWERS if (logged := _logged(run, tower)) is not None)
    return list(QUANTITIES) if style.terms and known else ["lam"]


def _places(logged: TowerLambdas, style: LambdaStyle) -> np.ndarray:
    return np.array(logged.samples if style.axis == "samples" else logged.steps, np.float64)


def _last(run: Run, style: LambdaStyle) -> float:
    found = [_places(logged, style)[-1] for tower in TOWERS if (logged := _logged(run, tower)) is not None]
    return float(max(found, default=0.0))


def _series(logged: TowerLambdas, quantity: str) -> np.ndarray | None:
    """Values (S, L) of a quantity, None where the log does not hold it."""
    if quantity == "lam":
        return np.array(logged.lam)
    return None if logged.terms is None else np.array(logged.terms)[..., ("one", "two").index(quantity)]


def span_of(drawn: Sequence[Run], quantity: str) -> tuple[float, float]:
    """The range of a quantity over both towers and all drawn runs, with room at both ends."""
    found: list[float] = []
    for run in drawn:
        for tower in TOWERS:
            logged = _logged(run, tower)
            series = None if logged is None else _series(logged, quantity)
            found += [] if series is None else series.ravel().tolist()
            if quantity == "lam":
                found += run.final.get(tower, ()) if logged is None else logged.lambda_init() or ()
    low, high = (min(found), max(found)) if found else (0.0, 1.0)
    room = max((high - low) * 0.07, 0.02)
    return low - room, high + room


def _plot(
    drawn: Sequence[Run],
    dashes: dict[str, Dash],
    tower: str,
    quantity: str,
    style: LambdaStyle,
    x_span: tuple[float, float],
) -> Plot:
    y_span = span_of(drawn, quantity)
    curves: list[Curve] = _legend(drawn, dashes, y_span) if quantity == "lam" else []
    marks: list[Mark] = []
    if quantity == "lam" and y_span[0] < 1 < y_span[1]:
        curves.append(Curve("λ = 1", np.array(x_span), np.ones(2), _GREY, "dot", 1.2, legend=""))
    for run in drawn:
        logged = _logged(run, tower)
        if logged is None:
            found = _finals(run, tower, style, x_span[1]) if quantity == "lam" else []
            curves += [curve for curve, _ in found]
            marks += [mark for _, mark in found]
            continue
        curves += _inits(logged, style, x_span[1]) if quantity == "lam" else []
        series, places = _series(logged, quantity), _places(logged, style)
        if series is None:
            continue
        for layer, line in enumerate(series.T):
            colour, opacity, name = (
                layer_colour(layer, logged.layers),
                _opacity(layer, style),
                f"{run.title}, layer {layer}",
            )
            look: dict[str, Any] = {"opacity": opacity, "legend": "", "group": run.key, "end": str(layer)}
            curves.append(Curve(name, places, line, colour, dashes[run.key], **look))
            if len(places) == 1:  # no line
                marks.append(Mark(float(places[0]), float(line[0]), faded(colour, opacity), name, "dot", run.key))
        steps = np.array(logged.steps)
        for kept in run.kept:
            place = float(places[int(np.abs(steps - kept.step).argmin())])
            marks.append(Mark(place, y_span[0], _ACCENT, f"checkpoint of step {kept.step}", "triangle"))
    label = QUANTITIES[quantity]
    return Plot(
        f"{tower} tower", Axis(AXES[style.axis], 0, x_span), Axis(label, 3, y_span), tuple(curves), tuple(marks)
    )


def _legend(drawn: Sequence[Run], dashes: dict[str, Dash], y_span: tuple[float, float]) -> list[Curve]:
    """Lines of no points, for the legend alone: runs in ink, since colours are layers; the same on all plots."""

    def told(name: str, colour: str, dash: Dash, width: float, group: str = "") -> Curve:
        return Curve(name, np.zeros(0), np.zeros(0), colour, dash, width, group=group)

    logs = [logged for run in drawn for tower in TOWERS if (logged := _logged(run, tower)) is not None]
    found = [told(run.title, _INK, dashes[run.key], 2.0, run.key) for run in drawn]
    if any(_shared(logged.lambda_init()) for logged in logs):
        found.append(told("λ_init", _GREY, "solid", 0.9))
    if y_span[0] < 1 < y_span[1]:
        found.append(told("λ = 1: rows sum to 0", _GREY, "dot", 1.2))
    return found


def _shared(init: tuple[float, ...] | None) -> bool:
    """Whether all layers have one λ_init."""
    return init is not None and max(init) - min(init) < 1e-3


def _finals(run: Run, tower: str, style: LambdaStyle, right: float) -> list[tuple[Curve, Mark]]:
    """Dots at the right edge, of a run whose last λ alone is known; each with its layer's number."""
    values = run.final.get(tower, ())
    found = []
    for layer, value in enumerate(values):
        colour, opacity = layer_colour(layer, len(values)), _opacity(layer, style)
        name, place = f"{run.title}, layer {layer}", np.array([right])
        bare = Curve(name, place, np.array([value]), colour, opacity=opacity, legend="", group=run.key, end=str(layer))
        found.append((bare, Mark(right, value, faded(colour, opacity), name, "dot", run.key)))
    return found


def _inits(logged: TowerLambdas, style: LambdaStyle, right: float) -> list[Curve]:
    """λ_init as one thin line where all layers share it, else as a stroke at the left for each."""
    init = logged.lambda_init() or ()
    if init and _shared(init):
        ends = np.array([0.0, right])
        return [Curve("λ_init", ends, np.full(2, init[0]), _GREY, "solid", 0.9, legend="")]
    ends = np.array([0.0, _NOTCH * right])
    return [
        Curve(
            f"λ_init of layer {layer}",
            ends,
            np.full(2, value),
            layer_colour(layer, len(init)),
            width=4.5,
            opacity=_opacity(layer, style),
            legend="",
        )
        for layer, value in enumerate(init)
    ]


def layer_colour(layer: int, layers: int) -> str:
    """The colour of a layer by its depth."""
    place = layer / max(1, layers - 1) * (len(DEPTH) - 1)
    below = min(len(DEPTH) - 2, int(place))
    mixed = [
        round(low + (high - low) * (place - below)) for low, high in zip(DEPTH[below], DEPTH[below + 1], strict=True)
    ]
    return "#" + "".join(f"{value:02x}" for value in mixed)


def _opacity(layer: int, style: LambdaStyle) -> float:
    return 1.0 if style.layer in (None, layer) else _PALE


def _notes(drawn: Sequence[Run], style: LambdaStyle) -> list[str]:
    """How the chart is read; what it does not show is not said."""
    logs = [logged for run in drawn for tower in TOWERS if (logged := _logged(run, tower)) is not None]
    said = [_FORMULA]
    if style.layer is not None:
        said.append(f"Layer {style.layer} is drawn in full colour, the others are pale.")
    if any(each.lambda_init() and not _shared(each.lambda_init()) for each in logs):
        said.append("Strokes at the left: λ_init of each layer.")
    if any(run.kept and run.log is not None for run in drawn):
        said.append("Triangles: steps of which a checkpoint was kept.")
    if any(run.final for run in drawn):
        said.append("Dots at the right edge: only the last λ is known.")
    return [said[0], *([" ".join(said[1:])] if said[1:] else [])]


def _sources(runs: Sequence[Run]) -> list[str]:
    """A line for each run: where its λ is from, and what there is to say of it."""
    lines = []
    for run in runs:
        log = []
        if run.log is not None:
            step, samples = run.log.last
            points = max(len(tower.steps) for tower in run.log.towers.values())
            log = [f"log sha256 {run.log.sha256[:12]}", f"last step {step:,}, {samples:,} pictures"]
            log += [f"{points} logged steps drawn"] if points else []
        lines.append(" · ".join([run.title, *log, *filter(None, [run.said])]))
    return lines
