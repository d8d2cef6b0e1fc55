"""Which model it was that was measured: its weights to the bit, its variant, and the run that made it."""

import hashlib
import json
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from models.checkpoints import WEIGHTS
from models.loaded import LoadedModel
from train.config import CONFIGS
from train.export import RUN_CONFIG
from train.run_folder import CHECKPOINT, CONFIG


def identity(asked: str, model: LoadedModel, device: str) -> dict[str, Any]:
    """A model as a report names it, with what was assumed of it and, where that is known, the run it came from."""
    return {
        "asked": asked,
        "name": model.name,
        "variant": variant(model),
        "family": model.origin.family,
        "weights": weights(model),
        "training": training(model.folder),
        "preprocess": model.preprocess_settings.to_dict(),
        "tokenizer": asdict(model.tokenizer.rule),
        "assumed": list(model.origin.assumed),
        "device": device,
    }


def variant(model: LoadedModel) -> str:
    """The kind of attention under the name of the DiffCLIP paper: * lambda_init by depth, † vision tower alone."""
    towers = [tower for tower in (model.vision, model.text) if tower.differential]
    if not towers:
        return "CLIP"
    if any(tower.lambda_init is None for tower in towers):
        return "DiffCLIP, DIFF V2"
    by_depth = "*" if any(len(set(tower.lambda_init or ())) > 1 for tower in towers) else ""
    return f"DiffCLIP{by_depth}{'' if model.text.differential else '†'}"


def weights(model: LoadedModel) -> dict[str, str]:
    """The file that holds a model's weights and the sha256 of its content."""
    path = model.origin.path
    file = path / WEIGHTS if path.is_dir() else path
    return {"file": file.name, "sha256": file_sha256(file)}


def file_sha256(path: Path) -> str:
    """sha256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def training(folder: Path) -> dict[str, Any] | None:
    """Name of the config, seed, package versions, and the command where the config is one of ours; None without a run.

    An exported folder has the run's record in it, the checkpoint of a run has it in the run's folder.
    """
    record = folder.parent / CONFIG if folder.name == CHECKPOINT else folder / RUN_CONFIG
    try:
        found = json.loads(record.read_text(encoding="utf-8"))
        name, seed = str(found["config"]["name"]), int(found["config"]["seed"])
        packages = dict(found["packages"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return {"config": name, "seed": seed, "command": _command(name, seed), "versions": packages}


def _command(name: str, seed: int) -> str | None:
    """The command that trains a shipped config under this seed; None for a config of somebody's own."""
    for path in sorted(CONFIGS.glob("*.toml")):
        shipped = tomllib.loads(path.read_text(encoding="utf-8"))
        if shipped["name"] == name:
            other = "" if shipped["seed"] == seed else f" seed={seed}"
            return f"python -m train fit train/configs/{path.name}{other}"
    return None
