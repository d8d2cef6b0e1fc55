"""α from 1 to 2 on one row of attention: how support and localisation move, with the controls at each α. A readout."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from studio.chart import Axis, Cell, Chart, Curve, Dash, Plot, Table
from studio.measures import Objects
from studio.service import Look, vision_grid
from studio.sparsity import Asked, Rule, queries_of, query_words, read_out
from studio.sparsity_panels import (
    CONTROL,
    SHUFFLED,
    Numbers,
    at_queries,
    head_rows,
    mean_numbers,
    numbers_of,
    random_rows,
    shuffled_rows,
)

ALPHAS = tuple(round(1 + step / 10, 2) for step in range(11))
SWEPT: tuple[Rule, ...] = ("entmax", "top-k", "matched entropy", "random keys")
_MEASURES = {
    "support": "support, share of keys",
    "zeros": "keys exactly zero",
    "inside": "mass in the object",
    "auroc": "AUROC",
}
_COLOURS = ("#d9722e", "#0e9a93")  # of the left and the right model, readable on white and on dark
_DASHES: dict[str, Dash] = {
    "entmax": "solid",
    "top-k": "dash",
    "matched entropy": "dashdot",
    "random keys": "dot",
    SHUFFLED: "longdash",
}
_COLUMNS = ("model", "title", "of", "alpha", "measure", *_DASHES)


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
            if rule != CONTROL
        }
        # Of the same draws as below the maps.
        drawn = random_rows(run, layer, chosen)
        numbers[CONTROL] = (
            numbers["entmax"] if drawn is None else mean_numbers(head_rows(drawn.weights, head), prefix, objects)
        )
        if maps.a2 is not None:
            numbers[SHUFFLED] = mean_numbers(shuffled_rows(at_queries(maps, chosen), head, prefix), prefix, objects)
        found = {name: (*found.get(name, ()), number) for name, number in numbers.items()}
        name = "A1 − λA2" if maps.a2 is not None else "A"
        where = (
            f"{name}, layer {look.model.vision.layer_name(layer)}, {'mean head' if head is None else f'head {head}'}, "
            f"{query_words(look, patch, count)}"
        )
        yield Curves(look.model.title, where, alphas[:done], found)


def alpha_chart(curves: Sequence[Curves], notes: Sequence[str]) -> Chart:
    """One plot a measure, a colour a model, a dash a rule.

    `model0_alpha` (S,) are the first model's steps, and `model0_entmax_support` (S,) is one of its curves.

    Args:
        curves: of the models.
        notes: what is to be said of all of them.
    """
    shown = [
        name for name in _MEASURES if any(value == value for model in curves for value in model.line("entmax", name))
    ]
    arrays = {f"model{at}_alpha": np.array(model.alphas) for at, model in enumerate(curves)}
    for at, model in enumerate(curves):
        for rule in model.numbers:
            for name in shown:
                arrays[f"model{at}_{rule.replace(' ', '_').replace('-', '_')}_{name}"] = np.array(
                    model.line(rule, name)
                )
    return Chart(
        "Sparse attention over α",
        tuple(_plot(curves, name) for name in shown),
        tuple(notes),
        arrays,
        Table(_COLUMNS, tuple(row for at, model in enumerate(curves) for row in _rows(at, model, shown))),
    )


def _plot(curves: Sequence[Curves], measure: str) -> Plot:
    drawn = tuple(
        Curve(
            f"{model.title}: {rule}",
            np.array(model.alphas),
            np.array(model.line(rule, measure)),
            _COLOURS[at % 2],
            _DASHES[rule],
            2.4 if rule == "entmax" else 1.5,
            dots=rule == "entmax",
            group=f"{at}{rule}",
        )
        for at, model in enumerate(curves)
        for rule in model.numbers
    )
    title = _MEASURES[measure]
    return Plot(title[0].upper() + title[1:], Axis("α", 2, (1.0, 2.0)), Axis(title, 3, (-0.03, 1.03)), drawn)


def _rows(at: int, model: Curves, shown: Sequence[str]) -> list[tuple[Cell, ...]]:
    """A line for each α and measure: entmax, and beside it all that it is held against."""
    lines = {(rule, name): model.line(rule, name) for rule in model.numbers for name in shown}
    return [
        (
            *(at, model.title, model.where, alpha, _MEASURES[name]),
            *(lines[rule, name][step] if rule in model.numbers else None for rule in _DASHES),
        )
        for step, alpha in enumerate(model.alphas)
        for name in shown
    ]
