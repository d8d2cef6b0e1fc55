"""A run's folder is this run's or left alone."""

import json
from pathlib import Path

import pytest

from models.errors import StudioError
from train.config import load_config
from train.loop import fit


def test_a_folder_with_another_run_or_other_files_is_left_alone(config_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    fit(load_config(config_file, ["stop_after=1"]), run)
    before = (run / "log.jsonl").read_bytes()
    with pytest.raises(StudioError, match=r"already holds another run \(tiny\) with other settings \(optim\)"):
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
    ways = ["workers=0", "save_steps=2", "threads=1", "log.probe_every=7", "evaluation={of=[{scenes=4}]}", "device=cpu"]
    fit(load_config(config_file, [*ways, "stop_after=2"]), run)
    record = json.loads((run / "config.json").read_text())
    assert record["config"]["name"] == "tiny"
    assert record["precision"] == "torch.float32"
    assert {"torch", "python", "open_clip_torch"} < record["packages"].keys()
    assert record["data"]["samples"] == 64
    assert len(record["data"]["fingerprint"]) == 64
    for setting in ("gathering=published", "seed=4", "data.seed=12", "skip_non_finite=2", "augment={scale=[0.5,1.0]}"):
        with pytest.raises(StudioError):
            fit(load_config(config_file, [setting]), run)


def test_a_run_of_other_package_versions_or_data_is_not_gone_on_with(config_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    fit(load_config(config_file, ["stop_after=1"]), run)
    record = json.loads((run / "config.json").read_text())
    changed = json.loads(json.dumps(record))
    changed["packages"]["tokenizers"] = "0.0.1"
    (run / "config.json").write_text(json.dumps(changed))
    with pytest.raises(StudioError, match=r"tokenizers 0\.0\.1 -> "):
        fit(load_config(config_file), run)
    record["data"]["fingerprint"] = "0" * 64
    (run / "config.json").write_text(json.dumps(record))
    with pytest.raises(StudioError, match="started on other data"):
        fit(load_config(config_file), run)
    (run / "config.json").write_text("{")
    with pytest.raises(StudioError, match="cannot be read"):
        fit(load_config(config_file), run)
