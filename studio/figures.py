"""Plotly figures that stand on light and on dark pages alike."""

import plotly.graph_objects as go
from plotly.colors import sample_colorscale

from studio.runlog import TowerLambdas

_INK = "#84909c"
_GRID = "rgba(128,128,128,.22)"
_DEPTH = ["#3f7fd0", "#8a6fd1", "#c95f9f", "#e0765a", "#c4820e"]


def trajectory_figure(lambdas: TowerLambdas, lambda_init: tuple[float, ...], title: str) -> go.Figure:
    """λ of each layer over the pictures seen, with λ_init dashed; hovering tells the two exponential terms.

    Args:
        lambdas: one tower of a run.
        lambda_init: of each layer, (L,).
        title: what stands over the figure.
    """
    figure = go.Figure()
    layers = len(lambdas.lam[0])
    for layer in range(layers):
        colour = _layer_colour(layer, layers)
        figure.add_trace(
            go.Scatter(
                x=lambdas.samples,
                y=[row[layer] for row in lambdas.lam],
                customdata=None if lambdas.terms is None else [row[layer] for row in lambdas.terms],
                name=f"layer {layer}: {lambdas.lam[-1][layer]:.3f}",
                mode="lines",
                line={"color": colour, "width": 2},
                hovertemplate=_hover(layer, with_terms=lambdas.terms is not None),
            )
        )
    for trace in _starts(lambdas.samples, lambda_init):
        figure.add_trace(trace)
    figure.update_layout(
        title={"text": title, "font": {"size": 15}},
        height=380,
        margin={"l": 58, "r": 16, "t": 48, "b": 48},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": _INK, "size": 12.5, "family": "IBM Plex Sans, system-ui, sans-serif"},
        legend={"title": {"text": "last λ logged"}},
        hovermode="closest",
    )
    figure.update_xaxes(title="samples seen", gridcolor=_GRID, zeroline=False)
    figure.update_yaxes(title="λ", gridcolor=_GRID, zeroline=False)
    return figure


def _starts(samples: tuple[int, ...], lambda_init: tuple[float, ...]) -> list[go.Scatter]:
    """λ_init as dashed lines: one where all layers share it, else one a layer in the layer's colour."""
    shared = len(set(lambda_init)) == 1
    return [
        go.Scatter(
            x=[samples[0], samples[-1]],
            y=[value, value],
            name=f"λ init: {value:.3f}" if shared else f"λ init {layer}: {value:.3f}",
            mode="lines",
            line={"color": _INK if shared else _layer_colour(layer, len(lambda_init)), "width": 1.3, "dash": "dash"},
            hovertemplate=f"λ init {value:.4f}<extra></extra>",
        )
        for layer, value in enumerate(lambda_init[:1] if shared else lambda_init)
    ]


def _hover(layer: int, *, with_terms: bool) -> str:
    terms = "<br>exp(λq1·λk1) %{customdata[0]:.4f}<br>exp(λq2·λk2) %{customdata[1]:.4f}" if with_terms else ""
    return f"layer {layer}<br>%{{x:,}} samples<br>λ %{{y:.4f}}{terms}<extra></extra>"


def _layer_colour(layer: int, layers: int) -> str:
    """From blue to ochre by depth, all of a middle lightness that stands out on white and on dark pages."""
    return str(sample_colorscale(_DEPTH, [layer / max(1, layers - 1)])[0])
