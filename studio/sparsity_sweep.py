"""α from 1 to 2 on one row of attention: how support and localisation move, with the controls at each α. A readout."""

import html
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from studio.measures import Objects
from studio.service import Look, vision_grid
from studio.sparsity import Asked, Rule, queries_of, query_words, read_out
from studio.sparsity_panels import SHUFFLED, Numbers, at_queries, head_rows, mean_numbers, numbers_of, shuffled_rows

ALPHAS = tuple(round(1 + step / 10, 2) for step in range(11))
SWEPT: tuple[Rule, ...] = ("entmax", "top-k", "matched entropy", "random keys")
_MEASURES = {
    "support": "support, share of keys",
    "zeros": "keys exactly zero",
    "inside": "mass in the object",
    "auroc": "AUROC",
}
_INK, _GRID = "#888", "rgba(128,128,128,.25)"
_COLOURS = ("#d9722e", "#0e9a93")  # of the left and the right model, readable on white and on dark
_DASHES = {
    "entmax": "solid",
    "top-k": "dash",
    "matched entropy": "dashdot",
    "random keys": "dot",
    SHUFFLED: "longdashdot",
}


@dataclass(frozen=True)
class Curves:
    """One model's numbers at each α and rule; of A1 - lambda A2 also under entmax with A2 shuffled.

    Attributes:
        title: of the model.
        where: layer, head, query and map in words.
        alphas: (S,).
        numbers: for each rule, and for "A2 shuffled", S of them; at α = 1 every rule is softmax.
    """

    title: str
    where: str
    alphas: tuple[float, ...]
    numbers: dict[str, tuple[Numbers, ...]]

    def line(self, rule: str, measure: str) -> list[float]:
        """One curve (S,)."""
        found = self.numbers[rule]
        return [one.support / one.keys if measure == "support" else getattr(one, measure) for one in found]


def sweep_alpha(
    look: Look,
    source: str,
    layer: int,
    head: int | None,
    patch: tuple[int, int] | None,
    objects: Objects | None,
    alphas: tuple[float, ...] = ALPHAS,
) -> Iterator[Curves]:
    """The curves so far, after each α: of what multiplies V, which is A or A1 - lambda A2.

    Raises:
        StudioError: a source that the layer does not have.
    """
    prefix = vision_grid(look.model).prefix
    found: dict[str, tuple[Numbers, ...]] = {}
    for done, alpha in enumerate(alphas, 1):
        run = read_out(look, Asked(alpha, source))
        maps = run.maps(layer)
        count = maps.a1.shape[-2]
        chosen = queries_of(look, patch, count)
        numbers = {
            rule: numbers_of(head_rows(run.maps(layer, rule).weights[..., chosen, :], head)[0], prefix, objects)
            for rule in SWEPT
        }
        if maps.a2 is not None:
            numbers[SHUFFLED] = mean_numbers(shuffled_rows(at_queries(maps, chosen), head, prefix), prefix, objects)
        found = {name: (*found.get(name, ()), number) for name, number in numbers.items()}
        name = "A1 − λA2" if maps.a2 is not None else "A"
        where = (
            f"{name}, layer {look.model.vision.layer_name(layer)}, {'mean head' if head is None else f'head {head}'}, "
            f"{query_words(look, patch, count)}"
        )
        yield Curves(look.model.title, where, alphas[:done], found)


def sweep_figure(curves: list[Curves]) -> Any:
    """A Plotly figure: one small plot a measure, a colour a model, a dash a rule."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    shown = {
        name: title
        for name, title in _MEASURES.items()
        if any(value == value for model in curves for value in model.line("entmax", name))
    }
    columns = 2
    figure = make_subplots(
        rows=-(-len(shown) // columns), cols=columns, subplot_titles=list(shown.values()), vertical_spacing=0.18
    )
    for at, model in enumerate(curves):
        for rule in model.numbers:
            for place, name in enumerate(shown):
                figure.add_trace(
                    go.Scatter(
                        x=model.alphas,
                        y=model.line(rule, name),
                        name=html.escape(f"{model.title}: {rule}"),
                        legendgroup=f"{at}{rule}",
                        showlegend=place == 0,
                        mode="lines+markers" if rule == "entmax" else "lines",
                        line={
                            "color": _COLOURS[at % 2],
                            "width": 2.4 if rule == "entmax" else 1.5,
                            "dash": _DASHES[rule],
                        },
                        marker={"size": 5},
                        hovertemplate="α %{x}<br>%{y:.3f}",
                    ),
                    row=place // columns + 1,
                    col=place % columns + 1,
                )
    figure.update_layout(
        height=250 * -(-len(shown) // columns) + 130,
        margin={"l": 48, "r": 12, "t": 34, "b": 40},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": _INK, "size": 12, "family": "IBM Plex Sans, system-ui, sans-serif"},
        legend={"orientation": "h", "y": -0.14, "yanchor": "top"},
    )
    figure.update_annotations(font={"size": 13, "color": _INK})
    rows = -(-len(shown) // columns)
    figure.update_xaxes(title="α", row=rows)
    figure.update_xaxes(gridcolor=_GRID, zeroline=False, range=[1, 2])
    figure.update_yaxes(gridcolor=_GRID, zeroline=False, range=[-0.03, 1.03])
    return figure
