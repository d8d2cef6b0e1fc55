"""Where attention lies: AUROC and mass of every map beside its controls, a mark a model with its interval."""

from collections.abc import Callable, Sequence

from train.evaluation.attention import READING_ORDER, SIGNED, readable
from train.evaluation.figures.looks import Look, hatchings, legend, look
from train.evaluation.figures.svg import INK, PAPER, RULE, SOFT, line, page, rect, text
from train.evaluation.metrics import Measured
from train.evaluation.study_file import StudyModel
from train.svg import ticks

WIDTH, NAMES = 1120.0, 372.0
_PANEL, _BETWEEN, _EACH, _PAD = 336.0, 48.0, 11.0, 12.0
PANELS = {"auroc": "AUROC of object patches, %", "mass": "Mass on object patches, %"}


def attention(models: Sequence[StudyModel]) -> str:
    """The figure: a row a map, a panel a metric, means over layers."""
    keys, top = legend(models, 24, 30, WIDTH - 20)
    parts = [hatchings(models), *keys]
    shown = {name: _with(models, name) for name in READING_ORDER if _with(models, name)}
    start = top + 40
    tall = sum(_height(own) for own in shown.values())
    for at, (metric, title) in enumerate(PANELS.items()):
        parts += _panel(models, shown, metric, title, NAMES + at * (_PANEL + _BETWEEN), start, tall)
    y = start
    for name, own in shown.items():
        parts.append(text(NAMES - 14, y + _height(own) / 2 + 4, readable(name), 12, "end"))
        y += _height(own)
    notes = (
        "CLS row over patches, mean over heads, then over layers; bars: 95 % bootstrap intervals over pictures. "
        "Hollow: further seeds.",
        "A signed map has no mass. A uniform A2 and a temperature keep A1's order of patches, and with it A1's AUROC; "
        "a positive part makes ties.",
    )
    y += 66
    for note in notes:
        parts.append(text(24, y, note, 12, colour=SOFT))
        y += 18
    said = "; ".join(
        f"{model.title}: "
        + ", ".join(f"{readable(name)} {_number(model, name, 'auroc')}" for name in shown if model in shown[name])
        for model in models
    )
    return page(WIDTH, y + 4, "Attention on objects, AUROC and mass", f"AUROC. {said}", parts)


def _with(models: Sequence[StudyModel], name: str) -> list[StudyModel]:
    return [model for model in models if f"{name}: auroc" in model.numbers]


def _number(model: StudyModel, name: str, metric: str) -> str:
    return f"{model.numbers[f'{name}: {metric}'].value:.1%}"


def _height(models: Sequence[StudyModel]) -> float:
    return _EACH * len(models) + _PAD


def _panel(
    models: Sequence[StudyModel],
    shown: dict[str, list[StudyModel]],
    metric: str,
    title: str,
    left: float,
    top: float,
    tall: float,
) -> list[str]:
    present = [
        (model, f"{name}: {metric}") for name, own in shown.items() for model in own if _has(model, name, metric)
    ]
    if not present:
        return []
    found, chances = [one.numbers[key] for one, key in present], [one.chance[key] for one, key in present]
    ends = [one.low for one in found] + [one.high for one in found] + chances
    low, high = min(ends), max(ends)
    low, high = low - 0.06 * (high - low) - 1e-3, high + 0.06 * (high - low) + 1e-3

    def place(share: float) -> float:
        return left + (share - low) / (high - low) * _PANEL

    parts = [text(left, top - 14, title, 14, weight=600)]
    for tick in ticks(100 * low, 100 * high, 5):
        x = place(tick / 100)
        parts += [line(x, top, x, top + tall, RULE), text(x, top + tall + 18, f"{tick:g}", 12, "middle", SOFT)]
    y = top
    for name, own in shown.items():
        parts.append(line(left, y, left + _PANEL, y, RULE))
        for at, model in enumerate(own):
            if _has(model, name, metric):
                middle = y + _PAD / 2 + _EACH * (at + 0.5)
                told = f"{model.title}, {readable(name)}: {_number(model, name, metric)}"
                parts += _mark(look(model, models), model.numbers[f"{name}: {metric}"], middle, place, told)
        y += _height(own)
    parts.append(line(left, y, left + _PANEL, y, RULE))
    for chance in sorted({round(chance, 4) for chance in chances}):
        parts.append(line(place(chance), top, place(chance), top + tall, INK, 1.5, "5 3"))
    parts.append(text(place(min(chances)), top + tall + 34, "uniform row", 11, "middle", SOFT))
    return parts


def _has(model: StudyModel, name: str, metric: str) -> bool:
    return f"{name}: {metric}" in model.numbers and not (metric == "mass" and name in SIGNED)


def _mark(own: Look, number: Measured, y: float, place: Callable[[float], float], told: str) -> list[str]:
    x = place(number.value)
    return [
        line(place(number.low), y, place(number.high), y, own.colour, 2),
        rect(x - 4, y - 4, 8, 8, PAPER if own.dash else own.colour, own.colour, told),
    ]
