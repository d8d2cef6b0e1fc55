"""What explanations look like: panels of the map strip, and words with their scores as HTML."""

import html
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image

from models import localisation
from models.statistics import positive_part
from studio.explaining import Explanation, by_patch
from studio.service import vision_grid
from studio.strip import Fact, MapPanel, strip_value

PIXELS, PATCHES = "pixels", "patches"
_CONTROL = "uniform"


def explanations_value(
    image: Image.Image, explanations: Sequence[Explanation], detail: str, unit: str, note: str
) -> dict[str, Any]:
    """The value of the map strip: a panel for each prompt and model, all on one scale.

    Args:
        image: the picture, upright RGB.
        explanations: prompt by prompt, left model then right.
        detail: "pixels" or "patches", the sums of pixels over them; methods that know patches alone give those.
        unit: of the values.
        note: what was run, in words.
    """
    return strip_value(image, [_panel(explanation, detail, unit) for explanation in explanations], note)


def words_html(explanations: Sequence[Explanation], unit: str) -> str:
    """The tokens of each prompt with their scores for each model, on one scale over all; every text is escaped."""
    known = [scores.values for scores in (each.words for each in explanations) if scores.values is not None]
    finite = np.concatenate([np.abs(values[np.isfinite(values)]) for values in known] or [np.zeros(0)])
    top = float(finite.max()) if finite.size else 0.0
    power = min(0, math.floor(math.log10(top)) + 1) if top > 0 else 0
    power = 0 if power >= -1 else power
    prompts = dict.fromkeys(each.prompt for each in explanations)
    parts = []
    for prompt in prompts:
        lines = "".join(_words_of(each, top, power) for each in explanations if each.prompt == prompt)
        parts.append(f"<section><h4>“{html.escape(prompt)}”</h4>{lines}</section>")
    times = f", in 10<sup>{_minus(power)}</sup>" if power else ""
    legend = (
        f'<p class="ex-note">Words: {html.escape(unit)}{times}; one scale for all words. '
        '<span class="ex-key ex-plus">speaks for the match</span> <span class="ex-key ex-minus">against it</span></p>'
    )
    return f'<div class="ex-words">{"".join(parts)}{legend}</div>'


def _panel(explanation: Explanation, detail: str, unit: str) -> MapPanel:
    look, scores = explanation.look, explanation.picture
    grid = vision_grid(look.model)
    values, patches = scores.values, scores.values
    if values is not None and values.shape != (grid.rows, grid.cols):
        patches = by_patch(values, grid)
        values = values if detail == PIXELS else patches
    blank = np.full((max(grid.rows, 1), max(grid.cols, 1)), np.nan)
    return MapPanel(
        title=f"“{explanation.prompt}”",
        of=look.model.title,
        values=blank if values is None else values,
        geometry=look.geometry,
        kind="signed" if scores.signed else "sequential",
        scale="all panels",
        unit=unit,
        facts=_facts(explanation, patches),
        control=_CONTROL,
        badges=tuple(filter(None, (scores.layers,))),
        message=scores.message,
    )


def _facts(explanation: Explanation, patches: np.ndarray | None) -> tuple[Fact, ...]:
    facts = [Fact("cosine", number(explanation.cosine), "", "similarity of the picture and this text")]
    scores, objects = explanation.picture, explanation.look.objects
    if patches is None or np.isnan(patches).all():
        return tuple(facts)
    facts.append(Fact("largest", _short(float(np.nanmax(np.abs(patches)))), "", "of all patches, by size"))
    if objects is not None and not scores.message:
        row = torch.from_numpy(np.ascontiguousarray(patches.reshape(-1)))
        share = float(localisation.mass_inside(positive_part(row), objects.inside))
        area = float(objects.inside.double().mean())
        facts.append(
            Fact(
                "in any object", _percent(share), _percent(area), "share of the positive values; a uniform map's beside"
            )
        )
        ranks = float(localisation.auroc(row, objects.inside, objects.outside))
        facts.append(
            Fact("AUROC", number(ranks, 2), "0.50", "chance that a patch of an object is above one of the ground")
        )
    if scores.gap is not None:
        gap, wanted = scores.gap
        bare = explanation.cosine - wanted
        facts.append(Fact("cosine, bare", number(bare), "", "similarity of the baseline and this text"))
        facts.append(Fact("sum − change", number(gap), "", "of all values, less the change from baseline to picture"))
    return tuple(facts)


def _words_of(explanation: Explanation, top: float, power: int) -> str:
    scores, title = explanation.words, html.escape(explanation.look.model.title)
    head = f'<div class="ex-of">{title}<i>{html.escape(scores.layers)}</i></div>'
    said = [f"never seen in training: {', '.join(explanation.unknown)}"] if explanation.unknown else []
    said += [f"too long, not read: “{explanation.cut}”"] if explanation.cut else []
    warnings = "".join(f'<div class="zs-warn">{html.escape(text)}</div>' for text in [*said, scores.message] if text)
    if scores.values is None:
        return f'<div class="ex-line">{head}<div>{warnings}</div></div>'
    tokens = "".join(
        _token(piece, float(value), top, power) for piece, value in zip(explanation.pieces, scores.values, strict=True)
    )
    return f'<div class="ex-line">{head}<div><ol class="ex-tokens">{tokens}</ol>{warnings}</div></div>'


def _token(piece: str, value: float, top: float, power: int) -> str:
    """One token over its number; its colour says the same as the number."""
    if not math.isfinite(value):
        return f'<li class="ex-bare"><b>{html.escape(piece)}</b><span>&nbsp;</span></li>'
    weight = abs(value) / top if top > 0 else 0.0
    side = "ex-minus" if value < 0 else "ex-plus"
    shown = round(value / 10.0**power, 2)
    figure = _minus(f"{shown:+.2f}") if shown else "0" if value == 0 else "≈ 0"
    return f'<li class="{side}" style="--w:{weight:.3f}"><b>{html.escape(piece)}</b><span>{figure}</span></li>'


def number(value: float, digits: int = 3) -> str:
    """A number with a true minus sign, and no minus zero; "–" where there is none."""
    return "–" if not math.isfinite(value) else _minus(f"{round(value, digits) + 0.0:.{digits}f}")


def _short(value: float) -> str:
    return f"{value:.2g}"


def _percent(value: float) -> str:
    return "–" if not math.isfinite(value) else f"{100 * value:.0f} %"


def _minus(value: object) -> str:
    return str(value).replace("-", "−")
