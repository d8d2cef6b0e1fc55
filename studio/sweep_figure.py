"""λ swept, as a figure: what the model says of the classes, and where its map's mass lies, each with its control."""

import html
from collections.abc import Sequence

import plotly.graph_objects as go

from studio.sweeping import Point, Sweep

_INK = "#84909c"
_GRID = "rgba(128,128,128,.22)"
_COLOURS = ("#3f7fd0", "#c4820e", "#c95f9f", "#0b8f88", "#8a6fd1")
CLASSES = len(_COLOURS)


def sweep_figures(sweep: Sweep) -> tuple[go.Figure | None, go.Figure | None]:
    """What the model says of the likeliest classes over λ, and the mass on objects; the control's runs are dotted.

    Of one class alone the cosine is drawn, for its probability would be 1. None where there is no class, or no mask.
    """
    classes = _figure(sweep) if sweep.labels else None
    inside = _figure(sweep) if sweep.area is not None else None
    if classes is not None:
        _add_classes(classes, sweep)
    if inside is not None:
        _add_inside(inside, sweep)
    return classes, inside


def _figure(sweep: Sweep) -> go.Figure:
    """An empty figure with the range of the learned λ as a band."""
    figure = go.Figure()
    below = html.escape(f"intervention: λ of {sweep.layers}, {sweep.tower} tower")
    title = f"{html.escape(sweep.title)}<br><sup>{below}</sup>"
    figure.update_layout(
        title={"text": title, "font": {"size": 14}},
        height=370,
        margin={"l": 52, "r": 10, "t": 56, "b": 104},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": _INK, "size": 12, "family": "IBM Plex Sans, system-ui, sans-serif"},
        legend={"orientation": "h", "y": -0.22, "yanchor": "top", "x": 0, "xanchor": "left"},
        hovermode="closest",
    )
    figure.update_xaxes(title={"text": "λ", "standoff": 4}, gridcolor=_GRID, zeroline=False)
    figure.update_yaxes(gridcolor=_GRID, zeroline=False)
    if sweep.learned is not None:
        low, high = min(sweep.learned) - 0.004, max(sweep.learned) + 0.004
        figure.add_vrect(x0=low, x1=high, fillcolor=_INK, opacity=0.16, line_width=0, layer="below")
    return figure


def sweep_words(sweeps: Sequence[Sweep | str]) -> str:
    """What stands over the figures, as HTML: the picture, what was swept, and how the lines are to be read."""
    parts = []
    done = [sweep for sweep in sweeps if isinstance(sweep, Sweep)]
    for sweep in dict.fromkeys(sweeps):
        if isinstance(sweep, str):
            parts.append(f'<p class="oc-note">{html.escape(sweep)}</p>')
    kept = [f"{sweep.title}: {' · '.join(sweep.kept)}" for sweep in done if sweep.kept]
    control = " / ".join(dict.fromkeys(sweep.control_name for sweep in done))
    read = (
        f"Intervention at each λ. Solid: with the model's own A2. Dotted: the control, {control}. Diamond: λ as "
        "learned, drawn at its mean over the layers; the grey band is its range."
    )
    if kept:
        read += f" Edits that were kept: {'; '.join(kept)}."
    picture = next((sweep.picture for sweep in done if sweep.picture), "")
    shown = f'<img class="oc-picture" src="{html.escape(picture, quote=True)}" alt="the picture">' if picture else ""
    return (
        f'<div class="oc oc-swept">{shown}<div><p class="oc-note">{html.escape(read)}</p>{"".join(parts)}</div></div>'
    )


def _add_classes(figure: go.Figure, sweep: Sweep) -> None:
    alone = len(sweep.labels) == 1
    what = "cosine similarity" if alone else "probability"
    every = (*sweep.own, sweep.at_learned)
    best = sorted(range(len(sweep.labels)), key=lambda i: -max(_value(point, i, alone) for point in every))[:CLASSES]
    for colour, index in zip(_COLOURS, best, strict=False):
        label = _plain(sweep.labels[index])
        for points, dash, said in ((sweep.own, "solid", ""), (sweep.control, "dot", f", {sweep.control_name}")):
            figure.add_trace(
                go.Scatter(
                    x=sweep.lam,
                    y=[_value(point, index, alone) for point in points],
                    name=label,
                    legendgroup=label,
                    showlegend=not said,
                    mode="lines",
                    line={"color": colour, "width": 2 if not said else 1.6, "dash": dash},
                    hovertemplate=f"{label}{said}<br>λ %{{x:.2f}}<br>{what} %{{y:.3f}}<extra></extra>",
                ),
            )
        _add_learned_point(figure, sweep, _value(sweep.at_learned, index, alone), colour)
    figure.update_yaxes(title=what)
    if not alone:
        figure.update_yaxes(range=[-0.02, 1.02])


def _add_inside(figure: go.Figure, sweep: Sweep) -> None:
    assert sweep.area is not None
    for points, dash, said in ((sweep.own, "solid", "in object"), (sweep.control, "dot", sweep.control_name)):
        figure.add_trace(
            go.Scatter(
                x=sweep.lam,
                y=[point.inside for point in points],
                name=said if points is sweep.own else f"dotted: {said}",
                mode="lines",
                line={"color": _INK, "width": 2.4 if points is sweep.own else 1.8, "dash": dash},
                hovertemplate=f"{said}<br>λ %{{x:.2f}}<br>mass in object %{{y:.3f}}<extra></extra>",
            ),
        )
    figure.add_trace(
        go.Scatter(
            x=[sweep.lam[0], sweep.lam[-1]],
            y=[sweep.area, sweep.area],
            name=f"uniform map: {sweep.area:.2f}",
            mode="lines",
            line={"color": _INK, "width": 1.2, "dash": "dash"},
            hovertemplate=f"a uniform map {sweep.area:.3f}<extra></extra>",
        ),
    )
    _add_learned_point(figure, sweep, sweep.at_learned.inside, _INK)
    figure.update_yaxes(title=f"mass in object, {sweep.map_name}", range=[-0.02, 1.02])


def _add_learned_point(figure: go.Figure, sweep: Sweep, value: float, colour: str) -> None:
    """The run with λ as learned, at the mean of the learned λ."""
    if sweep.learned is None:
        return
    figure.add_trace(
        go.Scatter(
            x=[sum(sweep.learned) / len(sweep.learned)],
            y=[value],
            mode="markers",
            marker={"color": colour, "size": 9, "symbol": "diamond"},
            showlegend=False,
            hovertemplate="λ as learned<br>%{y:.3f}<extra></extra>",
        ),
    )


def _value(point: Point, index: int, alone: bool) -> float:
    return (point.cosine if alone else point.probability)[index]


def _plain(label: str) -> str:
    """A class as plain text: Plotly reads tags and entities, and `%{}` in hover texts, and a class may hold any."""
    short = label if len(label) <= 32 else f"{label[:31]}…"
    for sign, stand_in in (("&", "＆"), ("<", "‹"), (">", "›"), ("%{", "% {"), ("$", "＄")):
        short = short.replace(sign, stand_in)
    return short
