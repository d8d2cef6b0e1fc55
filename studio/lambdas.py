"""Runs whose λ is to be seen -> the value of the chart; and the checkpoints that were kept on their way."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from models import LoadedModel, StudioError
from models.checkpoints import CONFIG
from studio.runlog import LOG, TOWERS, LambdaLog, TowerLambdas, find_log, read_log
from studio.service import Service

MOST_RUNS = 6
STEPS, CHECKPOINT = "steps", "checkpoint"


@dataclass(frozen=True)
class Kept:
    """A checkpoint of a run at a step.

    Attributes:
        step: optimiser steps taken.
        name: of the model of this page that it is, or "" where it has to be opened from `folder`.
        folder: where it lies.
    """

    step: int
    name: str = ""
    folder: Path | None = None


@dataclass(frozen=True)
class Run:
    """One run as the chart shows it.

    Attributes:
        key: tells it from the others.
        title: how a person reads it.
        said: what there is to say of it, a sentence or none.
        log: λ over its steps, or None where only the end is known, or nothing.
        final: λ of each layer at its end by tower, where there is no log.
        kept: its checkpoints, the earliest first.
        model: the model of this page that it is of, "" for a log or a folder that a person gave.
    """

    key: str
    title: str
    said: str = ""
    log: LambdaLog | None = None
    final: dict[str, tuple[float, ...]] = field(default_factory=dict)
    kept: tuple[Kept, ...] = ()
    model: str = ""

    @property
    def curved(self) -> bool:
        """Whether there is anything to draw of it."""
        return bool(self.final) or (self.log is not None and any(self.log.towers[tower].lam for tower in TOWERS))


@dataclass(frozen=True)
class LambdaRuns:
    """Runs side by side, to be taken away; how they are drawn is chosen when they are."""

    runs: tuple[Run, ...]

    @property
    def nbytes(self) -> int:
        """What it takes in memory, about: a number is an object of Python's."""
        towers = [tower for run in self.runs if run.log is not None for tower in run.log.towers.values()]
        return 40 * sum(len(tower.steps) * (2 + tower.layers * (3 if tower.terms else 1)) for tower in towers)


def runs_of(service: Service, names: Sequence[str], logs: Sequence[Path], folders: Sequence[str]) -> tuple[Run, ...]:
    """The runs of models by name, of uploaded logs, and of folders that a person named; each once, six at most.

    A run that cannot be read, or may not be, says why and leaves the others as they are.

    Raises:
        StudioError: too many runs.
    """
    named = list(dict.fromkeys(filter(None, map(str.strip, folders))))
    found = list(dict.fromkeys(map(str, names)))
    if (count := len(found) + len(logs) + len(named)) > MOST_RUNS:
        raise StudioError(f"{count} runs are too many to tell apart: choose {MOST_RUNS} at most.")
    runs = [
        *(_or_why(name, service.title(name), partial(run_of_model, service, name)) for name in found),
        *(_or_why(path.name, path.name, partial(_of_sent, path)) for path in logs),
        *(_or_why(text, text[:80], partial(run_of_folder, service, text)) for text in named),
    ]
    # A folder may be named in several ways.
    return tuple({run.key: run for run in reversed(runs)}.values())[::-1]


def _or_why(key: str, title: str, run: Callable[[], Run]) -> Run:
    try:
        return run()
    except StudioError as error:
        # The title stands before it on the page, and may be the name with which the sentence begins.
        return Run(key, title, str(error).removeprefix(f"{title} "))


def run_of_model(service: Service, name: str) -> Run:
    """What is known of the λ of a model: its log, or at least where its λ ended.

    Raises:
        StudioError: its log or its checkpoint is broken, or there is none of that name.
    """
    title, folder = service.title(name), service.folder(name)
    path = None if folder is None else find_log(folder)
    if folder is not None and path is not None:
        run = run_of_log(name, title, path, _kept(folder, path))
        if run.log is not None and run.curved:
            return replace(run, kept=(*run.kept, Kept(run.log.last[0], name)), model=name)
    model = service.model(name)
    final = final_of(model)
    said = _without_log(model, final, logged=path is not None, above=_run_above(folder))
    return Run(name, title, said, None, final, (Kept(0, name),), name)


def final_of(model: LoadedModel) -> dict[str, tuple[float, ...]]:
    """λ of each layer as the model has it, by tower; none for towers without one number a layer."""
    return {tower.name: values for tower in (model.vision, model.text) if (values := tower.lambdas()) is not None}


def _of_sent(path: Path) -> Run:
    return run_of_log(f"log:{path.parent.name}/{path.name}", path.name, path, ())


def run_of_folder(service: Service, text: str) -> Run:
    """A run's folder, or its log, as a person named it.

    Raises:
        StudioError: it may not be opened here, or holds no log.
    """
    place = service.policy.path(text)
    path = place if place.is_file() else find_log(place)
    if path is None:
        raise StudioError(f"{text!r} holds no {LOG}: name the folder of a training run.")
    folder = path.parent
    kept = _kept(folder, path)
    run = run_of_log(str(folder), folder.name, path, kept)
    if (folder / CHECKPOINT / CONFIG).is_file() and run.log is not None:
        kept = (*kept, Kept(run.log.last[0], "", folder / CHECKPOINT))
    return replace(run, kept=kept)


def run_of_log(key: str, title: str, path: Path, kept: tuple[Kept, ...]) -> Run:
    """A run by its log.

    Raises:
        StudioError: the log cannot be read, or holds no step.
    """
    log = read_log(path)
    said = []
    if log.bad_lines:
        lines, are = ("line", "is") if log.bad_lines == 1 else ("lines", "are")
        said.append(f"{log.bad_lines} {lines} of its log could not be read and {are} left out.")
    if log.gone_back:
        said.append(
            f"Its log goes back to an earlier step; of what it holds twice the last counts, and {log.gone_back} lines "
            "before that are left out."
        )
    if not any(log.towers[tower].lam for tower in TOWERS):
        said.append("Its log holds no λ: standard attention has none, and in DIFF V2 each token and head has its own.")
    else:
        said += [f"Its log holds no λ of the {tower} tower." for tower in TOWERS if not log.towers[tower].lam]
        if any(log.towers[tower].lam and log.towers[tower].terms is None for tower in TOWERS):
            said.append("Its log holds λ without its two terms, so λ_init is not known from it.")
    return Run(key, title, " ".join(said), log, {}, kept)


def _kept(folder: Path, log: Path) -> tuple[Kept, ...]:
    """Checkpoints of earlier steps, in `steps/<step>` beside the log or in the folder, the earliest first."""
    found = {
        int(path.name): path
        for place in {folder, log.parent}
        for path in (place / STEPS).glob("*")
        if path.name.isdecimal() and (path / CONFIG).is_file()
    }
    return tuple(Kept(step, "", found[step]) for step in sorted(found))


def _run_above(folder: Path | None) -> Path | None:
    """The run's folder of a checkpoint that was kept on its way, which lies in `steps/<step>` of it."""
    if folder is None or folder.parent.name != STEPS or not folder.name.isdecimal():
        return None
    above = folder.parent.parent
    return above if find_log(above) is not None else None


def _without_log(
    model: LoadedModel, final: dict[str, tuple[float, ...]], *, logged: bool, above: Path | None = None
) -> str:
    towers = (model.vision, model.text)
    if not any(tower.differential for tower in towers):
        return "It has no λ: its attention is standard, nothing is subtracted."
    if not final:
        return "In DIFF V2 λ is a sigmoid of the token, one for each token and head: there is no λ of a layer to draw."
    why = f"Its {LOG} holds no λ" if logged else f"No {LOG} of its training is here"
    if above is not None:
        kept = f"It was kept at step {model.origin.path.name} of the run {above.name}"
        why = f"{kept}, whose log is drawn where that is chosen"
    without = [f"Its {tower.name} tower has no λ of a layer." for tower in towers if tower.name not in final]
    known = "Only the final λ is known, that of these weights: dots at the right edge, whatever their step."
    return " ".join([known, f"{why}.", *without])


def chart_value(runs: Sequence[Run], take: str = "", taken: Sequence[int] = ()) -> dict[str, Any]:
    """The value of `studio.viewer.lambda_chart`: plain numbers with five digits, series by layer.

    Args:
        runs: what is shown.
        take: the name by which it can be taken away, "" where it cannot.
        taken: the places of those runs that the name stands for.
    """
    return {"runs": [_plain(run) for run in runs], "take": take, "taken": list(taken)}


def _plain(run: Run) -> dict[str, Any]:
    towers: dict[str, Any] = {}
    for tower in TOWERS:
        logged = run.log.towers[tower] if run.log else None
        if logged is not None and logged.lam:
            towers[tower] = _series(logged)
        elif tower in run.final:
            towers[tower] = {"final": [_digits(value) for value in run.final[tower]]}
    return {
        "key": run.key,
        "title": run.title,
        "model": bool(run.model),
        "said": run.said,
        "towers": towers,
        "kept": [kept.step for kept in run.kept],
    }


def _series(logged: TowerLambdas) -> dict[str, Any]:
    init = logged.lambda_init()
    lines = {
        "steps": list(logged.steps),
        "samples": list(logged.samples),
        "lam": [[_digits(value) for value in line] for line in zip(*logged.lam, strict=True)],
        "init": None if init is None else list(init),
    }
    if logged.terms is not None:
        by_layer = list(zip(*logged.terms, strict=True))
        lines["one"] = [[_digits(pair[0]) for pair in line] for line in by_layer]
        lines["two"] = [[_digits(pair[1]) for pair in line] for line in by_layer]
    return lines


def _digits(value: float) -> float:
    return float(f"{value:.5g}")


def kept_of(runs: Sequence[Run], asked: Any) -> tuple[Run, Kept]:
    """The run and the checkpoint that the chart asks for.

    Raises:
        StudioError: there is no such run or step.
    """
    if isinstance(asked, dict):
        for run in runs:
            for kept in run.kept:
                if run.key == asked.get("run") and kept.step == asked.get("step"):
                    return run, kept
    raise StudioError("No checkpoint of that step was kept: choose one of the marked steps.")
