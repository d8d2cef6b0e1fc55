"""Trackers get every line and can neither stop nor delay a run."""

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from train.config import load_config
from train.loop import fit
from train.trackers import About, Guarded, flat

ABOUT = About(Path(), "tiny", "tests", {})


class Keeper:
    """A tracker that keeps what it is given, until what it is told to do at a step."""

    def __init__(self, kept: list[int], at: int = 0, error: BaseException | None = None, delay: float = 0.0) -> None:
        self.kept, self.at, self.error, self.delay, self.closed = kept, at, error, delay, False

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        if step == self.at:
            time.sleep(self.delay)
            if self.error:
                raise self.error
        self.kept.append(step)

    def close(self) -> None:
        self.kept.append(-1)


def test_a_tracker_gets_every_line_in_order_and_is_closed() -> None:
    kept: list[int] = []
    tracker = Guarded("keeper", lambda _: Keeper(kept), ABOUT)
    for step in range(1, 50):
        tracker.log({"loss": 1.0}, step)
    tracker.close()
    assert kept == [*range(1, 50), -1]
    assert tracker.is_over


@pytest.mark.parametrize("error", [ValueError("no room"), SystemExit(3), KeyboardInterrupt()])
def test_a_tracker_that_raises_is_told_once_and_left_out(
    error: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    kept: list[int] = []
    tracker = Guarded("keeper", lambda _: Keeper(kept, 3, error), ABOUT)
    for step in range(1, 9):
        tracker.log({}, step)
        time.sleep(0.01)
    tracker.close()
    assert kept == [1, 2]
    warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: keeper")]
    assert len(warnings) == 1
    assert type(error).__name__ in warnings[0]


def test_a_tracker_that_hangs_is_not_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()

    def slow(_: About) -> Keeper:
        time.sleep(0.5)
        return Keeper([], 1, delay=2.0)

    tracker = Guarded("keeper", slow, ABOUT, opening=0.05)
    for step in range(1, 3000):
        tracker.log({}, step)
    tracker.close(seconds=0.1)
    assert time.monotonic() - began < 1.5
    told = capsys.readouterr().err
    assert "has not answered" in told
    assert "did not finish" in told


def test_trackers_that_are_not_installed_do_not_stop_a_run(
    config_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("tensorboard", "wandb", "trackio"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    config = load_config(config_file, ['log.trackers=["tensorboard", "wandb", "trackio"]', "stop_after=2"])
    fit(config, tmp_path / "run")
    told = capsys.readouterr().err
    assert all(f"warning: {name} is left out" in told for name in ("tensorboard", "wandb", "trackio"))
    assert "pip install trackio" in told
    assert (tmp_path / "run" / "log.jsonl").read_text().count("\n") == 2


def test_a_line_is_flattened_by_path_and_words_are_left_out() -> None:
    line = {"step": 3, "norms": {"gradient": {"vision block 0": 2.0}}, "lambda": {"text": [0.5, 0.25]}, "skipped": "x"}
    assert flat(line) == {
        "step": 3.0,
        "norms/gradient/vision block 0": 2.0,
        "lambda/text/0": 0.5,
        "lambda/text/1": 0.25,
    }
