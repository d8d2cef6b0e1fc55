"""Maps of a model before and after an intervention: panels over the picture, of what the readout query reads."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from torch import Tensor

from models import AttentionMaps, LoadedModel, StudioError, attention_maps
from models.intervention import edited_maps
from models.layout import TokenGrid
from studio.intervening import Outcome, Refused, cosines
from studio.measures import SHUFFLES, difference_measures, plain_measures, shuffled_measures
from studio.outcome import NO_EDIT, ranks_table
from studio.service import Look, vision_grid
from studio.strip import Fact, MapPanel, Strip, measured, strip_over
from studio.upload import Upload
from studio.zeroshot import Prompt

Part = Literal["weights", "a1", "subtracted"]
CONTROL = "A2 shuffled"


@dataclass(frozen=True)
class MapChoice:
    """Which map is drawn: the layer, the head (None: the mean over heads), and what of a differential head."""

    layer: int
    head: int | None = None
    part: Part = "weights"


def panels_of(outcome: Outcome, choice: MapChoice) -> list[MapPanel]:
    """Before, after, and after − before, as maps over the picture of what the readout query reads.

    Where a map does not exist the three panels say why.
    """
    model, grid = outcome.model, vision_grid(outcome.model)
    empty = np.full((grid.rows, grid.cols), np.nan)
    tags = ("before", "after, intervention" if outcome.words else "after, no edit", "after − before")
    try:
        layer = existing_layer(model, choice)
        before = attention_maps(outcome.before.recording[layer])
        after = edited_maps(model.vision, outcome.vision, layer, outcome.after.recording[layer])
        rows = [_row(maps, choice, grid) for maps in (before, after)]
    except StudioError as error:
        return [
            MapPanel(tag, model.title, empty, outcome.look.geometry, message=str(error) if tag == tags[0] else "—")
            for tag in tags
        ]
    signed = choice.part == "weights" and before.a2 is not None
    name = _name(choice.part, before)
    keys = before.a1.shape[-1]
    panels = []
    for tag, maps, row in zip(tags, (before, after), rows, strict=False):
        panels.append(
            MapPanel(
                f"{name}, {tag}",
                model.title,
                _on_grid(row, grid) * keys,
                outcome.look.geometry,
                kind="signed" if signed else "sequential",
                scale=name if signed else "A, A1, λA2",
                unit="× uniform",
                facts=_facts(maps, choice, grid, outcome.look),
                controls=(CONTROL,),
            )
        )
    moved = rows[1] - rows[0]
    same = "no change" if not moved.abs().max() else ""
    panels.append(
        MapPanel(
            tags[2],
            model.title,
            _on_grid(moved, grid) * keys,
            outcome.look.geometry,
            kind="signed",
            scale="after − before",
            unit="× uniform",
            facts=(
                measured("moved, ½ Σ|Δ|", float(moved.abs().sum()) / 2, _number, (), "half the sum of all changes"),
                measured("cosine of rows", _alike(*rows), _number, (), "before · after"),
            ),
            badges=(same,) if same else (),
        )
    )
    return panels


def map_choice(layer: Any, head: Any, part: Any) -> MapChoice:
    """The chosen map as the page's controls name it: a number, "mean" or a number, and a part.

    Raises:
        StudioError: none of these.
    """
    if not isinstance(layer, int | float) or not 0 <= layer < 1000:
        raise StudioError(f"Layer {str(layer)[:40]!r} does not exist: choose a whole number.")
    named = str(head)[:40]
    if named != "mean" and not named.isdecimal():
        raise StudioError(f"Head {named!r} does not exist: choose a number, or mean.")
    if part not in ("weights", "a1", "subtracted"):
        raise StudioError(f"Map {str(part)[:40]!r} is unknown: choose weights, a1 or subtracted.")
    return MapChoice(round(layer), None if named == "mean" else int(named), part)


def maps_strip(
    picture: Upload, outcomes: Sequence[Outcome | Refused], choice: MapChoice, prompts: list[Prompt] | None = None
) -> Strip | None:
    """A map strip with three panels for each model that ran, or None where none did.

    Args:
        picture, outcomes: what was run, and what came of it.
        choice: the map.
        prompts: the classes that the models were asked for, whose ranks are taken away with the maps.
    """
    ran = [outcome for outcome in outcomes if isinstance(outcome, Outcome)]
    if not ran:
        return None
    panels = [panel for outcome in ran for panel in panels_of(outcome, choice)]
    queries = dict.fromkeys(query_words(outcome.model, choice.layer) for outcome in ran)
    head = "mean over heads" if choice.head is None else f"head {choice.head}"
    shares = [share for share in map(object_share, (outcome.look for outcome in ran)) if share is not None]
    covered = (
        f" Objects cover {100 * shares[0]:.0f} % of the patches: so much of a uniform map lies on them."
        if shares
        else ""
    )
    note = (
        f"Layer {choice.layer}, {head}, query: {' / '.join(queries)}. “After” is an intervention: the weights that the "
        f"model used when it was run with the edits.{covered}"
    )
    if any(fact.controls for panel in panels for fact in panel.facts):
        note += f" “{CONTROL}”: the same number of the same map with A2 shuffled over the patches."
    # A model that is in the tables twice has its edits named twice, from left to right.
    edits = [f"{outcome.model.title}: {'; '.join(outcome.words) or NO_EDIT}." for outcome in ran]
    note = "\n".join([note, *edits])
    tables = (ranks_table(prompts, ran),) if prompts else ()
    return replace(strip_over(picture.image, panels, note, together=3), tables=tables)


def query_words(model: LoadedModel, layer: int) -> str:
    """Whose row is drawn in a layer: the query that the embedding is made from."""
    grid = vision_grid(model)
    if model.vision.pooled and layer == model.vision.layers - 1:
        return "the pooling query"
    return "CLS" if grid.cls is not None else "the mean over patch queries (there is no CLS)"


def object_share(look: Look) -> float | None:
    """The share of patches that lie on an object, None where there is no mask."""
    return None if look.objects is None else float(look.objects.inside.float().mean())


def inside_of(maps: AttentionMaps, choice: MapChoice, grid: TokenGrid, look: Look) -> float:
    """Share of a map's positive mass that lies on objects, of the readout query; NaN without a mask."""
    return _measure(maps, choice, grid, look).get("inside", float("nan"))


def existing_layer(model: LoadedModel, choice: MapChoice) -> int:
    """The chosen layer.

    Raises:
        StudioError: the vision tower has no such layer or head.
    """
    tower = model.vision
    if not 0 <= choice.layer < tower.layers:
        raise StudioError(f"{model.title} has no layer {choice.layer}: choose 0–{tower.layers - 1}.")
    if choice.head is not None and not 0 <= choice.head < tower.heads:
        raise StudioError(f"{model.title} has no head {choice.head}: choose 0–{tower.heads - 1}, or the mean.")
    return choice.layer


def _name(part: Part, maps: AttentionMaps) -> str:
    if maps.a2 is None:
        return "A"
    return {"weights": "A1 − λA2", "a1": "A1", "subtracted": "λA2"}[part]


def _part(maps: AttentionMaps, choice: MapChoice) -> Tensor:
    """The chosen map (1, 1, Nq, Nk): of one head, or the mean over heads."""
    if maps.a2 is None and choice.part == "subtracted":
        raise StudioError("This attention has one map and subtracts nothing: choose another map.")
    heads = maps.a1 if maps.a2 is None else maps.part(choice.part)
    return heads.mean(1, keepdim=True) if choice.head is None else heads[:, choice.head : choice.head + 1]


def _query(values: Tensor, grid: TokenGrid) -> Tensor:
    """The readout query's numbers (...,) out of those of all queries (..., Nq), the mean over patches without a CLS."""
    if values.shape[-1] != grid.tokens:
        return values.mean(-1)
    return values[..., 0] if grid.cls is not None else values[..., grid.prefix :].mean(-1)


def _row(maps: AttentionMaps, choice: MapChoice, grid: TokenGrid) -> Tensor:
    """What the readout query reads, (Nk,)."""
    return _query(_part(maps, choice)[0, 0].transpose(0, 1), grid)


def _prefix(keys: int, grid: TokenGrid) -> int:
    """How many keys stand before the patches; a pooling head may see the patches alone."""
    return keys - grid.patches


def _on_grid(row: Tensor, grid: TokenGrid) -> np.ndarray:
    return row[_prefix(len(row), grid) :].reshape(grid.rows, grid.cols).double().numpy()


def _measure(maps: AttentionMaps, choice: MapChoice, grid: TokenGrid, look: Look) -> dict[str, float]:
    """Statistics of the readout query's row."""
    chosen = _part(maps, choice)[0]
    signed = choice.part == "weights" and maps.a2 is not None
    found = (difference_measures if signed else plain_measures)(chosen, _prefix(chosen.shape[-1], grid), look.objects)
    return {name: float(_query(values[0], grid)) for name, values in found.items()}


def _facts(maps: AttentionMaps, choice: MapChoice, grid: TokenGrid, look: Look) -> tuple[Fact, ...]:
    """Numbers under a map; what suggests cleaning stands beside the same with A2 shuffled."""
    found = _measure(maps, choice, grid, look)
    control: dict[str, float] = {}
    if choice.part == "weights" and maps.a2 is not None:
        first, second = (_part(maps, replace(choice, part=part))[0] for part in ("a1", "subtracted"))
        shuffled = shuffled_measures(first, second, _prefix(first.shape[-1], grid), look.objects)
        control = {name: float(_query(values[0], grid)) for name, values in shuffled.items()}
    shown = (
        ("sum", "row sum", _number),
        ("negative", "negative mass", _percent),
        ("inside", "in object, positive" if control else "in object", _percent),
        ("auroc", "AUROC, signed" if control else "AUROC", _number),
    )
    meaning = f"beside it the same with A2 shuffled over the patches, mean of {SHUFFLES}"
    return tuple(
        measured(
            label,
            found[name],
            write,
            (control[name],) if name in control and name != "sum" else (),
            meaning if name in control and name != "sum" else "",
        )
        for name, label, write in shown
        if name in found
    )


def _alike(first: Tensor, second: Tensor) -> float:
    """Cosine of two rows (Nk,); NaN where one is zero, as where all heads are ablated."""
    return cosines(first[None], second[None])[0] if first.any() and second.any() else float("nan")


def _number(value: float) -> str:
    """Two digits with a true minus sign; a dash for what is not defined."""
    return "–" if value != value else f"{round(value, 2) + 0.0:.2f}".replace("-", "−")


def _percent(value: float) -> str:
    return "–" if value != value else f"{100 * value:.0f} %"
