"""A chart on the page: Plotly is given the chart's own values, and no text of a person as markup."""

import json

import numpy as np
import pytest

from studio.chart import Axis, Chart, Curve, Mark, Plot, Table
from studio.chart_plotly import chart_figure, plain, plot_figure

X = np.array([0.0, 1.0, 2.0])
PLOT = Plot(
    "of <b>",
    Axis("share, %", 0, (0.0, 2.0)),
    Axis("height", 3),
    (
        Curve("own", X, np.array([1.0, np.nan, 3.0]), "#102030", dots=True),
        Curve("its control", X, X, "#102030", "dot", spread=X / 2, opacity=0.5, legend="", group="own"),
    ),
    (Mark(1.0, 2.0, "#102030", "learned", group="own"),),
    ((0.5, 1.5),),
    "below",
)


@pytest.mark.parametrize("text", ["<b>", "&lt;", "$x$", "%{x}", "<a href='javascript:x'>"])
def test_what_plotly_reads_as_markup_is_written_as_text(text: str) -> None:
    plot = Plot(text, Axis(text), Axis(text), (Curve(text, X, X, "#102030"),), subtitle=text)
    parts = json.dumps(plot_figure(plot).to_dict()["data"]) + json.dumps(plot_figure(plot).to_dict()["layout"])
    # Plotly's own place holders are the only ones that stay.
    assert text not in parts.replace("%{x:.2f}", "").replace("%{y:.2f}", "")
    assert not set(plain(text)) & set("<>$")


def test_curves_bands_and_signs_are_those_of_the_chart() -> None:
    figure = plot_figure(PLOT)
    own, band, control, mark = figure.data
    assert list(own.y) == [1.0, None, 3.0], "where there is no value the line is interrupted"
    assert (own.mode, control.mode, mark.mode) == ("lines+markers", "lines", "markers")
    assert list(band.y) == [0.0, 1.5, 3.0, 1.0, 0.5, 0.0]
    assert (band.fillcolor, control.line.color) == ("rgba(16,32,48,0.13)", "rgba(16,32,48,0.5)")
    assert [trace.showlegend for trace in figure.data] == [True, False, False, False]
    assert {trace.legendgroup for trace in figure.data} == {"own"}, "the control goes with its curve"
    assert [shape.x0 for shape in figure.layout.shapes] == [0.5]
    assert list(figure.layout.xaxis.range) == [0.0, 2.0]


def test_plots_of_one_figure_share_a_legend() -> None:
    figure = chart_figure(Chart("", (PLOT, PLOT, PLOT), (), {}, Table((), ())))
    assert [trace.name for trace in figure.data if trace.showlegend] == ["own"]
    assert len({trace.xaxis for trace in figure.data}) == 3
