"""Results for a person, as a table, and for a file that says how to get them again."""

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from models.errors import StudioError
from models.loaded import LoadedModel
from train.data.sample import counted, told
from train.durable import sync_folder, write_whole, writing
from train.evaluation.captioned import Captioned
from train.evaluation.identity import identity
from train.evaluation.labelled import Labelled
from train.evaluation.metrics import DRAWS, Measured
from train.evaluation.protocols import Protocol, RetrievalTask, Task, ZeroShotTask, settings_of, shares
from train.evaluation.retrieval import Retrieval
from train.evaluation.zero_shot import Classification
from train.run_folder import PACKAGES

INTERVALS = {"share": 0.95, "method": "percentile bootstrap over pictures", "draws": DRAWS, "seed": 0}
_SHOWN = 8


@dataclass(frozen=True, eq=False)
class Measurement:
    """A model, the name it was asked for by, what it was measured on, on which device, and what came out."""

    asked: str
    model: LoadedModel
    task: Task
    device: str
    result: Classification | Retrieval


def table(measurements: Sequence[Measurement]) -> str:
    """One column a model: each share in percent with its 95 % interval; what it was measured on, what was left out."""
    lines = columns([one.model.name for one in measurements], [shares(one.result) for one in measurements])
    return "\n".join([_heading(measurements[0]), "", *lines, "", *_notes(measurements)])


def columns(heads: Sequence[str], found: Sequence[Mapping[str, Measured]]) -> list[str]:
    """The lines of a table with a column for each of `found`, and a row for each share that any of them has."""
    rows = [["", *heads]]
    for name in dict.fromkeys(name for one in found for name in one):
        rows.append([name.replace("_", " "), *(_percent(one.get(name)) for one in found)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _percent(share: Measured | None) -> str:
    return "–" if share is None else f"{share.value:.1%} ({share.low:.1%} to {share.high:.1%})"


def _heading(one: Measurement) -> str:
    result = one.result
    if isinstance(result, Retrieval):
        size = f"{counted(result.images, 'picture')}, {counted(result.captions, 'caption')}"
        return f"retrieval, {_opened(one.task).description}: {size}"
    size = f"{counted(result.images, 'picture')} of {result.classes_seen:,} classes, {result.classes:,} candidates"
    return f"zero-shot, {_opened(one.task).description}: {size}, templates {result.templates}"


def _notes(measurements: Sequence[Measurement]) -> list[str]:
    """What a reader must know beside the numbers."""
    notes = ["Intervals: 95 %, bootstrap over pictures. Ties count against the model."]
    result = measurements[0].result
    if result.skipped:
        count = sum(result.skipped.values())
        notes.append(f"Not measured: {counted(count, 'picture')} that could not be read ({told(result.skipped)}).")
    left_out = dict(_opened(measurements[0].task).source.left_out)
    if left_out:
        notes.append(f"Not among the pictures: {counted(sum(left_out.values()), 'sample')} ({told(left_out)}).")
    if isinstance(result, Retrieval):
        if result.repeated_captions:
            notes.append(
                f"Captions that repeat an earlier one, and cannot be told from it: {result.repeated_captions:,}."
            )
        notes += [
            f"{one.model.name} does not see the tail of {counted(one.result.cut_captions, 'caption')}."
            for one in measurements
            if isinstance(one.result, Retrieval) and one.result.cut_captions
        ]
        return notes
    if result.classes < 5:
        notes.append("Top-5 means nothing over fewer than 5 classes.")
    if result.classes_seen < result.classes:
        notes.append(f"Mean class recall is over the {result.classes_seen:,} classes that have pictures.")
    for one in measurements:
        words = getattr(one.result, "unknown_words", ())
        if words:
            more = f" and {len(words) - _SHOWN:,} more" if len(words) > _SHOWN else ""
            notes.append(f"{one.model.name} never learned the words {', '.join(words[:_SHOWN])}{more}.")
    return notes


def report(protocol: Protocol, measurements: Sequence[Measurement]) -> dict[str, Any]:
    """Everything that is needed to get the same numbers again, and the numbers."""
    task = measurements[0].task
    data = _opened(task)
    return {
        "protocol": settings_of(protocol),
        "data": {
            "description": data.description,
            "fingerprint": data.source.fingerprint(),
            "images": len(task.indices),
            "left_out": dict(data.source.left_out),
        },
        "templates": asdict(task.templates) if isinstance(task, ZeroShotTask) else None,
        "intervals": INTERVALS,
        "versions": versions(),
        "results": [
            {"model": identity(one.asked, one.model, one.device), "result": asdict(one.result)} for one in measurements
        ],
    }


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers may depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def _opened(task: Task) -> Labelled | Captioned:
    return task.captioned if isinstance(task, RetrievalTask) else task.labelled


def check_report_path(path: Path) -> None:
    """Refuse a place for a report before anything is measured.

    Raises:
        StudioError: there is something already, or no folder to put it into.
    """
    if path.exists():
        raise StudioError(f"{path} is there already: choose another --out, or delete it.")
    if not path.absolute().parent.is_dir():
        raise StudioError(f"{path} cannot be written, for there is no folder {path.parent}: make it first.")


def write_report(path: Path, content: dict[str, Any]) -> Path:
    """Write a report as JSON, whole or not at all.

    Raises:
        StudioError: it cannot be written.
    """
    with writing(path):
        write_whole(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        sync_folder(path.absolute().parent)
    return path
