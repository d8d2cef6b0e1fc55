"""λ over training, read from the log that a training run leaves beside its checkpoint."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models import StudioError

LOG = "log.jsonl"
MOST_POINTS = 400
TOWERS = ("vision", "text")


@dataclass(frozen=True)
class TowerLambdas:
    """One tower's λ over a run: S logged steps, L layers.

    Attributes:
        samples: pictures seen at each logged step, (S,).
        lam: λ, (S, L).
        terms: exp(λq1·λk1) and exp(λq2·λk2), (S, L) pairs, or None where the log does not hold them.
    """

    samples: tuple[int, ...]
    lam: tuple[tuple[float, ...], ...]
    terms: tuple[tuple[tuple[float, float], ...], ...] | None


@dataclass(frozen=True)
class LambdaLog:
    """Both towers of a run, and how many lines of its log could not be read."""

    towers: dict[str, TowerLambdas]
    bad_lines: int


def read_lambda_log(folder: Path) -> LambdaLog | None:
    """The run log in a checkpoint folder, thinned to at most 400 points, or None where there is no log.

    Raises:
        StudioError: the log is there and cannot be opened.
    """
    path = folder / LOG
    if not path.is_file():
        return None
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise StudioError(f"{path} cannot be read ({error}): check that the file may be opened.") from error
    steps = [_step(line) for line in lines if line.strip()]
    good = [step for step in steps if step is not None]
    return LambdaLog({tower: _tower(good, tower) for tower in TOWERS}, len(steps) - len(good))


def _step(line: str) -> dict[str, Any] | None:
    """One line of the log, or None if it is no step: a run that was stopped may leave half a line."""
    try:
        step = json.loads(line)
        if not isinstance(step["samples"], int):
            return None
        terms = step.get("lambda_terms") or {}
        for tower, values in step.get("lambda", {}).items():
            if not all(map(_is_number, values)):
                return None
            pairs = terms.get(tower)
            if pairs is not None and ([len(pair) for pair in pairs] != [2] * len(values)):
                return None
            if not all(_is_number(term) for pair in pairs or () for term in pair):
                return None
        return step
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _tower(steps: list[dict[str, Any]], tower: str) -> TowerLambdas:
    """The steps that hold λ of this tower, for as many layers as the last one does."""
    held = [step for step in steps if step.get("lambda", {}).get(tower)]
    layers = len(held[-1]["lambda"][tower]) if held else 0
    held = _thinned([step for step in held if len(step["lambda"][tower]) == layers])
    found = [(step.get("lambda_terms") or {}).get(tower) for step in held]
    terms = tuple(tuple((float(one), float(two)) for one, two in pairs) for pairs in found if pairs)
    return TowerLambdas(
        tuple(step["samples"] for step in held),
        tuple(tuple(map(float, step["lambda"][tower])) for step in held),
        terms if held and len(terms) == len(held) else None,
    )


def _thinned(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most 400 steps at even distances, the first and the last among them."""
    if len(steps) <= MOST_POINTS:
        return steps
    return [steps[round(i * (len(steps) - 1) / (MOST_POINTS - 1))] for i in range(MOST_POINTS)]
