"""How a model looks in every figure: its colour says the variant, its fill the seed."""

from collections.abc import Sequence
from dataclasses import dataclass

from train.evaluation.figures.svg import INK, PAPER, rect, text, width_of
from train.evaluation.study_file import StudyModel

# Okabe and Ito's colours, which people with any kind of colour vision tell apart.
_COLOURS = {
    "CLIP": "#0072b2",
    "DiffCLIP": "#d55e00",
    "DiffCLIP*": "#009e73",
    "DiffCLIP†": "#cc79a7",
    "DiffCLIP, DIFF V2": "#8a6d00",
}
_OTHER = "#56b4e9"
_DASHES = ("", "7 4", "2 3", "10 3 2 3")
_KEY, _GAP, _ROW = 16.0, 22.0, 20.0


@dataclass(frozen=True)
class Look:
    """The appearance of a model.

    Attributes:
        colour: of lines.
        fill: of areas: the colour for the first seed, a hatching for others.
        dash: of lines, "" for the first seed.
    """

    colour: str
    fill: str
    dash: str


def look(model: StudyModel, models: Sequence[StudyModel]) -> Look:
    """The look of one of the models of a figure."""
    seeds = sorted({one.seed or 0 for one in models})
    colour, at = _COLOURS.get(model.variant, _OTHER), seeds.index(model.seed or 0)
    fill = colour if at == 0 else f"url(#hatch-{colour[1:]}-{min(at, 2)})"
    return Look(colour, fill, _DASHES[min(at, len(_DASHES) - 1)])


def hatchings(models: Sequence[StudyModel]) -> str:
    """The definitions of all fills that are hatchings."""
    colours = dict.fromkeys(_COLOURS.get(one.variant, _OTHER) for one in models)
    return "<defs>" + "".join(_hatching(colour, at) for colour in colours for at in (1, 2)) + "</defs>"


def _hatching(colour: str, at: int) -> str:
    """Stripes for the second seed, and the other way and closer for those after it."""
    size, angle = (5, 45) if at == 1 else (3, -45)
    return (
        f'<pattern id="hatch-{colour[1:]}-{at}" width="{size}" height="{size}" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate({angle})"><rect width="{size}" height="{size}" fill="{PAPER}"/>'
        f'<rect width="{size / 2}" height="{size}" fill="{colour}"/></pattern>'
    )


def legend(models: Sequence[StudyModel], left: float, top: float, right: float) -> tuple[list[str], float]:
    """A key for each model in rows between `left` and `right`, and the y below them."""
    parts, x, y = list[str](), left, top
    for model in models:
        own = look(model, models)
        needed = _KEY + 6 + width_of(model.title)
        if x > left and x + needed > right:
            x, y = left, y + _ROW
        parts += [rect(x, y - 10, _KEY, 12, own.fill, own.colour), text(x + _KEY + 6, y, model.title, colour=INK)]
        x += needed + _GAP
    return parts, y + _ROW
