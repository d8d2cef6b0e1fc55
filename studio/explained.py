"""What explanations look like: panels of the map strip, and words with their scores as HTML."""

import html
import math
from collections.abc import Sequence
from functools import partial
from statistics import fmean

import numpy as np
import torch
from PIL import Image

from models import localisation
from models.layout import TokenGrid
from models.statistics import positive_part
from studio.explaining import Explanation, Scores, by_patch
from studio.measures import Objects
from studio.methods import LayerIntegratedGradients, Method, Relevance, described, unit_of
from studio.scored_texts import ScoredText, WordScale, word_scale
from studio.service import Look, vision_grid
from studio.shuffled_runs import RUN_SO
from studio.strip import Fact, MapPanel, Strip, measured, strip_over

PIXELS, PATCHES = "pixels", "patches"
RELEVANCE_NOTE = (
    "Relevance has no unit. The positive rule merges what is attended and helps with what is suppressed and whose "
    "suppression helps; the four rules by sign tell them apart. CLIP's map has no negative entries."
)
PATH_NOTE = (
    "Values add up to the cosine less that of the bare picture, up to “sum − change”. A bare picture is a choice: what "
    "looks like it counts as nothing."
)
LAYER_NOTE = (
    "The tokens that enter a layer have read of each other: in a late one most of the cosine may stand on CLS, which "
    "has no place on the picture, and on the end of the text."
)
UNIFORM, SHUFFLED = "uniform", "A2 shuffled"
# Of what values should sum to; Sundararajan et al. (ICML 2017) ask for steps until they are within 5 %.
NEAR_ENOUGH = 0.05
_ASIDE = "part of the cosine that no patch has, and that the map cannot show"


def explanations_strip(image: Image.Image, explanations: Sequence[Explanation], method: Method, detail: str) -> Strip:
    """A map strip: a panel for each prompt and model, all on one scale, and the words of each.

    Args:
        image: the picture, upright RGB.
        explanations: prompt by prompt, left model then right.
        method: what they were made by.
        detail: "pixels" or "patches", the sums of pixels over them; methods that know patches alone give those.
    """
    sums = any(explanation.picture.gap for explanation in explanations)
    said = RELEVANCE_NOTE if isinstance(method, Relevance) else PATH_NOTE if sums else ""
    said += f" {LAYER_NOTE}" if isinstance(method, LayerIntegratedGradients) else ""
    note = (
        f"{described(method)}. Both models, all panels on one scale. The target is the cosine similarity, without the "
        f"logit scale.\n{said}"
    )
    if any(explanation.shuffled for explanation in explanations):
        note = f"{note.strip()}\n“{SHUFFLED}”: {RUN_SO}."
    panels = [_panel(explanation, detail, unit_of(method)) for explanation in explanations]
    texts = scored_texts(explanations, unit_of(method))
    return strip_over(image, panels, note.strip(), together=2, texts=texts)


def scored_texts(explanations: Sequence[Explanation], unit: str) -> tuple[ScoredText, ...]:
    """The words of explanations, in their order."""
    return tuple(
        ScoredText(
            each.prompt,
            each.look.model.title,
            each.pieces,
            each.words.values,
            unit,
            each.words.layers,
            tuple(filter(None, (*each.remarks.clauses, each.words.message, _incomplete(each.words)))),
            _completeness(each),
        )
        for each in explanations
    )


def _completeness(explanation: Explanation) -> str:
    """What the scores of the words should sum to and by how much they miss it, "" where they need not sum up."""
    if explanation.words.gap is None:
        return ""
    gap, wanted = explanation.words.gap
    bare = explanation.cosine - wanted
    return f"cosine with padding for every word: {number(bare)}; sum − change: {number(gap)}"


def _incomplete(scores: Scores) -> str:
    """A remark where values miss what they should sum to by more than is taken for an integral that has converged."""
    if scores.gap is None or abs(scores.gap[0]) <= NEAR_ENOUGH * abs(scores.gap[1]):
        return ""
    gap, wanted = scores.gap
    share = f"{100 * abs(gap / wanted):.0f} %" if abs(wanted) > abs(gap) / 10 else "far"
    return f"not converged: misses its sum by {share}"


def words_html(explanations: Sequence[Explanation], unit: str) -> str:
    """The tokens of each prompt with their scores for each model, on one scale over all; every text is escaped."""
    texts = scored_texts(explanations, unit)
    scale = word_scale(texts)
    parts = []
    for prompt in dict.fromkeys(each.text for each in texts):
        lines = "".join(_words_of(each, scale) for each in texts if each.text == prompt)
        parts.append(f"<section><h4>“{html.escape(prompt)}”</h4>{lines}</section>")
    times = f", in 10<sup>{_minus(scale.power)}</sup>" if scale.power else ""
    legend = (
        f'<p class="ex-note">Words: {html.escape(unit)}{times}; one scale for all words. '
        '<span class="ex-key ex-plus">speaks for the match</span> <span class="ex-key ex-minus">against it</span></p>'
    )
    return f'<div class="ex-words">{"".join(parts)}{legend}</div>'


def _panel(explanation: Explanation, detail: str, unit: str) -> MapPanel:
    look, scores = explanation.look, explanation.picture
    grid = vision_grid(look.model)
    values, patches = scores.values, scores.values
    if values is not None:
        patches = _of_patches(values, grid)
        values = values if detail == PIXELS else patches
    differential = look.model.vision.differential
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
        controls=(UNIFORM, SHUFFLED) if differential else (UNIFORM,),
        badges=tuple(filter(None, (scores.layers, _incomplete(scores)))),
        message=scores.message,
        shuffled=None if values is None else _shuffled(explanation, values.shape),
    )


def _of_patches(values: np.ndarray, grid: TokenGrid) -> np.ndarray:
    """Values by patch (R, C), of pixels their sums."""
    return values if values.shape == (grid.rows, grid.cols) else by_patch(values, grid)


def _shuffled(explanation: Explanation, shape: tuple[int, ...]) -> np.ndarray | None:
    """The maps of the runs with A2 shuffled (K, R, C), as fine as the panel's; None where there was no such run."""
    if not explanation.shuffled:
        return None
    grid, maps = vision_grid(explanation.look.model), np.full((len(explanation.shuffled), *shape), np.nan, np.float32)
    for at, run in enumerate(explanation.shuffled):
        if run.picture.values is not None:
            values = run.picture.values
            maps[at] = values if values.shape == shape else _of_patches(values, grid)
    return maps


def _facts(explanation: Explanation, patches: np.ndarray | None) -> tuple[Fact, ...]:
    scores, objects, shuffled = explanation.picture, explanation.look.objects, explanation.shuffled
    grid = vision_grid(explanation.look.model)

    def beside(uniform: float | None, values: Sequence[float]) -> list[float | None]:
        """The number of a uniform map, and of a differential model the mean of its runs with A2 shuffled."""
        if not explanation.look.model.vision.differential:
            return [uniform]
        return [uniform, fmean(values) if values else None]

    cosines = beside(None, [run.cosine for run in shuffled])
    facts = [measured("cosine", explanation.cosine, number, cosines, "similarity of the picture and this text")]
    if patches is None or np.isnan(patches).all():
        return tuple(facts)
    largest, meaning = float(np.nanmax(np.abs(patches))), "of all patches, by size; of pixels the sum over a patch"
    facts.append(measured("largest patch", largest, _short, (), meaning))
    if objects is not None and not scores.message:
        share, ranks = _object_numbers(patches, objects)
        runs = [_run_numbers(run.picture, explanation.look) for run in shuffled]
        area = float(objects.inside.double().mean())
        facts.append(
            measured(
                "in any object",
                share,
                _percent,
                beside(area, [inside for inside, _ in runs]),
                "share of the positive values; a uniform map's beside",
            )
        )
        facts.append(
            measured(
                "AUROC",
                ranks,
                partial(number, digits=2),
                beside(0.5, [auroc for _, auroc in runs]),
                "chance that a patch of an object is above one of the ground",
            )
        )
    if scores.gap is not None:
        gap, wanted = scores.gap
        bare = explanation.cosine - wanted
        change = "of all values, less the change from baseline to picture"
        facts.append(measured("cosine, bare", bare, number, (), "similarity of the baseline and this text"))
        if scores.aside is not None:
            before = "CLS token" if grid.prefix == 1 else f"{grid.prefix} tokens before the patches"
            runs = [run.picture.aside for run in shuffled if run.picture.aside is not None]
            facts.append(measured(f"on the {before}", scores.aside, number, beside(None, runs), _ASIDE))
            change = "of all values, with those that have no place on the picture, less the change from the baseline"
        facts.append(measured("sum − change", gap, number, (), change))
    return tuple(facts)


def _object_numbers(patches: np.ndarray, objects: Objects) -> tuple[float, float]:
    """Share of the positive values (R, C) on objects, and AUROC."""
    row = torch.from_numpy(np.ascontiguousarray(patches.reshape(-1)))
    share = localisation.mass_inside(positive_part(row), objects.inside)
    return float(share), float(localisation.auroc(row, objects.inside, objects.outside))


def _run_numbers(scores: Scores, look: Look) -> tuple[float, float]:
    """The same of a run with A2 shuffled; NaN where it has no map."""
    grid, values = vision_grid(look.model), scores.values
    if values is None or look.objects is None:
        return math.nan, math.nan
    return _object_numbers(_of_patches(values, grid), look.objects)


def _words_of(each: ScoredText, scale: WordScale) -> str:
    head = f'<div class="ex-of">{html.escape(each.of)}<i>{html.escape(each.layers)}</i></div>'
    warnings = "".join(f'<div class="zs-warn">{html.escape(text)}</div>' for text in each.said)
    warnings += f'<div class="ex-sum">{html.escape(each.adds_up)}</div>' if each.adds_up else ""
    if each.values is None:
        return f'<div class="ex-line">{head}<div>{warnings}</div></div>'
    tokens = "".join(_token(piece, float(value), scale) for piece, value in zip(each.pieces, each.values, strict=True))
    return f'<div class="ex-line">{head}<div><ol class="ex-tokens">{tokens}</ol>{warnings}</div></div>'


def _token(piece: str, value: float, scale: WordScale) -> str:
    """One token over its number; its colour says the same as the number."""
    if not math.isfinite(value):
        return f'<li class="ex-bare"><b>{html.escape(piece)}</b><span>&nbsp;</span></li>'
    side = "ex-minus" if value < 0 else "ex-plus"
    style = f"--w:{scale.share(value):.3f}"
    return f'<li class="{side}" style="{style}"><b>{html.escape(piece)}</b><span>{scale.written(value)}</span></li>'


def number(value: float, digits: int = 3) -> str:
    """A number with a true minus sign, and no minus zero; "–" where there is none."""
    return "–" if not math.isfinite(value) else _minus(f"{round(value, digits) + 0.0:.{digits}f}")


def _short(value: float) -> str:
    return f"{value:.2g}"


def _percent(value: float) -> str:
    return "–" if not math.isfinite(value) else f"{100 * value:.0f} %"


def _minus(value: object) -> str:
    return str(value).replace("-", "−")
