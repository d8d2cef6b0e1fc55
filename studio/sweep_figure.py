"""λ swept, as a chart: what the model says of the classes, and where its map's mass lies, each with its control."""

import html
from collections.abc import Sequence

import numpy as np

from studio.chart import Axis, Cell, Chart, Curve, Dash, Mark, Plot, Table
from studio.sweeping import Point, Sweep

_INK = "#84909c"
_COLOURS = ("#3f7fd0", "#c4820e", "#c95f9f", "#0b8f88", "#8a6fd1")
CLASSES = len(_COLOURS)
_SHARE = (-0.02, 1.02)  # of an axis of shares: a line at 0 or 1 is to be seen
_LONGEST = 32  # characters of a class in a legend
_COLUMNS = (
    *("model", "title", "tower", "swept", "lambda", "measure", "class"),
    *("value", "control", "control_is", "uniform_map"),
)


def sweep_chart(results: Sequence[Sweep | str]) -> Chart | None:
    """The curves of all models that were swept; None where there is neither a class nor a mask.

    Args:
        results: the sweeps, and for each model without one the sentence that says why.
    """
    sweeps = [each for each in results if isinstance(each, Sweep)]
    unswept = list(dict.fromkeys(each for each in results if isinstance(each, str)))
    plots = tuple(plot for sweep in sweeps for plot in sweep_plots(sweep) if plot is not None)
    if not plots:
        return None
    steps = f"λ from {sweeps[0].lam[0]:g} to {sweeps[0].lam[-1]:g}"
    return Chart(
        f"{steps}, {sweeps[0].tower} tower, the model run at each step",
        plots,
        (_read(sweeps), *_kept(sweeps), *unswept),
        {name: values for at, sweep in enumerate(sweeps) for name, values in _arrays(at, sweep).items()},
        Table(
            _COLUMNS,
            (
                *(row for at, sweep in enumerate(sweeps) for row in _rows(at, sweep)),
                *(_unswept(sweeps[0].tower, why) for why in unswept),
            ),
        ),
    )


def sweep_plots(sweep: Sweep) -> tuple[Plot | None, Plot | None]:
    """What the model says of the likeliest classes over λ, and the mass on objects; the control's runs are dotted.

    Of one class alone the cosine is drawn, for its probability would be 1. None where there is no class, or no mask.
    """
    return _classes(sweep) if sweep.labels else None, None if sweep.area is None else _inside(sweep, sweep.area)


def sweep_words(sweeps: Sequence[Sweep | str]) -> str:
    """What stands over the figures, as HTML: the picture, what was swept, and how the lines are to be read."""
    parts = []
    done = [sweep for sweep in sweeps if isinstance(sweep, Sweep)]
    for sweep in dict.fromkeys(sweeps):
        if isinstance(sweep, str):
            parts.append(f'<p class="oc-note">{html.escape(sweep)}</p>')
    read = " ".join([_read(done), *_kept(done)])
    picture = next((sweep.picture for sweep in done if sweep.picture), "")
    shown = f'<img class="oc-picture" src="{html.escape(picture, quote=True)}" alt="the picture">' if picture else ""
    return (
        f'<div class="oc oc-swept">{shown}<div><p class="oc-note">{html.escape(read)}</p>{"".join(parts)}</div></div>'
    )


def _read(sweeps: Sequence[Sweep]) -> str:
    control = " / ".join(dict.fromkeys(sweep.control_name for sweep in sweeps))
    own = " / ".join(dict.fromkeys(sweep.own_name for sweep in sweeps))
    idle = [sweep.title for sweep in sweeps if sweep.idle]
    same = f" Of {', '.join(idle)} both are the same runs, for the edits put that A2 in." if idle else ""
    most = max((len(sweep.labels) for sweep in sweeps), default=0)
    few = " Probabilities are among these classes only." if most > 1 else ""
    if most > CLASSES:
        few = f" Probabilities are among {most} classes, of which the {CLASSES} likeliest at some λ are drawn."
    return (
        f"Intervention at each λ. Solid: with {own}. Dotted: the control, {control}.{same} Diamond: λ as "
        f"learned, drawn at its mean over the layers; the grey band is its range.{few}"
    )


def _kept(sweeps: Sequence[Sweep]) -> list[str]:
    kept = [f"{sweep.title}: {' · '.join(sweep.kept)}" for sweep in sweeps if sweep.kept]
    return [f"Edits that were kept: {'; '.join(kept)}."] if kept else []


def _classes(sweep: Sweep) -> Plot:
    alone = len(sweep.labels) == 1
    what = "cosine similarity" if alone else "probability"
    every = (*sweep.own, sweep.at_learned)
    best = sorted(range(len(sweep.labels)), key=lambda i: -max(_value(point, i, alone) for point in every))[:CLASSES]
    curves: list[Curve] = []
    marks: list[Mark] = []
    for colour, index in zip(_COLOURS, best, strict=False):
        label = _short(sweep.labels[index])
        runs: tuple[tuple[tuple[Point, ...], Dash, str], ...] = (
            (sweep.own, "solid", ""),
            (sweep.control, "dot", f", {sweep.control_name}"),
        )
        for points, dash, said in runs:
            y = [_value(point, index, alone) for point in points]
            curves.append(
                Curve(
                    f"{label}{said}",
                    np.array(sweep.lam),
                    np.array(y),
                    colour,
                    dash,
                    1.6 if said else 2.0,
                    legend="" if said else label,
                    group=label,
                )
            )
        marks += _learned(sweep, _value(sweep.at_learned, index, alone), colour, label)
    return _plot(sweep, Axis(what, 3, None if alone else _SHARE), curves, marks)


def _inside(sweep: Sweep, area: float) -> Plot:
    lam, ends = np.array(sweep.lam), np.array([sweep.lam[0], sweep.lam[-1]])
    own, control = (np.array([point.inside for point in points]) for points in (sweep.own, sweep.control))
    dotted = f"dotted: {sweep.control_name}"
    curves = [
        Curve("in object", lam, own, _INK, "solid", 2.4),
        Curve(sweep.control_name, lam, control, _INK, "dot", 1.8, legend=dotted),
        Curve("a uniform map", ends, np.array([area, area]), _INK, "dash", 1.2, legend=f"uniform map: {area:.2f}"),
    ]
    marks = _learned(sweep, sweep.at_learned.inside, _INK, "in object")
    return _plot(sweep, Axis(f"mass in object, {sweep.map_name}", 3, _SHARE), curves, marks)


def _plot(sweep: Sweep, y: Axis, curves: Sequence[Curve], marks: Sequence[Mark]) -> Plot:
    """With the range of the learned λ as a band."""
    below = f"intervention: λ of {sweep.layers}, {sweep.tower} tower"
    spans = () if sweep.learned is None else ((min(sweep.learned) - 0.004, max(sweep.learned) + 0.004),)
    return Plot(sweep.title, Axis("λ"), y, tuple(curves), tuple(marks), spans, below)


def _learned(sweep: Sweep, value: float, colour: str, group: str) -> list[Mark]:
    """The run with λ as learned, at the mean of the learned λ."""
    if sweep.learned is None:
        return []
    mean = sum(sweep.learned) / len(sweep.learned)
    return [Mark(mean, value, colour, f"{group}, λ as learned", "diamond", group)]


def _value(point: Point, index: int, alone: bool) -> float:
    return (point.cosine if alone else point.probability)[index]


def _short(label: str) -> str:
    return label if len(label) <= _LONGEST else f"{label[: _LONGEST - 1]}…"


def _arrays(at: int, sweep: Sweep) -> dict[str, np.ndarray]:
    """Of one model: `model0_lambda` (S,), its runs with and without its own A2 (S, P), and the run as learned (P,)."""
    found = {"lambda": np.array(sweep.lam)}
    for name, points in (("", sweep.own), ("control_", sweep.control), ("at_learned_", (sweep.at_learned,))):
        found |= {
            f"{name}cosine": np.array([point.cosine for point in points]),
            f"{name}probability": np.array([point.probability for point in points]),
            f"{name}inside": np.array([point.inside for point in points]),
        }
    if sweep.learned is not None:
        found["learned_lambda"] = np.array(sweep.learned)
    return {f"model{at}_{name}": values for name, values in found.items()}


def _unswept(tower: str, why: str) -> tuple[Cell, ...]:
    """The line of a model that has no curve, so that who counts on knows of it."""
    return (None, "", tower, "", None, f"not swept: {why}", "", None, None, "", None)


def _rows(at: int, sweep: Sweep) -> list[tuple[Cell, ...]]:
    """A line for each run and number, with that of the control's run; the run with λ as learned first."""
    rows: list[tuple[Cell, ...]] = []
    start = (at, sweep.title, sweep.tower, sweep.layers)
    runs = zip(("learned", *sweep.lam), (sweep.at_learned, *sweep.own), (None, *sweep.control), strict=True)
    for lam, point, control in runs:
        name = "" if control is None else sweep.control_name
        for index, label in enumerate(sweep.labels):
            for measure in ("cosine", "probability"):
                beside = None if control is None else getattr(control, measure)[index]
                rows.append((*start, lam, measure, label, getattr(point, measure)[index], beside, name, None))
        if sweep.area is not None:
            beside = None if control is None else control.inside
            measure = f"mass in object, {sweep.map_name}"
            rows.append((*start, lam, measure, "", point.inside, beside, name, sweep.area))
    return rows
