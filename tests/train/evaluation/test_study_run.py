"""A study keeps what is done: it goes on after a stop, measures nothing twice, and refuses what is not its own."""

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from tiny import tiny_model

from models import LoadedModel
from models.checkpoints import export_checkpoint
from models.tokenizer import DomainTokenizer
from train.__main__ import main
from train.evaluation.figures.write import FIGURES, TABLES

SMALL = ["--protocol", "study", "--images", "4", "--device", "cpu"]


@pytest.fixture
def folders(clip: LoadedModel, diffclip: LoadedModel, tmp_path: Path) -> list[str]:
    return [
        str(export_checkpoint(clip, tmp_path / "plain")),
        str(export_checkpoint(diffclip, tmp_path / "differential")),
    ]


def test_what_is_measured_already_is_kept_and_models_can_be_added(
    folders: list[str], tokenizer: DomainTokenizer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "scenes.json"
    assert main(["evaluate", folders[0], *SMALL, "--out", str(out)]) == 0
    content = json.loads(out.read_text())
    (first,) = content["results"]
    assert first["model"]["command"].endswith("plain --protocol study --images 4")
    assert "seed 50021, drawn at 64 pixels" in first["model"]["scenes"]["description"]
    assert len(first["result"]["each"]["plain: top1"]) == 4
    assert first["result"]["chance"]["plain: top1"] == pytest.approx(1 / 108)
    # What was kept is known again by a number that no measurement gives.
    first["numbers"]["plain: top1"]["value"] = 0.123
    out.write_text(json.dumps(content))
    assert main(["evaluate", *folders, *SMALL, "--out", str(out)]) == 0
    told = capsys.readouterr()
    assert f"plain: as {out} has it" in told.err
    assert "12.3%" in told.out
    content = json.loads(out.read_text())
    assert [one["model"]["name"] for one in content["results"]] == ["plain", "differential"]
    (difference,) = content["differences"]
    assert (difference["model"], difference["against"]) == ("differential", "plain")
    assert {"plain: top1", "text_to_image_r1", "A1 - lambda A2: auroc"} <= difference["numbers"].keys()
    for name in (*FIGURES, TABLES):
        assert (tmp_path / name).stat().st_size > 100
    # Other weights under the same name are measured, and take the place of the old ones.
    other = export_checkpoint(tiny_model("standard", tokenizer, seed=5), tmp_path / "other")
    os.replace(other / "model.safetensors", Path(folders[0]) / "model.safetensors")
    assert main(["evaluate", folders[0], *SMALL, "--out", str(out)]) == 0
    again = json.loads(out.read_text())["results"]
    assert [one["model"]["name"] for one in again] == ["plain", "differential"]
    assert again[0]["numbers"]["plain: top1"]["value"] != 0.123
    assert again[0]["model"]["weights"] != content["results"][0]["model"]["weights"]
    assert again[1] == content["results"][1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_keeps_the_models_that_are_done_and_says_so(
    number: signal.Signals, folders: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, before = tmp_path / "scenes.json", signal.getsignal(signal.SIGTERM)

    def stop_when_the_first_is_done() -> None:
        while not out.exists():
            time.sleep(0.005)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=stop_when_the_first_is_done, daemon=True)
    thread.start()
    assert main(["evaluate", *folders, *SMALL, "--out", str(out)]) == 130
    thread.join()
    assert f"Stopped: 1 of 2 models are kept in {out}; the same command goes on" in capsys.readouterr().err
    assert [one["model"]["name"] for one in json.loads(out.read_text())["results"]] == ["plain"]
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_file_of_other_settings_is_refused_and_stays(
    folders: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "scenes.json"
    versions = {"protocol": {"kind": "SceneStudy", "study": 4, "pairs": 1, "attention": 2}, "versions": {"torch": "0"}}
    for content, sentence in (
        ({"protocol": {"kind": "SceneStudy", "study": 500}}, "is there already, with other settings"),
        (versions, "is there already, with other package versions"),
        ({"protocol": {"kind": "SceneClasses"}}, "is not the file of a study"),
    ):
        out.write_text(json.dumps(content))
        assert main(["evaluate", folders[0], *SMALL, "--out", str(out)]) == 2
        assert sentence in capsys.readouterr().err
        assert json.loads(out.read_text()) == content
