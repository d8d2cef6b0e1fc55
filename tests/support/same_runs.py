"""Runs of training on disk: their logs, their states, and whether two of them are the same."""

from pathlib import Path

import torch
from safetensors.torch import load_file

from train.checkpointing import State, load_state
from train.logbook import WALL_CLOCK, read_log


def lines_of(run: Path, name: str = "log.jsonl") -> list[dict]:
    """The lines of a run's log, without what tells of the clock and the machine."""
    return [{k: v for k, v in line.items() if k not in WALL_CLOCK} for line in read_log(run / name)]


def state_of(run: Path) -> State:
    """The state that a run goes on from; it has one."""
    state = load_state(run)
    assert state is not None
    return state


def assert_same(one: Path, other: Path) -> None:
    """Two runs have the same log, measurements and state, bit for bit."""
    assert lines_of(one) == lines_of(other)
    if (one / "evaluation.jsonl").exists():
        assert lines_of(one, "evaluation.jsonl") == lines_of(other, "evaluation.jsonl")
    first, second = state_of(one), state_of(other)
    assert first.facts == second.facts
    for name in ("model", "optimizer", "ema"):
        tensors, others = getattr(first, name), getattr(second, name)
        assert tensors.keys() == others.keys()
        assert all(torch.equal(tensor, others[key]) for key, tensor in tensors.items()), name
    weights = [load_file(run / "checkpoint" / "model.safetensors") for run in (one, other)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
