"""Minimal pairs by attribute, as in MMVP-VLM: an axis an attribute, a polygon a model, and what chance gives."""

import math
from collections.abc import Sequence

from train.evaluation.figures.looks import hatchings, legend, look
from train.evaluation.figures.svg import INK, RULE, SOFT, line, outline, page, text
from train.evaluation.study import pairs_name
from train.evaluation.study_file import StudyModel
from train.scenes.pairs import ATTRIBUTES

WIDTH, RADIUS = 720.0, 220.0
_MIDDLE = WIDTH / 2


def radar(models: Sequence[StudyModel]) -> str:
    """The figure; an attribute that some model lacks has no axis."""
    axes = [name for name in ATTRIBUTES if all(pairs_name(name) in model.numbers for model in models)]
    keys, below = legend(models, 24, 30, WIDTH - 24)
    centre = below + RADIUS + 48

    def place(at: int, share: float) -> tuple[float, float]:
        angle = 2 * math.pi * at / len(axes)
        return _MIDDLE + share * RADIUS * math.sin(angle), centre - share * RADIUS * math.cos(angle)

    def ring(shares: Sequence[float]) -> list[tuple[float, float]]:
        return [place(at, share) for at, share in enumerate(shares)]

    parts = [hatchings(models), *keys]
    for share in (0.25, 0.5, 0.75, 1.0):
        parts.append(outline(ring([share] * len(axes)), RULE, 1, hint=f"{share:.0%}"))
    for at, name in enumerate(axes):
        x, y = place(at, 1.0)
        parts.append(line(_MIDDLE, centre, x, y, RULE))
        x, y = place(at, 1.08)
        across = x - _MIDDLE
        anchor = "middle" if abs(across) < 10 else "start" if across > 0 else "end"
        parts.append(text(x, y + 4, name, 13, anchor, weight=600))
    chances = [models[0].chance[pairs_name(name)] for name in axes]
    parts.append(outline(ring(chances), INK, 1.5, "5 4", "chance"))
    for model in models:
        own, shares = look(model, models), [model.numbers[pairs_name(name)].value for name in axes]
        told = ", ".join(f"{name} {share:.1%}" for name, share in zip(axes, shares, strict=True))
        parts.append(outline(ring(shares), own.colour, 2, own.dash, f"{model.title}: {told}"))
    for share in (0.25, 0.5, 0.75, 1.0):  # between two axes, where no name of theirs stands
        x, y = place(0, share)
        following = place(1, share)
        parts.append(text((x + following[0]) / 2, (y + following[1]) / 2 + 4, f"{share:.0%}", 11, "middle", SOFT))
    bottom = centre + RADIUS + 52
    told = (
        "Share of minimal pairs with both choices right. Dashed black: chance, 25 %. First seed solid, others dashed."
    )
    parts.append(text(_MIDDLE, bottom, told, 12, "middle", SOFT))
    said = "; ".join(
        f"{model.title}: " + ", ".join(f"{name} {model.numbers[pairs_name(name)].value:.0%}" for name in axes)
        for model in models
    )
    return page(WIDTH, bottom + 18, "Minimal pairs by attribute", said, parts)
