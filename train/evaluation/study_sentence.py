"""What differential attention did to where attention lies, in sentences that hold for every seed that was measured.

Each sentence is about one comparison, paired over the same pictures. A seed says "higher" where the whole 95 %
interval is above 0, "lower" where it is below, and "no difference" where it holds 0. All seeds must say the same for
a sentence to claim it; otherwise the sentence says that seeds disagree, and what each of them says.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from train.evaluation.attention import DIFFERENCE, POSITIVE, readable
from train.evaluation.metrics import Measured
from train.evaluation.study_file import Difference, StudyFile, StudyModel
from train.evaluation.study_tables import points

Verdict = Literal["higher", "lower", "no difference"]
_MAIN = "DiffCLIP"
_METRICS = {"auroc": "AUROC of object patches", "mass": "mass on object patches"}


_CLAIMS = ((DIFFERENCE, "auroc"), (POSITIVE + DIFFERENCE, "mass"))


def sentences(found: StudyFile) -> str:
    """AUROC of A1 - lambda A2 and mass of its positive part, against the A of CLIP and against every control."""
    pairs = [
        _Pair(one, _model(found, one.model, one.seed), _model(found, one.against, one.seed))
        for one in found.differences
        if one.variant == _MAIN
    ]
    if not pairs:
        return f"No {_MAIN} was measured beside a CLIP of its seed, so nothing can be said of differential attention."
    told = [_against_clip(pairs, name, metric) for name, metric in _CLAIMS]
    return " ".join([*told, *(_against_controls(pairs, name, metric) for name, metric in _CLAIMS)])


@dataclass(frozen=True)
class _Pair:
    """A DiffCLIP and the CLIP of its seed."""

    difference: Difference
    model: StudyModel
    plain: StudyModel


def _model(found: StudyFile, name: str, seed: int | None) -> StudyModel:
    return next(model for model in found.models if (model.name, model.seed) == (name, seed))


def verdict(difference: Measured) -> Verdict:
    """What an interval of a difference allows to say."""
    if difference.low > 0:
        return "higher"
    return "lower" if difference.high < 0 else "no difference"


def _against_clip(pairs: Sequence[_Pair], name: str, metric: str) -> str:
    key = f"{name}: {metric}"
    what = f"the {_METRICS[metric]} of {_MAIN}'s {readable(name)}"
    if any(key not in pair.difference.numbers for pair in pairs):
        return f"{_capital(what)} was not compared with that of CLIP's A."
    said: list[Verdict] = [verdict(pair.difference.numbers[key]) for pair in pairs]
    figures = "; ".join(_figures(pair, key, metric) for pair in pairs)
    if len(set(said)) > 1:
        ways = " and ".join(f"{_IS[one]} {_seed(pair)}" for one, pair in zip(said, pairs, strict=True))
        return f"Seeds disagree about {what} against that of CLIP's A, which is {ways} ({figures})."
    return f"{_capital(what)} is {_IS[said[0]]} that of CLIP's A {_with(len(pairs))} ({figures})."


def _figures(pair: _Pair, key: str, metric: str) -> str:
    own, other, difference = pair.model.numbers[key], pair.plain.numbers[f"A: {metric}"], pair.difference.numbers[key]
    return (
        f"{_seed(pair)}: {own.value:.1%} against {other.value:.1%}, {points(difference.value)} points, "
        f"{points(difference.low)} to {points(difference.high)}"
    )


def _against_controls(pairs: Sequence[_Pair], name: str, metric: str) -> str:
    """Which controls it is above, below, or not told apart from with every seed, and about which seeds disagree."""
    groups: dict[str, list[str]] = {how: [] for how in _IS.values()}
    disagree: list[str] = []
    gains = [pair.model.gains.get(name, {}) for pair in pairs]
    for control in dict.fromkeys(control for own in gains for control in own):
        said: list[Verdict] = [verdict(own[control][metric]) for own in gains if metric in own.get(control, {})]
        if len(said) == len(pairs):
            (groups[_IS[said[0]]] if len(set(said)) == 1 else disagree).append(_short(control))
    parts = [f"{how} {_listed(names)}" for how, names in groups.items() if names]
    what = f"by {_METRICS[metric]}, {_MAIN}'s {readable(name)}"
    if not parts and not disagree:
        return f"{_capital(what)} was not compared with its controls."
    if not parts:
        return f"{_capital(what)} stands otherwise to its controls with each seed: {_listed(disagree)}."
    also = f"; seeds disagree about {_listed(disagree)}" if disagree else ""
    return f"{_capital(what)} is, {_with(len(pairs))}, {'; '.join(parts)}{also}."


_IS: dict[Verdict, str] = {"higher": "above", "lower": "below", "no difference": "not told apart from"}


def _short(control: str) -> str:
    """A control without the name of the map that it was made from, and without commas."""
    told = readable(control.removeprefix(POSITIVE).removeprefix(f"{DIFFERENCE}, "))
    return {"A1 sharpened to that entropy": "A1 at the positive part's entropy"}.get(told, told.replace(",", ""))


def _seed(pair: _Pair) -> str:
    return "without a known seed" if pair.model.seed is None else f"with seed {pair.model.seed}"


def _with(count: int) -> str:
    return {1: "with the one seed that was measured", 2: "with both seeds"}.get(count, f"with all {count} seeds")


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
