"""What a duel of maps found, as figures and as a table with its controls beside every area."""

import html
from collections.abc import Sequence
from typing import Any

from studio.duel import CONTROLS, DIFFERENCE, RANDOM, SHUFFLED, Curves, Side

_INK, _GRID = "#84909c", "rgba(128,128,128,.22)"
# Of one model's hue and of clearly different lightness and dash, so that neither hue nor dash alone has to tell.
_HUES = (("#c4601c", "#e8a06a", "#8f5a34"), ("#0d8a83", "#58bdb4", "#4a7fc0"))
_DASHES = ("solid", "dash", "dot")
BAND = "Bands: two standard deviations of the controls, over random orders and over shuffles of A2"
# Of each control, for either model: its colour with a gap for the opacity, and its dash.
_CONTROLS = {
    RANDOM: (("rgba(196,96,28,{})", "rgba(13,138,131,{})"), "dashdot"),
    SHUFFLED: (("rgba(158,120,96,{})", "rgba(96,140,138,{})"), "longdashdot"),
}


def curve_figure(sides: Sequence[Side], kind: str, title: str) -> Any:
    """The deletion or insertion curves of all maps, with a band of two standard deviations about each control."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for hue, side in enumerate(sides):
        maps = [curves.name for curves in side.curves if curves.name not in CONTROLS]
        for curves in side.curves:
            y, spread = getattr(curves, kind), getattr(curves, f"{kind}_sd")
            x = [100 * step / (len(y) - 1) for step in range(len(y))]
            name = html.escape(f"{curves.name} · {side.title}")
            if curves.name in CONTROLS:
                colours, dash = _CONTROLS[curves.name]
                colour = colours[hue]
                band = [*(y + 2 * spread), *(y - 2 * spread)[::-1]]
                figure.add_trace(
                    go.Scatter(
                        x=[*x, *x[::-1]],
                        y=band,
                        fill="toself",
                        fillcolor=colour.format(0.13),
                        line={"width": 0},
                        hoverinfo="skip",
                        showlegend=False,
                        legendgroup=name,
                        mode="lines",
                    )
                )
                line = {"color": colour.format(0.75), "width": 1.4, "dash": dash}
            else:
                place = maps.index(curves.name)
                line = {"color": _HUES[hue][place % 3], "width": 2.2, "dash": _DASHES[place % 3]}
            figure.add_trace(
                go.Scatter(
                    x=x,
                    y=y,
                    name=name,
                    legendgroup=name,
                    mode="lines",
                    line=line,
                    hovertemplate="%{x:.0f} % of patches<br>cos %{y:.3f}<extra>" + name + "</extra>",
                )
            )
    figure.update_layout(
        title={"text": html.escape(title), "font": {"size": 14}, "subtitle": {"text": BAND, "font": {"size": 11}}},
        height=440,
        margin={"l": 56, "r": 12, "t": 56, "b": 44},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": _INK, "size": 12, "family": "IBM Plex Sans, system-ui, sans-serif"},
        legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "font": {"size": 11}},
        hovermode="closest",
    )
    word = "taken out" if kind == "deletion" else "put in"
    figure.update_xaxes(title=f"patches {word}, %", gridcolor=_GRID, zeroline=False)
    figure.update_yaxes(title="cosine similarity", gridcolor=_GRID, zeroline=False)
    return figure


def areas_table(sides: Sequence[Side], picture: str, heading: str, note: str) -> str:
    """The areas as HTML, every text escaped; a map that lies within the random orders is said to.

    Args:
        sides: of the duel.
        picture: a data URL of the picture.
        heading: what was run, in words.
        note: what is to be said of all of it.
    """
    rows = "".join(_rows(side) for side in sides)
    skipped = "".join(f"<li>{html.escape(text)}</li>" for side in sides for text in side.skipped)
    rest = f'<ul class="ex-note">{skipped}</ul>' if skipped else ""
    heads = "".join(f'<th scope="col">{text}</th>' for text in ("map", "deletion ↓", "insertion ↑", "beyond random?"))
    return (
        f'<div class="ex-duel"><figure><img src="{html.escape(picture, quote=True)}" alt="the picture of this duel">'
        f"<figcaption>{html.escape(heading)}</figcaption></figure><div>"
        f'<div class="ex-scroll"><table><thead><tr>{heads}</tr></thead>{rows}</table></div>'
        f'{rest}<p class="ex-note">{html.escape(note)}</p></div></div>'
    )


def _rows(side: Side) -> str:
    known = {curves.name: curves for curves in side.curves}
    random, shuffled = known[RANDOM], known.get(SHUFFLED)
    title = html.escape(side.title)
    head = (
        f'<tbody><tr class="ex-model"><th colspan="4" scope="rowgroup">{title} <span>cos {_number(side.cosine)} of the '
        f"whole picture, {_number(side.bare)} of the bare one</span></th></tr>"
    )
    rows = [
        _row(curves, random, shuffled if curves.name == DIFFERENCE else None)
        for curves in side.curves
        if curves is not random
    ]
    return head + "".join(rows) + "</tbody>"


def _row(curves: Curves, random: Curves, shuffled: Curves | None) -> str:
    """The areas of a map beside those of random orders, and of A1 − λA2 beside those with A2 shuffled too."""
    cells = []
    for kind in (0, 1):
        controls = f"<i>random {_spread_about(random, kind)}</i>"
        if shuffled is not None:
            controls += f"<i>A2 shuffled {_spread_about(shuffled, kind)}</i>"
        own = _spread_about(curves, kind) if curves.name in CONTROLS else _number(curves.areas[kind])
        cells.append(f"<td>{own}{controls}</td>")
    beyond = _verdict(curves, random)
    if shuffled is not None:
        beyond += f"<i>beyond A2 shuffled: {_verdict(curves, shuffled)}</i>"
    return f'<tr><th scope="row">{html.escape(curves.name)}</th>{"".join(cells)}<td>{beyond}</td></tr>'


def _spread_about(curves: Curves, kind: int) -> str:
    return f"{_number(curves.areas[kind])} ± {_number(curves.areas_sd[kind])}"


def _verdict(curves: Curves, control: Curves) -> str:
    """In which of the two tests the map is better than the control by more than twice the control's spread."""
    better = (
        control.areas[0] - curves.areas[0] > 2 * control.areas_sd[0],
        curves.areas[1] - control.areas[1] > 2 * control.areas_sd[1],
    )
    return {(True, True): "in both", (True, False): "deletion only", (False, True): "insertion only"}.get(better, "no")


def _number(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")
