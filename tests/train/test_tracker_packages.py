"""What the packages of trackers are asked, by stand-ins that take the arguments which the packages document."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from train.config import load_config
from train.loop import fit
from train.trackers import OPENERS, About, _has_wandb_key

Calls = list[tuple[str, dict[str, Any]]]


def module(name: str, **members: Any) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(members)
    return made


def tensorboard(calls: Calls) -> ModuleType:
    class SummaryWriter:
        def __init__(
            self,
            log_dir: str | None = None,
            comment: str = "",
            purge_step: int | None = None,
            max_queue: int = 10,
            flush_secs: int = 120,
            filename_suffix: str = "",
        ) -> None:
            calls.append(("open", {"folder": log_dir, "purge": purge_step}))

        def add_scalar(self, tag: str, scalar_value: float, global_step: int | None = None) -> None:
            calls.append(("log", {tag: scalar_value, "at": global_step}))

        def close(self) -> None:
            calls.append(("close", {}))

    return module("torch.utils.tensorboard", SummaryWriter=SummaryWriter)


def wandb(calls: Calls) -> ModuleType:
    class Run:
        def log(self, data: dict[str, Any], step: int | None = None, commit: bool | None = None) -> None:
            calls.append(("log", {**data, "at": step}))

        def finish(self, exit_code: int | None = None, quiet: bool | None = None) -> None:
            calls.append(("close", {}))

    def init(
        entity: str | None = None,
        project: str | None = None,
        dir: str | None = None,
        id: str | None = None,
        name: str | None = None,
        config: dict[str, Any] | None = None,
        mode: str | None = None,
        resume: bool | str | None = None,
    ) -> Run:
        calls.append(("open", {"folder": dir, "id": id, "mode": mode, "resume": resume, "config": config}))
        calls.append(("named", {"project": project, "name": name}))
        return Run()

    return module("wandb", init=init)


def trackio(calls: Calls) -> ModuleType:
    def init(
        project: str,
        name: str | None = None,
        space_id: str | None = None,
        dataset_id: str | None = None,
        config: dict[str, Any] | None = None,
        resume: str = "never",
    ) -> None:
        calls.append(("open", {"resume": resume, "config": config}))
        calls.append(("named", {"project": project, "name": name}))

    def log(metrics: dict[str, Any], step: int | None = None) -> None:
        calls.append(("log", {**metrics, "at": step}))

    return module("trackio", init=init, log=log, finish=lambda: calls.append(("close", {})))


STAND_INS = {"tensorboard": tensorboard, "wandb": wandb, "trackio": trackio}


@pytest.fixture
def about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> About:
    """A run that goes on after step 6, of a person without a key."""
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return About(tmp_path / "run", "tiny", "tests", {"seed": 3}, step=6)


def called(name: str, about: About, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What the package is asked when a run opens it, logs two lines and closes it."""
    calls: Calls = []
    made = STAND_INS[name](calls)
    monkeypatch.setitem(sys.modules, made.__name__, made)
    tracker = OPENERS[name](about)  # type: ignore[index]
    lines: list[tuple[Mapping[str, float], int]] = [({"loss": 2.0}, 7), ({"loss": 1.5}, 8)]
    for line in lines:
        tracker.log(*line)
    tracker.close()
    assert calls[-3:] == [("log", {"loss": 2.0, "at": 7}), ("log", {"loss": 1.5, "at": 8}), ("close", {})]
    return calls


def test_tensorboard_writes_beside_the_run_and_forgets_what_came_after_its_state(
    about: About, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = called("tensorboard", about, monkeypatch)
    assert calls[0] == ("open", {"folder": str(about.run / "tensorboard"), "purge": 7})


def test_wandb_goes_on_under_one_id_and_is_offline_without_a_key(about: About, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = called("wandb", about, monkeypatch)
    opened = {"folder": str(about.run), "id": about.key, "resume": "allow", "config": {"seed": 3}}
    assert calls[:2] == [("open", {**opened, "mode": "offline"}), ("named", {"project": "tests", "name": "tiny"})]
    monkeypatch.setenv("WANDB_API_KEY", "none")
    assert called("wandb", about, monkeypatch)[0] == ("open", {**opened, "mode": None})
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert called("wandb", about, monkeypatch)[0] == ("open", {**opened, "mode": "disabled"})


def test_the_key_of_wandb_is_looked_for_under_the_service_that_is_used(
    about: About, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("machine wandb.example.org login user password none\n")
    (tmp_path / ".netrc").chmod(0o600)
    assert not _has_wandb_key()
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.example.org:8443/")
    assert _has_wandb_key()


def test_trackio_goes_on_under_one_name(about: About, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = called("trackio", about, monkeypatch)
    assert calls[0] == ("open", {"resume": "allow", "config": {"seed": 3}})
    assert calls[1] == ("named", {"project": "tests", "name": f"tiny-{about.key}"})


def test_a_line_comes_at_its_step_without_a_number_of_the_name_that_trackio_keeps_for_itself(
    config_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Calls = []
    monkeypatch.setitem(sys.modules, "trackio", trackio(calls))
    fit(load_config(config_file, ['log.trackers=["trackio"]', "stop_after=2"]), tmp_path / "run")
    told = [numbers for what, numbers in calls if what == "log"]
    assert [numbers["at"] for numbers in told] == [1, 2]
    assert all("loss" in numbers and "lambda/vision/0" in numbers for numbers in told)
    assert not {"project", "run", "timestamp", "step", "time", "metrics"} & {name for line in told for name in line}
