"""What models can do, as bars side by side: names under every rendering, retrieval, minimal pairs."""

from collections.abc import Sequence

from train.evaluation.figures.looks import hatchings, legend, look
from train.evaluation.figures.svg import INK, RULE, SOFT, line, page, rect, text
from train.evaluation.study import pairs_name
from train.evaluation.study_file import StudyModel
from train.scenes.pairs import ATTRIBUTES
from train.scenes.renderings import RENDERINGS

WIDTH, LEFT, RIGHT = 1080.0, 56.0, 20.0
_TALL, _BELOW, _ABOVE = 230.0, 44.0, 40.0
_FILLED = 0.8  # of a group's width
# A number -> the two lines that stand under its bars.
Groups = dict[str, tuple[str, str]]
_ABILITIES: Groups = {
    **{f"{name}: top1": (name, "names, top-1") for name in RENDERINGS},
    "image_to_text_r1": ("image to text", "R@1"),
    "text_to_image_r1": ("text to image", "R@1"),
}
_NOTE = (
    "Whiskers: 95 % bootstrap intervals over pictures. Dashed: chance. A model that does not see what differs in a "
    "pair scores 0, not 25 %."
)
_PAIRS: Groups = {pairs_name(name): (name, "minimal pairs") for name in ATTRIBUTES}


def bars(models: Sequence[StudyModel]) -> str:
    """The figure: a panel of names and retrieval, and one of minimal pairs."""
    keys, top = legend(models, LEFT, 30, WIDTH - RIGHT)
    parts = [hatchings(models), *keys]
    for title, groups in (("Names and captions, %", _ABILITIES), ("Minimal pairs, both choices right, %", _PAIRS)):
        parts += [text(LEFT, top + 14, title, 14, weight=600), *_panel(models, groups, top + _ABOVE)]
        top += _ABOVE + _TALL + _BELOW + 12
    parts.append(text(LEFT, top + 6, _NOTE, 12, colour=SOFT))
    said = "; ".join(f"{model.title}: {_said(model)}" for model in models)
    return page(WIDTH, top + 22, "What the models can do on unseen scenes", said, parts)


def _said(model: StudyModel) -> str:
    found = {**_ABILITIES, **_PAIRS}
    return ", ".join(f"{found[key][0]} {model.numbers[key].value:.0%}" for key in found if key in model.numbers)


def _panel(models: Sequence[StudyModel], groups: Groups, top: float) -> list[str]:
    parts, floor = list[str](), top + _TALL
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = floor - share * _TALL
        parts += [line(LEFT, y, WIDTH - RIGHT, y, INK if share == 0 else RULE)]
        parts += [text(LEFT - 8, y + 4, f"{share:.0%}".rstrip("%"), 12, "end", SOFT)]
    wide = (WIDTH - LEFT - RIGHT) / len(groups)
    for at, (key, (name, what)) in enumerate(groups.items()):
        start = LEFT + wide * at
        each = wide * _FILLED / len(models)
        for number, model in enumerate(models):
            if key in model.numbers:
                x = start + wide * (1 - _FILLED) / 2 + each * number
                parts += _bar(model, models, key, x, each, floor)
        chance = next((model.chance[key] for model in models if key in model.chance), None)
        if chance is not None:
            y = floor - chance * _TALL
            parts.append(line(start + 3, y, start + wide - 3, y, INK, 1.5, "5 3"))
        parts.append(text(start + wide / 2, floor + 18, name, 12, "middle"))
        parts.append(text(start + wide / 2, floor + 34, what, 11, "middle", SOFT))
    return parts


def _bar(model: StudyModel, models: Sequence[StudyModel], key: str, x: float, wide: float, floor: float) -> list[str]:
    own, number = look(model, models), model.numbers[key]
    high, low = floor - number.high * _TALL, floor - number.low * _TALL
    middle, cap = x + wide / 2, min(4.0, wide / 4)
    told = f"{model.title}: {number.value:.1%} ({number.low:.1%} to {number.high:.1%})"
    tall = number.value * _TALL
    return [
        rect(x + wide * 0.06, floor - tall, wide * 0.88, tall, own.fill, own.colour, told),
        line(middle, low, middle, high, INK, 1.2),
        line(middle - cap, high, middle + cap, high, INK, 1.2),
        line(middle - cap, low, middle + cap, low, INK, 1.2),
    ]
