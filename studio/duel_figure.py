"""What a duel of maps found, as a chart and as a table with its controls beside every area."""

import html
from collections.abc import Sequence
from typing import Literal

import numpy as np

from studio.chart import Axis, Cell, Chart, Curve, Dash, Plot, Table
from studio.duel import CONTROLS, DIFFERENCE, RANDOM, SEEDS, SHUFFLED, Curves, Side
from studio.strip import Fact

Kind = Literal["deletion", "insertion"]
NOTE = (
    "Areas are the mean cosine over the curve: lower is better for deletion, higher for insertion. A map is beyond "
    f"random where it is better by more than two standard deviations of {SEEDS} random orders. “A2 shuffled” is the "
    f"same difference with A2 permuted over the patches, {SEEDS} fixed shuffles: where A1 − λA2 is not beyond it, it "
    "owes nothing to what A2 knows of the picture. Areas of two models are not comparable, since their cosines have "
    "different ranges; compare each with its own controls. One picture is no evidence."
)

# Of one model's hue and of clearly different lightness and dash, so that neither hue nor dash alone has to tell.
_HUES = (("#c4601c", "#d08038", "#a06a45"), ("#0d8a83", "#2fa39a", "#4a7fc0"))
_DASHES: tuple[Dash, ...] = ("solid", "dash", "dot")
BAND = "Bands: two standard deviations of the controls, over random orders and over shuffles of A2"
# Of each control, for either model: its colour and its dash.
_CONTROLS: dict[str, tuple[tuple[str, str], Dash]] = {
    RANDOM: (("#c4601c", "#0d8a83"), "dashdot"),
    SHUFFLED: (("#9e7860", "#608c8a"), "longdashdot"),
}
KINDS: tuple[Kind, ...] = ("deletion", "insertion")
_COLUMNS = (
    *("model", "title", "map", "row", "test", "area", "area_sd", "random", "random_sd", "a2_shuffled"),
    *("a2_shuffled_sd", "beyond_random", "beyond_a2_shuffled", "cosine_whole", "cosine_bare"),
)


def duel_chart(sides: Sequence[Side], prompt: str, depth: str, baseline: str) -> Chart:
    """The deletion and the insertion curves of all maps, with a band about each control.

    `model0_deletion` (maps, K + 1) are the first model's curves in the order of its rows in the table, at `share`
    (K + 1,) of the patches, `model0_deletion_sd` their standard deviations over orders, 0 where there is one order.
    """
    steps = len(sides[0].curves[0].deletion)
    arrays = {"share": np.linspace(0, 1, steps)}
    for at, side in enumerate(sides):
        for kind in (*KINDS, "deletion_sd", "insertion_sd"):
            arrays[f"model{at}_{kind}"] = np.stack([getattr(curves, kind) for curves in side.curves])
    return Chart(
        f"Faithfulness duel: “{prompt}”, {depth}, taken out: {baseline}",
        tuple(_plot(sides, kind, f"{kind.capitalize()}: “{prompt}”") for kind in KINDS),
        (NOTE, *dict.fromkeys(text for side in sides for text in remarks_of(side))),
        arrays,
        Table(_COLUMNS, tuple(row for at, side in enumerate(sides) for row in _numbers(at, side))),
    )


def remarks_of(side: Side) -> list[str]:
    """What a person should know of one model's part, a sentence each."""
    if side.cosine > side.bare:
        return list(side.skipped)
    return [
        *side.skipped,
        f"{side.title}: the bare picture is as near to this text as the whole one, or nearer ({_number(side.bare)} to "
        f"{_number(side.cosine)}), so there is nothing that a map could lose or win: choose another text or another "
        "bare picture.",
    ]


def _plot(sides: Sequence[Side], kind: Kind, title: str) -> Plot:
    found: list[Curve] = []
    for hue, side in enumerate(sides):
        maps = [curves.name for curves in side.curves if curves.name not in CONTROLS]
        for curves in side.curves:
            y, spread = getattr(curves, kind), getattr(curves, f"{kind}_sd")
            x = np.linspace(0, 100, len(y))
            name = f"{curves.name} · {side.title}"
            if curves.name in CONTROLS:
                colours, dash = _CONTROLS[curves.name]
                found.append(Curve(name, x, y, colours[hue], dash, 1.4, 2 * spread, 0.75))
            else:
                place = maps.index(curves.name) % 3
                found.append(Curve(name, x, y, _HUES[hue][place], _DASHES[place], 2.2))
    word = "taken out" if kind == "deletion" else "put in"
    facts = tuple(fact for side in sides for fact in _areas(side, kind))
    better = "lower is better" if kind == "deletion" else "higher is better"
    return Plot(
        title,
        Axis(f"patches {word}, %", 0),
        Axis("cosine similarity", 3),
        tuple(found),
        subtitle=BAND,
        measured=f"area under the curve, {better}",
        facts=facts,
        controls=("random order", "A2 shuffled"),
    )


def _areas(side: Side, kind: Kind) -> list[Fact]:
    """The areas of the maps beside those of the controls, each with its spread."""
    known = {curves.name: curves for curves in side.curves}
    at, found = KINDS.index(kind), []
    for curves in side.curves:
        if curves.name not in CONTROLS:
            beside = known.get(SHUFFLED) if curves.name == DIFFERENCE else None
            shuffled = "" if beside is None else _spread_about(beside, at)
            value, random = _number(curves.areas[at]), _spread_about(known[RANDOM], at)
            found.append(Fact(f"{curves.name} · {side.title}", value, (random, shuffled)))
    return found


def _numbers(at: int, side: Side) -> list[tuple[Cell, ...]]:
    """A line for each map and test; those of the controls' orders too, and beside each map its controls."""
    known = {curves.name: curves for curves in side.curves}
    rows: list[tuple[Cell, ...]] = []
    for row, curves in enumerate(side.curves):
        own = curves.name not in CONTROLS
        beside = known.get(SHUFFLED) if curves.name == DIFFERENCE else None
        for place, kind in enumerate(KINDS):
            shuffled = (None, None) if beside is None else (beside.areas[place], beside.areas_sd[place])
            random = (known[RANDOM].areas[place], known[RANDOM].areas_sd[place])
            rows.append(
                (
                    *(at, side.title, curves.name, row, kind, curves.areas[place], curves.areas_sd[place]),
                    *(random if own else (None, None)),
                    *shuffled,
                    _yes(_beyond(curves, known[RANDOM])[place]) if own else "",
                    "" if beside is None else _yes(_beyond(curves, beside)[place]),
                    side.cosine,
                    side.bare,
                )
            )
    return rows


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def areas_table(sides: Sequence[Side], picture: str, heading: str, note: str = NOTE) -> str:
    """The areas as HTML, every text escaped; a map that lies within the random orders is said to.

    Args:
        sides: of the duel.
        picture: a data URL of the picture.
        heading: what was run, in words.
        note: what is to be said of all of it.
    """
    rows = "".join(_rows(side) for side in sides)
    skipped = "".join(f"<li>{html.escape(text)}</li>" for side in sides for text in remarks_of(side))
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
        # A number and its spread stay on one line, also where the table is narrow.
        cells.append(f"<td>{own}{controls}</td>".replace(" ± ", "&nbsp;±&nbsp;"))
    beyond = _verdict(curves, random)
    if shuffled is not None:
        beyond += f"<i>beyond A2 shuffled: {_verdict(curves, shuffled)}</i>"
    return f'<tr><th scope="row">{html.escape(curves.name)}</th>{"".join(cells)}<td>{beyond}</td></tr>'


def _spread_about(curves: Curves, kind: int) -> str:
    return f"{_number(curves.areas[kind])} ± {_number(curves.areas_sd[kind])}"


def _verdict(curves: Curves, control: Curves) -> str:
    """In which of the two tests the map is better than the control by more than twice the control's spread."""
    said = {(True, True): "in both", (True, False): "deletion only", (False, True): "insertion only"}
    return said.get(_beyond(curves, control), "no")


def _beyond(curves: Curves, control: Curves) -> tuple[bool, bool]:
    return (
        control.areas[0] - curves.areas[0] > 2 * control.areas_sd[0],
        curves.areas[1] - control.areas[1] > 2 * control.areas_sd[1],
    )


def _number(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")
