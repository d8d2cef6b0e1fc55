"""The resume state on disk: never half written, never the only copy, read without running code.

A state is a folder of its own, written and flushed to the disk before state.json, replaced in one step, points to it.
So a write that is cut anywhere leaves the pointer with the state before. The state before that is kept as well: if a
disk loses part of the newest one, the run goes on from there.
"""

import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from torch import Tensor

from models.errors import StudioError
from models.files.safetensors_files import read_safetensors, write_safetensors
from models.files.sniff import Limits
from models.plain import from_plain

POINTER, FACTS = "state.json", "facts.json"
KEPT = 2


@dataclass(frozen=True)
class Facts:
    """The plain numbers of a state.

    Attributes:
        step: steps taken.
        skipped_in_a_row: of them, the last ones that were skipped for not being finite.
        counts: samples seen and skipped by reason, over all ranks; as a `Tally` has them.
        ema_updates: of the moving average.
        scaler: GradScaler's state.
        files: what lies beside these numbers.
    """

    step: int
    skipped_in_a_row: int = 0
    counts: tuple[int, ...] = ()
    ema_updates: int = 0
    scaler: dict = field(default_factory=dict)
    files: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class State:
    """Where a run stands. Random numbers are no part of it: each step draws from a seed of its own.

    Attributes:
        model: parameters by name.
        optimizer: its tensors by "PARAMETER/NAME".
        ema: averages by parameter name; empty for none.
    """

    facts: Facts
    model: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor]
    ema: Mapping[str, Tensor]


TENSORS = ("model", "optimizer", "ema")
# The run's own files: as large as the run was.
LIMITS = Limits(total_bytes=2**50)


def save_state(run: Path, state: State) -> Path:
    """Write a state into a folder of its own, then point to it, then delete all but the last two.

    Raises:
        CheckpointError: the disk is full or the folder cannot be written; the state before stays in its place.
    """
    folder = run / f"state-{state.facts.step:09d}"
    shutil.rmtree(folder, ignore_errors=True)  # of a write that was cut
    folder.mkdir(parents=True)
    # Before the first step an optimiser has no tensors, and most runs have no average.
    files = tuple(name for name in TENSORS if getattr(state, name))
    for name in files:
        write_safetensors(getattr(state, name), folder / f"{name}.safetensors")
    _write_text(folder / FACTS, json.dumps(asdict(replace(state.facts, files=files))) + "\n")
    _sync_folder(folder)
    before = _pointed(run)
    _write_text(run / POINTER, json.dumps({"state": folder.name}) + "\n")
    _sync_folder(run)
    kept = {folder.name, *before[: KEPT - 1]}
    for path in run.glob("state-*"):
        if path.is_dir() and path.name not in kept:
            shutil.rmtree(path, ignore_errors=True)
    return folder


def load_state(run: Path) -> State | None:
    """The state that a run goes on from, or None if none was ever written.

    Raises:
        StudioError: states were written and none can be read.
    """
    names = _pointed(run)
    if not names:
        if (run / POINTER).exists():
            raise StudioError(f"{run / POINTER} names no state that is there: delete {run} to start the run again.")
        return None
    problems = []
    for name in names:
        try:
            state = _read(run / name)
        except StudioError as error:
            problems.append(str(error))
            continue
        if problems:
            print(f"warning: {problems[0]} Going on from {name}.", file=sys.stderr)
        return state
    raise StudioError(f"No state in {run} can be read ({problems[0]}) Delete the folder to start the run again.")


def _pointed(run: Path) -> list[str]:
    """The state that is pointed to and those before it, newest first; later ones were never finished."""
    try:
        newest = str(json.loads((run / POINTER).read_text(encoding="utf-8"))["state"])
    except (OSError, ValueError, KeyError, TypeError):
        return []
    names = sorted((path.name for path in run.glob("state-*") if path.is_dir()), reverse=True)
    return [name for name in names if name <= newest]


def _read(folder: Path) -> State:
    try:
        facts = from_plain(Facts, json.loads((folder / FACTS).read_text(encoding="utf-8")), str(folder / FACTS))
    except (OSError, ValueError) as error:
        raise StudioError(f"{folder / FACTS} cannot be read ({error}).") from error
    files = {name: folder / f"{name}.safetensors" for name in TENSORS if name in facts.files}
    try:
        read = {name: read_safetensors(path, LIMITS)[0] for name, path in files.items()}
    except OSError as error:
        raise StudioError(f"{folder} cannot be read ({error}).") from error
    return State(facts, *(read.get(name, {}) for name in TENSORS))


def _write_text(path: Path, text: str) -> None:
    """A file that is there whole or not at all, also after a power cut."""
    partial = path.with_name(path.name + ".tmp")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def _sync_folder(folder: Path) -> None:
    """Flush the names in a folder; systems that cannot open folders have no need."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
