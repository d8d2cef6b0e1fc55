"""A run's folder is this run's or left alone."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from models.errors import StudioError
from train.config import load_config
from train.lock import LOCK, locked
from train.loop import fit
from train.run_folder import OWN_PACKAGE
from train.scenes.shards import write_shards

ROOT = Path(__file__).parents[2]


def test_a_folder_with_another_run_or_other_files_is_left_alone(config_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    fit(load_config(config_file, ["stop_after=1"]), run)
    before = (run / "log.jsonl").read_bytes()
    with pytest.raises(
        StudioError, match=r"already holds another run \(tiny\) with other settings \(optim\.lr\).*--anyway"
    ):
        fit(load_config(config_file, ["optim.lr=0.1"]), run)
    assert (run / "log.jsonl").read_bytes() == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine")
    with pytest.raises(StudioError, match="is not empty: it holds no run to go on with"):
        fit(load_config(config_file), tmp_path / "other")
    with pytest.raises(StudioError, match="is a file"):
        fit(load_config(config_file), tmp_path / "other" / "thesis.txt")
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["thesis.txt"]


def test_how_a_run_is_run_may_change_and_what_decides_its_result_may_not(config_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    fit(load_config(config_file, ["stop_after=1"]), run)
    ways = [
        "workers=0",
        "save_steps=2",
        "keep_every=3",
        "threads=1",
        "log.probe_every=7",
        "evaluation={of=[{scenes=4}]}",
        "device=cpu",
    ]
    fit(load_config(config_file, [*ways, "stop_after=2"]), run)
    record = json.loads((run / "config.json").read_text())
    assert record["config"]["name"] == "tiny"
    assert record["precision"] == "torch.float32"
    assert {"torch", "python", "open_clip_torch"} < record["packages"].keys()
    assert record["data"]["samples"] == 64
    assert len(record["data"]["fingerprint"]) == 64
    for setting in ("gathering=published", "seed=4", "data.seed=12", "batch_size=4", "ema=0.5"):
        with pytest.raises(StudioError, match="already holds another run"):
            fit(load_config(config_file, [setting]), run, anyway=True)


def test_a_run_that_is_older_than_a_setting_goes_on_with_its_default_alone(config_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    fit(load_config(config_file, ["stop_after=1"]), run)
    record = json.loads((run / "config.json").read_text())
    del record["config"]["patch_dropout"]
    (run / "config.json").write_text(json.dumps(record))
    with pytest.raises(StudioError, match=r"other settings \(patch_dropout\)"):
        fit(load_config(config_file, ["patch_dropout=0.25"]), run)
    fit(load_config(config_file, ["stop_after=2"]), run)
    assert changes_of(run) == []


def changes_of(run: Path) -> list[dict]:
    return json.loads((run / "config.json").read_text()).get("changes", [])


def test_what_may_change_is_told_noted_and_then_the_runs_own(
    config_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    fit(load_config(config_file, ["stop_after=2"]), run)
    free = ["skip_non_finite=2", "skip={share=0.5}", "grad_checkpointing=true", "stop_after=3"]
    fit(load_config(config_file, free), run)
    assert "after step 2 the run goes on with skip_non_finite 0 -> 2, skip.share 0.01 -> 0.5" in capsys.readouterr().err
    other = [*free[:3], "optim.lr=1e-4", "optim.grad_clip=0.5", "stop_after=4"]
    with pytest.raises(StudioError, match="--anyway"):
        fit(load_config(config_file, other), run)
    fit(load_config(config_file, other), run, anyway=True)
    fit(load_config(config_file, other), run)
    first, second = changes_of(run)
    assert first["after_step"] == 2
    assert first["what"]["grad_checkpointing"] == [False, True]
    assert second == {"after_step": 3, "what": {"optim.lr": [1e-3, 1e-4], "optim.grad_clip": [1.0, 0.5]}}
    assert json.loads((run / "log.jsonl").read_text().splitlines()[-1])["lr"] < 1e-4


def test_a_run_that_met_what_is_not_finite_or_cannot_be_read_goes_on_as_the_sentence_says(
    config_file: Path, tmp_path: Path
) -> None:
    stages = ["stages=[{samples=32, image_size=16}]", "save_steps=1"]
    wild = [*stages, "optim.lr=1e30", "optim.grad_clip=inf"]
    with pytest.raises(
        StudioError, match="go on from the last saved state with skip_non_finite = 10, or with --anyway"
    ):
        fit(load_config(config_file, wild), tmp_path / "wild")
    assert fit(load_config(config_file, [*wild, "skip_non_finite=10"]), tmp_path / "wild").name == "checkpoint"

    shards = write_shards(tmp_path / "tars", 16, 5, 32)
    content = shards[0].read_bytes()
    settings = [f'data={{tars="{tmp_path / "tars"}"}}', "model.text.vocab_size=49408", "save_minutes=0"]
    settings += ["stages=[{epochs=2, image_size=16}]", "log.probe_every=0"]

    def damaged(step: int) -> None:
        """Every picture of the second epoch is unreadable."""
        if step == 2:
            shards[0].write_bytes(content.replace(b"\x89PNG", b"\x00PNG"))

    with pytest.raises(StudioError, match=r"raise skip\.share \(now 0\.01\), with which a run goes on"):
        fit(load_config(config_file, settings), tmp_path / "skips", after_step=damaged)
    pointer = json.loads((tmp_path / "skips" / "state.json").read_text())
    assert pointer == {"state": "state-000000003"}  # one batch is skipped whole before the epoch's end
    assert fit(load_config(config_file, [*settings, "skip={share=0.9}"]), tmp_path / "skips").name == "checkpoint"


def test_tars_may_be_moved(config_file: Path, tmp_path: Path) -> None:
    write_shards(tmp_path / "tars", 16, 5, 32)
    settings = ["model.text.vocab_size=49408", "stages=[{epochs=2, image_size=16}]"]
    run = tmp_path / "run"
    fit(load_config(config_file, [*settings, f'data={{tars="{tmp_path / "tars"}"}}', "stop_after=1"]), run)
    (tmp_path / "tars").rename(tmp_path / "moved")
    moved = [*settings, f'data={{tars="{tmp_path / "moved"}"}}']
    assert fit(load_config(config_file, moved), run) == run / "checkpoint"
    assert changes_of(run)[0]["what"] == {"data.tars": [str(tmp_path / "tars"), str(tmp_path / "moved")]}


def test_other_package_versions_are_told_and_noted_and_other_data_are_refused(
    config_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    fit(load_config(config_file, ["stop_after=1"]), run)
    record = json.loads((run / "config.json").read_text())
    changed = json.loads(json.dumps(record))
    changed["packages"] |= {"tokenizers": "0.0.1", OWN_PACKAGE: "0.0.0"}
    (run / "config.json").write_text(json.dumps(changed))
    fit(load_config(config_file, ["stop_after=2"]), run)
    assert "packages.tokenizers 0.0.1 -> " in capsys.readouterr().err
    assert changes_of(run)[0]["what"].keys() == {"packages.tokenizers", f"packages.{OWN_PACKAGE}"}
    record["data"]["fingerprint"] = "0" * 64
    (run / "config.json").write_text(json.dumps(record))
    with pytest.raises(StudioError, match="started on other data"):
        fit(load_config(config_file), run)
    (run / "config.json").write_text("{")
    with pytest.raises(StudioError, match="cannot be read"):
        fit(load_config(config_file), run)


def test_a_folder_that_another_process_writes_is_refused_until_that_ends(config_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    script = (
        "import os, sys, time\nfrom pathlib import Path\nfrom train.lock import locked\n"
        "with locked(Path(sys.argv[1])):\n"
        "    child = os.fork()\n"  # as a loader worker, which may outlive the process that holds the lock
        "    if child: print(child, flush=True)\n"
        "    time.sleep(600)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", script, str(run)], cwd=ROOT, stdout=subprocess.PIPE)
    assert holder.stdout
    child = int(holder.stdout.readline())
    try:
        with pytest.raises(StudioError, match=rf"is being written by process {holder.pid} on .*another --out"):
            fit(load_config(config_file), run)
        assert [path.name for path in run.iterdir()] == [LOCK]
        holder.kill()
        holder.wait()
        fit(load_config(config_file, ["stop_after=1"]), run)
    finally:
        holder.kill()
        os.kill(child, signal.SIGKILL)
    with locked(run):
        pass
