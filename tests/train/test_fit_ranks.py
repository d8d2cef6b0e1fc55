"""The same program on two processes: data shared, one folder written, stopped together, measured together."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from ranks import next_group, run_ranks
from stopping import stopping_at

from models.errors import StudioError
from train.checkpointing import load_state
from train.config import RunConfig, load_config
from train.logbook import read_log
from train.loop import fit

WHOLE = ["evaluation={of=[{scenes=6}], every=4}", "ema=0.5", "skip_non_finite=2"]
LONG = ["stages=[{samples=8000, image_size=16}]", "log.probe_every=0"]


def ignored(step: int) -> None:
    """What the other rank does after a step."""


def in_group(config: RunConfig, run: Path, after_step: Callable[[int], None] = ignored) -> Path:
    """`fit` with a process group of its own."""
    next_group()
    return fit(config, run, after_step=after_step)


def both_ranks(rank: int, config: Path, folder: Path) -> None:
    results: dict[str, object] = {}
    results["whole"] = str(in_group(load_config(config, WHOLE), folder / "whole"))
    # To one rank alone.
    signalled = stopping_at(3, signal.SIGTERM) if rank == 1 else ignored
    results["stopped"] = str(in_group(load_config(config, LONG), folder / "stopped", after_step=signalled))
    state = load_state(folder / "stopped")
    assert state is not None
    step = state.facts.step
    in_group(load_config(config, [*LONG, f"stop_after={step + 1}"]), folder / "stopped")
    results["step"] = step
    try:
        in_group(load_config(config, ["seed=9"]), folder / "whole")
    except StudioError as error:
        results["refused"] = str(error)
    try:
        in_group(load_config(config, ["optim.lr=1e30", "optim.grad_clip=inf"]), folder / "broken")
    except StudioError as error:
        results["broken"] = str(error)
    torch.save(results, folder / f"{rank}.pt")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict]]:
    from run_toml import TOML

    folder = tmp_path_factory.mktemp("ranks")
    (folder / "tiny.toml").write_text(TOML)
    run_ranks(both_ranks, 2, folder / "tiny.toml", folder, seconds=240)
    return folder, [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(2)]


def test_two_processes_train_as_one(ranks: tuple[Path, list[dict]]) -> None:
    folder, results = ranks
    fit(load_config(folder / "tiny.toml", WHOLE), folder / "alone")
    both, alone = (read_log(folder / name / "log.jsonl") for name in ("whole", "alone"))
    assert [line["step"] for line in both] == list(range(1, 9))
    for one, other in zip(both, alone, strict=True):
        # Sums in another order; Adam's first steps make the most of such differences.
        assert one["loss"] == pytest.approx(other["loss"], rel=2e-3)
        assert one["valid"] == other["valid"] == 8
        assert one["lr"] == other["lr"]
    measured = [read_log(folder / name / "evaluation.jsonl") for name in ("whole", "alone")]
    assert [line["step"] for line in measured[0]] == [4, 8]
    assert measured[0][0].keys() == measured[1][0].keys()
    assert any(name.startswith("average/") for name in measured[0][0])
    assert results[0]["whole"] == results[1]["whole"] == str(folder / "whole" / "checkpoint")


def test_a_signal_to_one_of_two_processes_stops_both_at_one_step(ranks: tuple[Path, list[dict]]) -> None:
    folder, results = ranks
    assert results[0]["stopped"] == results[1]["stopped"] == str(folder / "stopped")
    step = results[0]["step"]
    assert step == results[1]["step"]
    assert step == 3
    assert [line["step"] for line in read_log(folder / "stopped" / "log.jsonl")] == list(range(1, step + 2))


def test_an_error_of_one_process_is_the_error_of_all(ranks: tuple[Path, list[dict]]) -> None:
    _, results = ranks
    assert "already holds another run" in results[0]["refused"]
    assert results[0]["refused"] == results[1]["refused"]
    assert "The loss of step" in results[0]["broken"]
    assert results[0]["broken"] == results[1]["broken"]
