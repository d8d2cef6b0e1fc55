"""The resume state of a run: weights, optimiser, step; written whole or not at all, read without running code."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from models.errors import StudioError

FILE = "state.pt"


@dataclass(frozen=True)
class State:
    """Where a run stands after `step` steps."""

    step: int
    model: dict[str, torch.Tensor]
    optimizer: dict[str, Any]


def save_state(folder: Path, state: State) -> None:
    """Write to a new file, flush it to the disk, then put it in the place of the last one."""
    partial = folder / (FILE + ".tmp")
    with partial.open("wb") as file:
        torch.save({"step": state.step, "model": state.model, "optimizer": state.optimizer}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, folder / FILE)


def load_state(folder: Path) -> State | None:
    """The state in a run's folder, or None if it was never written.

    Raises:
        StudioError: the file is broken.
    """
    path = folder / FILE
    if not path.exists():
        return None
    try:
        data = torch.load(path, weights_only=True)
        return State(int(data["step"]), data["model"], data["optimizer"])
    except Exception as error:  # torch raises many kinds for a file that is cut or foreign
        raise StudioError(f"{path} cannot be read ({error}): delete it to start the run again.") from error
