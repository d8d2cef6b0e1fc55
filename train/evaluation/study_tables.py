"""A study as tables in Markdown: what models can do, where attention lies, and what each has more than CLIP."""

from collections.abc import Sequence

from train.evaluation.attention import DIFFERENCE, METRICS, POSITIVE, READING_ORDER, readable
from train.evaluation.metrics import Measured
from train.evaluation.study import DEPTHS, WAYS, pairs_name
from train.evaluation.study_file import Difference, StudyFile, StudyModel
from train.scenes.pairs import ATTRIBUTES
from train.scenes.renderings import RENDERINGS

# A number -> what its row is called.
_ABILITIES = {
    "plain: top1": "names, top-1",
    "plain: top5": "names, top-5",
    **{f"{name}: top1": f"names, {name}, top-1" for name in RENDERINGS if name != "plain"},
    **{f"{way}_r{k}": f"{way.replace('_', ' ')}, R@{k}" for way in WAYS for k in DEPTHS},
    **{pairs_name(name): f"minimal pairs, {name}" for name in ATTRIBUTES},
}
_METRICS = {"auroc": "AUROC", "mass": "mass", "lift": "lift"}
_AGAINST_CLIP = {
    f"{name}: {metric}": f"{readable(name)} against A, {_METRICS[metric]}"
    for name in ("A1", DIFFERENCE, POSITIVE + DIFFERENCE)
    for metric in ("auroc", "mass")
}


def abilities(found: StudyFile) -> str:
    """Names, renderings, captions and minimal pairs: percent with 95 % intervals, chance in the last column."""
    rows = [
        [label, *(_share(model.numbers.get(key)) for model in found.models), _chance(found.models, key)]
        for key, label in _ABILITIES.items()
        if any(key in model.numbers for model in found.models)
    ]
    return _markdown(["%", *(model.title for model in found.models), "chance"], rows)


def attention(found: StudyFile) -> str:
    """AUROC, mass and lift of every map and control, means over layers; a uniform row in the last column."""
    rows = [
        [
            f"{readable(name)}, {_METRICS[metric]}",
            *(_cell(model, f"{name}: {metric}") for model in found.models),
            _chance(found.models, f"{name}: {metric}"),
        ]
        for name in READING_ORDER
        for metric in METRICS[::-1]
        if any(f"{name}: {metric}" in model.numbers for model in found.models)
    ]
    return _markdown(["%", *(model.title for model in found.models), "uniform row"], rows)


def layers(found: StudyFile) -> str:
    """AUROC and mass of every map and control in each layer, which the means of `attention` hide."""
    deepest = max(len(values) for model in found.models for values in model.layers.values())
    rows = [
        [f"{model.title}: {readable(name)}, {_METRICS[metric]}", *map(_share, values)] + ["–"] * (deepest - len(values))
        for model in found.models
        for name in READING_ORDER
        for metric in ("auroc", "mass")
        if (values := model.layers.get(f"{name}: {metric}")) is not None
    ]
    return _markdown(["%", *(f"layer {number}" for number in range(deepest))], rows)


def differences(found: StudyFile) -> str:
    """What each model has more than the CLIP of its seed, in points, with the interval of the paired difference."""
    told = found.differences
    labels = {**_ABILITIES, **_AGAINST_CLIP}
    rows = [
        [label, *(_points(one.numbers.get(key)) for one in told)]
        for key, label in labels.items()
        if any(key in one.numbers for one in told)
    ]
    return _markdown(["points", *map(_against, told)], rows)


def gains(found: StudyFile) -> str:
    """What A1 - lambda A2 and its positive part have more than each control, in points, paired."""
    models = [model for model in found.models if model.gains]
    rows = [
        [
            f"{readable(own)} − {readable(control)}, {_METRICS[metric]}",
            *(_gain(model, own, control, metric) for model in models),
        ]
        for own in (DIFFERENCE, POSITIVE + DIFFERENCE)
        for control in dict.fromkeys(name for model in models for name in model.gains.get(own, {}))
        for metric in (("auroc",) if own == DIFFERENCE else ("auroc", "mass"))
    ]
    return _markdown(["points", *(model.title for model in models)], rows)


def _against(one: Difference) -> str:
    return f"{one.variant} − CLIP, {'no seed known' if one.seed is None else f'seed {one.seed}'}"


def _gain(model: StudyModel, own: str, control: str, metric: str) -> str:
    return _points(model.gains.get(own, {}).get(control, {}).get(metric))


def _cell(model: StudyModel, key: str) -> str:
    number = model.numbers.get(key)
    if number is not None and key.endswith(": lift"):
        return f"{number.value:.2f}× ({number.low:.2f} to {number.high:.2f})"
    return _share(number)


def _share(number: Measured | None) -> str:
    return "–" if number is None else f"{_percent(number.value)} ({_percent(number.low)} to {_percent(number.high)})"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def points(share: float) -> str:
    """A difference of shares in points, with its sign."""
    return f"{100 * share:+.1f}".replace("-", "−")


def _points(number: Measured | None) -> str:
    return "–" if number is None else f"{points(number.value)} ({points(number.low)} to {points(number.high)})"


def _chance(models: Sequence[StudyModel], key: str) -> str:
    """What chance gives, where that is one number for all models."""
    found = {_percent(model.chance[key]) for model in models if key in model.chance and key in model.numbers}
    if key.endswith(": lift"):
        return "1.00×"
    return " / ".join(sorted(found))


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
