"""A chart on the page: Plotly's figures of its plots, to be pointed at, on light and dark pages."""

import html
import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np

from studio.chart import BAND, Axis, Chart, Curve, Mark, Plot

# Plotly takes a good part of a second to import, and only what is drawn needs it: it is imported where it is used.
_INK, _GRID = "#84909c", "rgba(128,128,128,.22)"
_SIGNS = {"diamond": ("diamond", 9), "dot": ("circle", 7), "triangle": ("triangle-up", 8)}


def plot_figure(plot: Plot, height: int = 480) -> Any:
    """A figure of one plot, `height` pixels high, with its legend at the bottom."""
    import plotly.graph_objects as go

    figure = go.Figure([*_traces(plot, set())], _layout(height))
    titles, beneath = _lines(plot.title, 40), _lines(plot.subtitle, 48)
    title: dict[str, Any] = {"text": " <br>".join(titles), "font": {"size": 14}}
    title |= {"y": 1, "yref": "container", "yanchor": "top", "pad": {"t": 12}}
    if beneath:
        title["subtitle"] = {"text": " <br>".join(beneath), "font": {"size": 11}}
    above = 28 + 18 * len(titles) + 15 * len(beneath)
    figure.update_layout(title=title, margin={"l": 56, "r": 12, "t": above, "b": 44})
    figure.update_xaxes(_axis(plot.x))
    figure.update_yaxes(_axis(plot.y))
    for low, high in plot.spans:
        figure.add_vrect(x0=low, x1=high, fillcolor=_INK, opacity=0.16, line_width=0, layer="below")
    return figure


def chart_figure(chart: Chart, height: int = 250) -> Any:
    """One figure of all plots of a chart, each `height` pixels high, with one legend for all of them."""
    from plotly.subplots import make_subplots

    columns = min(chart.columns, len(chart.plots))
    rows = -(-len(chart.plots) // columns)
    titles = [plain(plot.title) for plot in chart.plots]
    figure = make_subplots(rows=rows, cols=columns, subplot_titles=titles, vertical_spacing=0.18)
    told: set[str] = set()
    for at, plot in enumerate(chart.plots):
        row, col = at // columns + 1, at % columns + 1
        figure.add_traces([*_traces(plot, told)], rows=row, cols=col)
        figure.update_xaxes(_axis(plot.x), row=row, col=col)
        figure.update_yaxes(_axis(plot.y) | {"title": None}, row=row, col=col)
    figure.update_layout(_layout(height * rows + 130), margin={"l": 48, "r": 12, "t": 34, "b": 40})
    figure.update_annotations(font={"size": 13, "color": _INK})
    return figure


def _lines(text: str, letters: int) -> list[str]:
    """A text in lines of so many letters at most, three of them; Plotly breaks none by itself, and cuts long ones."""
    return [plain(line) for line in textwrap.wrap(text, letters, max_lines=3, placeholder=" …")]


def plain(text: str) -> str:
    """A text for Plotly, which reads tags, entities, formulas between dollars, and `%{}` where values are read."""
    return html.escape(text, quote=False).replace("%{", "&#37;{").replace("$", "&#36;")


def _traces(plot: Plot, told: set[str]) -> Iterator[Any]:
    """Bands, curves and marks; what the legend has `told` already is not told again."""
    import plotly.graph_objects as go

    for curve in plot.curves:
        shared = {"legendgroup": plain(curve.group or curve.name)}
        if curve.spread is not None:
            yield _band(curve, shared)
        new = bool(curve.entry) and curve.entry not in told
        told.add(curve.entry)
        yield go.Scatter(
            x=curve.x.tolist(),
            y=[None if value != value else value for value in curve.y.tolist()],
            name=plain(curve.entry or curve.name),
            showlegend=new,
            mode="lines+markers" if curve.dots else "lines",
            line={"color": _colour(curve.colour, curve.opacity), "width": curve.width, "dash": curve.dash},
            marker={"size": 5},
            hovertemplate=_read(curve.name, plot),
            **shared,
        )
    for mark in plot.marks:
        yield _sign(mark, plot)


def _band(curve: Curve, shared: dict[str, Any]) -> Any:
    import plotly.graph_objects as go

    assert curve.spread is not None
    there = np.isfinite(curve.y) & np.isfinite(curve.spread)
    x, y, spread = curve.x[there], curve.y[there], curve.spread[there]
    return go.Scatter(
        x=[*x.tolist(), *x[::-1].tolist()],
        y=[*(y + spread).tolist(), *(y - spread)[::-1].tolist()],
        fill="toself",
        fillcolor=_colour(curve.colour, BAND),
        line={"width": 0},
        hoverinfo="skip",
        showlegend=False,
        mode="lines",
        **shared,
    )


def _sign(mark: Mark, plot: Plot) -> Any:
    import plotly.graph_objects as go

    symbol, size = _SIGNS[mark.sign]
    return go.Scatter(
        x=[mark.x],
        y=[mark.y],
        mode="markers",
        marker={"color": mark.colour, "size": size, "symbol": symbol},
        showlegend=False,
        legendgroup=plain(mark.group or mark.name),
        hovertemplate=_read(mark.name, plot),
    )


def _read(name: str, plot: Plot) -> str:
    x, y = (f"{plain(axis.label)} %{{{which}:.{axis.digits}f}}" for which, axis in (("x", plot.x), ("y", plot.y)))
    return f"{plain(name)}<br>{x}<br>{y}<extra></extra>"


def _axis(axis: Axis) -> dict[str, Any]:
    span = {} if axis.span is None else {"range": list(axis.span)}
    return {"title": {"text": plain(axis.label), "standoff": 4}, "gridcolor": _GRID, "zeroline": False, **span}


def _layout(height: int) -> dict[str, Any]:
    return {
        "height": height,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": _INK, "size": 12, "family": "IBM Plex Sans, system-ui, sans-serif"},
        "legend": {
            "orientation": "h",
            "yref": "container",
            "y": 0,
            "yanchor": "bottom",
            "font": {"size": 11},
            "tracegroupgap": 0,
        },
        "hovermode": "closest",
    }


def _colour(colour: str, opacity: float) -> str:
    if opacity >= 1:
        return colour
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"
