"""The resume state on disk: never half written, never the only copy, read without running code.

A state is a folder of its own, whose facts.json is written last: with it, the state is complete. It is flushed to the
disk before state.json, replaced in one step, points to it. So a write that is cut anywhere leaves the pointer with the
state before, and without a readable pointer the newest complete state counts. The state before that is kept as well: if
a disk loses part of the newest one, the run goes on from there. Nothing is deleted unless two later states are known to
be good, because this run has read or written them.
"""

import hashlib
import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from models.errors import StudioError
from models.files.safetensors_files import read_safetensors, write_safetensors
from models.files.sniff import Limits
from models.plain import from_plain
from train.durable import sync_folder, write_whole, writing

POINTER, FACTS = "state.json", "facts.json"


@dataclass(frozen=True)
class Facts:
    """The plain numbers of a state.

    Attributes:
        step: steps taken.
        skipped_in_a_row: of them, the last ones that were skipped for not being finite.
        counts: samples seen and skipped by reason, over all ranks; as a `Tally` has them.
        epoch_counts: the same of the epoch that is not over; () at its start.
        ema_updates: of the moving average.
        scaler: GradScaler's state.
        files: what lies beside these numbers.
    """

    step: int
    skipped_in_a_row: int = 0
    counts: tuple[int, ...] = ()
    epoch_counts: tuple[int, ...] = ()
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


def save_state(run: Path, state: State, before: int = 0) -> Path:
    """Write a state into a folder of its own, then point to it, then delete those older than the state before it.

    `before` is the step of the last state that this run has read or written; 0 for none, and then nothing is deleted.

    Raises:
        StudioError: the disk is full or the folder cannot be written; the state before stays in its place.
    """
    folder = _folder(run, state.facts.step)
    with writing(folder):
        shutil.rmtree(folder, ignore_errors=True)  # of a write that was cut
        folder.mkdir(parents=True)
        # Before the first step an optimiser has no tensors, and most runs have no average.
        files = tuple(name for name in TENSORS if getattr(state, name))
        for name in files:
            write_safetensors(getattr(state, name), folder / f"{name}.safetensors")
        sync_folder(folder)
        write_whole(folder / FACTS, json.dumps(asdict(replace(state.facts, files=files))) + "\n")
        sync_folder(folder)
        sync_folder(run)
        write_whole(run / POINTER, json.dumps({"state": folder.name}) + "\n")
        sync_folder(run)
    if before:
        for path in run.glob("state-*"):
            if path.is_dir() and path.name < _folder(run, before).name:
                shutil.rmtree(path, ignore_errors=True)
    return folder


def load_state(run: Path) -> State | None:
    """The state that a run goes on from, or None if none was ever completed.

    Raises:
        StudioError: states were completed and none can be read.
    """
    complete = sorted((path.name for path in run.glob("state-*") if (path / FACTS).exists()), reverse=True)
    pointed = _pointed(run)
    names = [name for name in complete if not pointed or name <= pointed]
    if not names:
        # Without a pointer there may have been a first state, half written: it never counted.
        if not complete and not (run / POINTER).exists():
            return None
        raise StudioError(
            f"{run / POINTER} names {pointed or 'no state'}, and no state up to it is there: bring its folder back "
            "from a copy, or choose another --out to start again."
        )
    problems = []
    if names[0] != pointed:
        problems.append(f"{run / pointed if pointed else run / POINTER} is not there, or cannot be read.")
    for name in names:
        try:
            state = _read(run / name)
        except StudioError as error:
            problems.append(str(error))
            continue
        if problems:
            print(f"warning: {problems[0]} Going on from {name}.", file=sys.stderr)
        return state
    raise StudioError(
        f"No state in {run} can be read ({problems[0].rstrip('.')}): bring one back from a copy, or choose another "
        "--out to start again."
    )


def digest(state: State | None) -> str:
    """A sha256 over the facts and the weights of a state; "" for none."""
    if state is None:
        return ""
    found = hashlib.sha256(json.dumps(asdict(state.facts), sort_keys=True).encode())
    for name, tensor in sorted(state.model.items()):
        found.update(name.encode())
        found.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def _folder(run: Path, step: int) -> Path:
    return run / f"state-{step:09d}"


def _pointed(run: Path) -> str:
    """The name of the state that is pointed to; "" without a readable pointer. Later ones were never finished."""
    try:
        name = json.loads((run / POINTER).read_text(encoding="utf-8"))["state"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return name if isinstance(name, str) else ""


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
