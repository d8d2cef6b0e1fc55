"""The maps of the Sparsity tab as panels: one row of a layer, true zeros kept, its numbers beside a control's."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import torch
from torch import Tensor

from models import AttentionMaps, Normalizer, localisation, statistics
from models.intervention.controls import random_mask_weights
from models.maps import Part, attention_scores
from studio.measures import SHUFFLES, Objects, shuffle_orders
from studio.panels import SOURCES
from studio.service import vision_grid
from studio.sparsity import SparseRun, queries_of, query_words
from studio.strip import Fact, MapPanel, measured

DRAWS = 20
CONTROL, SHUFFLED = "random keys", "A2 shuffled"
MEANS = {
    CONTROL: "the same number for softmax over as many keys, drawn at random in each row, the mean of fixed draws: "
    "what any sparsity of that size gives.",
    SHUFFLED: f"the same number of A1 − λA2 with A2 permuted over the patches, the mean of {SHUFFLES} fixed shuffles: "
    "what subtracting any such map gives.",
}


@dataclass(frozen=True)
class Numbers:
    """What is said of one row (Nk,); of a signed one entropy and mass are of the positive part, AUROC is signed.

    Attributes:
        support: keys with a weight other than zero.
        keys: Nk.
        entropy: normalised, 0 to 1.
        inside: share of the mass on patches that lies on objects; NaN without a mask.
        auroc: chance that a patch on an object is above one on the ground; NaN without a mask.
    """

    support: float
    keys: int
    entropy: float
    inside: float
    auroc: float

    @property
    def zeros(self) -> float:
        """Share of the keys whose weight is exactly zero."""
        return 1 - self.support / self.keys


# (title, the map's name in `AttentionMaps`, whether it is signed)
_PLAIN: tuple[tuple[str, Part, bool], ...] = (("A", "a1", False),)
_DIFFERENTIAL: tuple[tuple[str, Part, bool], ...] = (
    ("A1", "a1", False),
    ("λA2", "subtracted", False),
    ("A1 − λA2", "weights", True),
)


def numbers_of(row: Tensor, prefix: int, objects: Objects | None) -> Numbers:
    """The numbers of one row (Nk,) with `prefix` tokens before the patches."""
    positive = statistics.positive_part(row)
    nan = float("nan")
    return Numbers(
        float(statistics.support(row)),
        len(row),
        float(statistics.entropy(positive)),
        nan if objects is None else float(localisation.mass_inside(positive[prefix:], objects.inside)),
        nan if objects is None else float(localisation.auroc(row[prefix:], objects.inside, objects.outside)),
    )


def mean_numbers(rows: Iterable[Tensor], prefix: int, objects: Objects | None) -> Numbers:
    """The mean of `numbers_of` over rows of a control (K, Nk), K at least 1."""
    found = [numbers_of(row, prefix, objects) for row in rows]
    means = {name: fmean(getattr(one, name) for one in found) for name in ("support", "entropy", "inside", "auroc")}
    return replace(found[0], **means)


def sparsity_panels(
    run: SparseRun, layer: int, head: int | None, patch: tuple[int, int] | None, objects: Objects | None
) -> list[MapPanel]:
    """A, or A1, lambda A2 and A1 - lambda A2, of one layer, head (None: mean) and query.

    Args:
        run: whose maps.
        layer, head: counted from 0.
        patch: the query; None for the readout token.
        objects: where objects lie on this model's patches.

    Raises:
        StudioError: a source that this layer does not have.
    """
    look, maps = run.look, run.maps(layer)
    grid = vision_grid(look.model)
    count = maps.a1.shape[-2]
    chosen = queries_of(look, patch, count)
    control = random_rows(run, layer, chosen)
    where = f"{look.model.title}, {query_words(look, patch, count)}, {'mean head' if head is None else f'head {head}'}"
    own = at_queries(maps, chosen)
    shuffled = () if maps.a2 is None else shuffled_rows(own, head, grid.prefix)
    panels = []
    for title, name, signed in _PLAIN if maps.a2 is None else _DIFFERENTIAL:
        row = head_rows(own.part(name), head)[0]
        drawn = () if control is None else head_rows(control.part(name), head)
        # Of lambda A2 the size is drawn and counted, as on Compare: it has the sign of lambda.
        counted, drawn = (row, drawn) if signed else (row.abs(), [each.abs() for each in drawn])
        others = {CONTROL: drawn, SHUFFLED: shuffled if signed else ()}
        panels.append(
            MapPanel(
                title,
                where,
                (row[grid.prefix :] * len(row)).reshape(grid.rows, grid.cols).numpy(),
                look.geometry,
                "signed" if signed else "sequential",
                title if signed else "A, A1 and λA2",
                "× uniform",
                _facts(
                    numbers_of(counted, grid.prefix, objects),
                    [mean_numbers(rows, grid.prefix, objects) if len(rows) else None for rows in others.values()],
                    signed,
                ),
                tuple(others),
                badges=("λ < 0: added",) if name == "subtracted" and bool((row < 0).any()) else (),
                zeros=True,
                marked=patch if count == grid.tokens else None,
                key=look.model.name,
            )
        )
    return panels


def controls_said(panels: Sequence[MapPanel]) -> str:
    """What the controls are that have numbers in any of the panels; "" where none has."""
    numbered = {
        name
        for panel in panels
        for fact in panel.facts
        for name, number in zip(panel.controls, fact.controls, strict=False)
        if number
    }
    said = [f"“{name}”: {meaning}" for name, meaning in MEANS.items() if name in numbered]
    return " ".join([*said, "Numbers are of the row that is drawn."]) if said else ""


def sums_said(source: str, panels: Sequence[MapPanel]) -> str:
    """What a row of each map adds up to where several maps are summed; "" for one map, whose rows everybody knows."""
    count = len(SOURCES[source])
    sums = {"A": "", "A1": "", "λA2": " × λ", "A1 − λA2": " × (1 − λ)"}
    drawn = [title for title in sums if any(panel.title == title and not panel.message for panel in panels)]
    if count == 1 or not drawn:
        return ""
    rows = ", ".join(f"{title} to {count}{sums[title]}" for title in drawn)
    return f"{count} maps are summed after they are normalised, so a row adds up: {rows}."


def head_rows(weights: Tensor, head: int | None) -> Tensor:
    """Rows (B, Nk) of weights (B, H, n, Nk): of one head or the mean of all, the mean over queries."""
    rows = weights.mean(-2)
    return rows.mean(1) if head is None else rows[:, head]


def at_queries(maps: AttentionMaps, chosen: slice) -> AttentionMaps:
    """The maps (1, H, n, Nk) at the chosen queries."""
    a2 = None if maps.a2 is None else maps.a2[..., chosen, :]
    return replace(maps, a1=maps.a1[..., chosen, :], a2=a2, lam=_lam_at(maps.lam, chosen))


def _lam_at(lam: Tensor | None, chosen: slice) -> Tensor | None:
    """Lambda of the chosen queries: one number, or one for each token (B, H, Nq, 1)."""
    return lam[..., chosen, :] if lam is not None and lam.dim() > 1 and lam.shape[-2] > 1 else lam


def shuffled_rows(maps: AttentionMaps, head: int | None, prefix: int) -> Tensor:
    """Rows (K, Nk) of A1 - lambda A2 with A2 shuffled over the patches, one a shuffle, of maps (1, H, n, Nk).

    One order of the keys serves all heads and queries, so it may come after their mean.
    """
    first, subtracted = (head_rows(maps.part(name), head)[0] for name in ("a1", "subtracted"))
    return first - subtracted[shuffle_orders(prefix, len(subtracted))]


def random_rows(run: SparseRun, layer: int, chosen: slice) -> AttentionMaps | None:
    """The maps with as many keys in each row, drawn at random, the draws as a batch; None where nothing is left out."""
    if run.asked.alpha == 1.0 or (run.asked.layers is not None and layer not in run.asked.layers):
        return None
    projections, normalizer = run.recording[layer], Normalizer(run.asked.alpha)
    parts = []
    for name in SOURCES[run.asked.source]:
        scores = attention_scores(projections, name).movedim(2, 0)[..., chosen, :]
        keep = statistics.support(normalizer(scores))
        generator = torch.Generator().manual_seed(0)
        # Several queries are averaged anyway, so they need fewer draws.
        draws = max(1, DRAWS // scores.shape[-2])
        parts.append(torch.cat([random_mask_weights(scores, keep, generator) for _ in range(draws)], dim=1))
    total = torch.stack(parts).sum(0)
    lam = _lam_at(projections.lam, chosen)
    return AttentionMaps(total[0], None if lam is None else total[1], lam, run.asked.source, 1.0)


def _facts(own: Numbers, controls: Sequence[Numbers | None], signed: bool) -> tuple[Fact, ...]:
    """The numbers of a row, each beside that of every control."""

    def beside(name: str) -> list[float | None]:
        return [None if other is None else getattr(other, name) for other in controls]

    others = beside("support")
    facts = [
        Fact(
            "support",
            f"{own.support:.0f} of {own.keys}",
            tuple("" if other is None else f"{other:.1f}".removesuffix(".0") for other in others),
            "Keys with a weight other than exactly zero.",
            own.support,
            tuple(others),
        ),
        measured("zeros", own.zeros, percent, beside("zeros"), "Share of the keys whose weight is exactly zero."),
        measured(
            "entropy, positive" if signed else "entropy",
            own.entropy,
            decimal,
            beside("entropy"),
            "Divided by its largest possible value: 0 one key, 1 all keys alike.",
        ),
    ]
    if own.inside == own.inside:
        name = "in object, positive" if signed else "in object"
        facts.append(measured(name, own.inside, percent, beside("inside"), "Share of the mass on objects' patches."))
    if own.auroc == own.auroc:
        facts.append(
            measured(
                "AUROC, signed" if signed else "AUROC",
                own.auroc,
                decimal,
                beside("auroc"),
                "Chance that a patch on an object has a larger weight than one on the ground; equal ones count half.",
            )
        )
    return tuple(facts)


def percent(value: float) -> str:
    """A share as a person reads it; a dash where there is none."""
    return f"{100 * value:.0f} %" if value == value else "–"


def decimal(value: float) -> str:
    """Two digits; a dash where there is none."""
    return f"{value:.2f}".replace("-", "−") if value == value else "–"
