"""λ over training, read from the step log that a training run writes."""

import functools
import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models import StudioError

LOG = "log.jsonl"
MOST_POINTS = 400
MOST_BYTES = 20 * 2**20
TOWERS = ("vision", "text")


@dataclass(frozen=True)
class TowerLambdas:
    """One tower's λ over a run: S logged steps, L layers.

    Attributes:
        steps: optimiser steps taken, (S,).
        samples: pictures seen, (S,).
        lam: λ, (S, L).
        terms: exp(λq1·λk1) and exp(λq2·λk2), (S, L) pairs, or None where the log does not hold them.
    """

    steps: tuple[int, ...]
    samples: tuple[int, ...]
    lam: tuple[tuple[float, ...], ...]
    terms: tuple[tuple[tuple[float, float], ...], ...] | None

    @property
    def layers(self) -> int:
        """Number of layers, L; 0 where nothing was logged."""
        return len(self.lam[0]) if self.lam else 0

    def lambda_init(self) -> tuple[float, ...] | None:
        """λ_init of each layer, (L,): what λ is beside its two terms; None without them."""
        if not self.terms:
            return None
        rest = [
            [value - one + two for value, (one, two) in zip(values, pairs, strict=True)]
            for values, pairs in zip(self.lam, self.terms, strict=True)
        ]
        return tuple(round(math.fsum(column) / len(column), 4) for column in zip(*rest, strict=True))


@dataclass(frozen=True)
class LambdaLog:
    """Both towers of a run, its last step, the file's sha256, and how many lines of it are left out.

    Attributes:
        bad_lines: those that could not be read.
        gone_back: those of steps that the log goes back behind later, as a run does that was taken up again.
    """

    towers: dict[str, TowerLambdas]
    last: tuple[int, int]
    bad_lines: int
    sha256: str
    gone_back: int = 0


def find_log(folder: Path) -> Path | None:
    """The log that belongs to a checkpoint or run folder: in it, or beside the checkpoint of a run."""
    places = [folder, folder.parent] if folder.name == "checkpoint" else [folder]
    return next((place / LOG for place in places if (place / LOG).is_file()), None)


def read_log(path: Path) -> LambdaLog:
    """A run's log, thinned to at most 400 points.

    Raises:
        StudioError: the log cannot be opened, is larger than 20 MB, or holds no step at all.
    """
    try:
        found = path.stat()
        return _read(path, found.st_mtime_ns, found.st_size)
    except OSError as error:
        raise StudioError(f"{path.name} cannot be read ({error.strerror}): check that it may be opened.") from error


@functools.lru_cache(maxsize=16)
def _read(path: Path, _changed: int, size: int) -> LambdaLog:
    if size > MOST_BYTES:
        raise StudioError(
            f"{path.name} has {math.ceil(10 * size / 2**20) / 10:g} MB, and logs of at most {MOST_BYTES // 2**20} MB "
            "are read: keep every tenth line of it."
        )
    data = path.read_bytes()
    lines = data.decode("utf-8-sig", "replace").splitlines()
    steps = [_step(line) for line in lines if line.strip()]
    read = [step for step in steps if step is not None]
    good = _ahead(read)
    if not good:
        raise StudioError(f"{path.name} holds no step of a training run: choose the {LOG} that such a run wrote.")
    last = good[-1]
    return LambdaLog(
        {tower: _tower(good, tower) for tower in TOWERS},
        (int(last.get("step", len(good))), last["samples"]),
        len(steps) - len(read),
        hashlib.sha256(data).hexdigest(),
        len(read) - len(good),
    )


def _ahead(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The steps without those that a later line goes back behind, so that training goes on from each to the next."""
    kept: list[dict[str, Any]] = []
    for step in reversed(steps):
        if not kept or _comes_before(step, kept[-1]):
            kept.append(step)
    return kept[::-1]


def _comes_before(step: dict[str, Any], later: dict[str, Any]) -> bool:
    """Whether one line can stand before another; those that do not count steps tell it by their samples."""
    counted = "step" in step and "step" in later
    return step["samples"] <= later["samples"] and not (counted and step["step"] >= later["step"])


def _step(line: str) -> dict[str, Any] | None:
    """One line of the log, or None if it is no step: a run that was stopped may leave half a line."""
    try:
        step = json.loads(line)
        if not _is_count(step["samples"]) or not _is_count(step.get("step", 0)):
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
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e6


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def _tower(steps: list[dict[str, Any]], tower: str) -> TowerLambdas:
    """The steps that hold λ of this tower, for as many layers as the last one does."""
    held = [(at, step) for at, step in enumerate(steps, start=1) if step.get("lambda", {}).get(tower)]
    layers = len(held[-1][1]["lambda"][tower]) if held else 0
    kept = _thinned([(at, step) for at, step in held if len(step["lambda"][tower]) == layers])
    found = [(step.get("lambda_terms") or {}).get(tower) for _, step in kept]
    terms = tuple(tuple((float(one), float(two)) for one, two in pairs) for pairs in found if pairs)
    return TowerLambdas(
        tuple(step.get("step", at) for at, step in kept),
        tuple(step["samples"] for _, step in kept),
        tuple(tuple(map(float, step["lambda"][tower])) for _, step in kept),
        terms if kept and len(terms) == len(kept) else None,
    )


def _thinned(steps: list[Any]) -> list[Any]:
    """At most 400 steps at even distances, the first and the last among them."""
    if len(steps) <= MOST_POINTS:
        return steps
    return [steps[round(i * (len(steps) - 1) / (MOST_POINTS - 1))] for i in range(MOST_POINTS)]
