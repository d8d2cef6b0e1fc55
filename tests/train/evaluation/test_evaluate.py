"""`python -m train evaluate`: any model, any data, results that say where they come from, wrong input in a sentence."""

import hashlib
import json
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from picture_files import labelled_folder, png, write_tar
from ranks import run_ranks

from models import LoadedModel
from models.checkpoints import export_checkpoint
from train.__main__ import main
from train.data.config import CsvData, TarData
from train.evaluation.evaluate import data_of

ROOT = Path(__file__).parents[3]


@pytest.fixture
def checkpoint(diffclip: LoadedModel, tmp_path: Path) -> Path:
    return export_checkpoint(diffclip, tmp_path / "tiny")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return labelled_folder(tmp_path / "pictures", {"cat": 8, "red_apple": 5, "dogs": 4})


def test_a_labelled_folder_gives_a_table_and_a_report_that_can_be_repeated(
    checkpoint: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "dogs" / "013.png").write_bytes(b"<html>")
    out = tmp_path / "report.json"
    asked = ["evaluate", str(checkpoint), str(checkpoint), "--data", str(folder), "--templates", "openai-7"]
    assert main([*asked, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "16 pictures of 3 classes, 3 candidates, templates openai-7" in said
    assert "Not measured: 1 picture that could not be read (1 not a picture)." in said
    assert "Top-5 means nothing over fewer than 5 classes." in said
    report = json.loads(out.read_text())
    weights = (checkpoint / "model.safetensors").read_bytes()
    first, second = report["results"]
    assert first["model"]["asked"] == str(checkpoint)
    assert first["model"]["weights"] == {"file": "model.safetensors", "sha256": hashlib.sha256(weights).hexdigest()}
    assert first["result"]["top5"] is None
    assert first == second
    assert f"{first['result']['top1']['value']:.1%}" in said
    assert (report["templates"]["name"], len(report["templates"]["texts"])) == ("openai-7", 7)
    assert report["protocol"] == {"kind": "FolderClasses", "folder": str(folder), "templates": "openai-7", "images": 0}
    assert len(report["data"]["fingerprint"]) == 64
    assert {"python", "torch", "pillow", "numpy"} <= report["versions"].keys()
    assert main([*asked, "--out", str(out)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert json.loads(out.read_text()) == report


def test_tars_and_tables_are_searched_both_ways(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    members = [(f"{i}.png", png(i)) for i in range(6)]
    members += [(f"{i}.json", json.dumps({"said": [f"two dogs {i}", "a cat"]}).encode()) for i in range(6)]
    (tmp_path / "tars").mkdir()
    write_tar(tmp_path / "tars" / "a.tar", [*members, ("7.png", png(7))])
    said = ["--set", 'captions=["json:said"]']
    for data in ("tars", "tars/a.tar", "tars/*.tar"):
        assert main(["evaluate", str(checkpoint), "--data", str(tmp_path / data), *said, "--images", "5"]) == 0
        told = capsys.readouterr().out
        assert "5 pictures, 10 captions" in told
        assert "text to image r5" in told
        assert "r10" in told.split("text to image r1 ")[0]  # among 10 captions
        assert "text to image r10" not in told  # among 5 pictures
        assert "Not among the pictures: 1 sample (1 no caption)." in told
        assert "Captions that repeat an earlier one, and cannot be told from it: 4." in told


def test_a_study_of_scenes_tells_names_captions_pairs_renderings_and_attention(
    checkpoint: Path, clip: LoadedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, out = export_checkpoint(clip, tmp_path / "plain"), tmp_path / "study.json"
    assert (
        main(["evaluate", str(plain), str(checkpoint), "--protocol", "study", "--images", "5", "--out", str(out)]) == 0
    )
    said = capsys.readouterr().out
    report = json.loads(out.read_text())
    assert report["protocol"] == {"kind": "SceneStudy", "study": 5, "pairs": 2, "attention": 3}
    first, second = (one["result"] for one in report["results"])
    assert set(first["zero_shot"]) == {"plain", "outline", "recoloured", "textured", "cluttered"}
    assert set(first["pairs"]) == {"identity", "size", "place", "relation", "count", "orientation", "tint"}
    assert set(first["attention"]["maps"]) == {"A"}
    assert len(second["attention"]["maps"]["A1"]["auroc"]["layers"]) == 3
    assert f"{second['attention']['maps']['A1']['auroc']['mean']['value']:.1%}" in said
    assert "–" in next(line for line in said.splitlines() if line.startswith("A1: auroc")), "a CLIP has no A1"
    assert main(["evaluate", str(plain), "--protocol", "study", "--templates", "plain"]) == 2
    assert "about scenes alone" in capsys.readouterr().err


def test_scenes_are_written_into_exported_folders_alone(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exported = export_checkpoint_with_run(checkpoint, tmp_path / "exported")
    assert main(["evaluate", str(checkpoint), str(exported), "--images", "6"]) == 0
    assert "6 pictures" in capsys.readouterr().out
    assert not (checkpoint / "evaluation.json").exists()
    measured = json.loads((exported / "evaluation.json").read_text())
    assert (measured["model"], measured["images"]) == ("exported", 6)
    assert [other["model"] for other in measured["compared"]] == ["tiny"]
    before = (exported / "evaluation.json").read_bytes()
    for other in (["--templates", "plain"], ["--protocol", "retrieval"]):
        assert main(["evaluate", str(exported), "--images", "8", *other]) == 0
    assert (exported / "evaluation.json").read_bytes() == before


def export_checkpoint_with_run(checkpoint: Path, folder: Path) -> Path:
    """The checkpoint with the log and config of a shipped run beside it."""
    shipped = ROOT / "assets/checkpoints/diffclip-scenes"
    folder.mkdir()
    for path in (*checkpoint.iterdir(), shipped / "run.json", shipped / "log.jsonl"):
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def evaluate_as(rank: int, asked: list[str], said: Path) -> None:
    """The command in one of several processes; what it prints goes into a file."""
    with (said / f"{rank}.txt").open("w") as file, redirect_stdout(file):
        assert main(asked) == 0


def test_two_processes_measure_what_one_does(checkpoint: Path, folder: Path, tmp_path: Path) -> None:
    """Seventeen pictures for two ranks, through a real process group."""
    asked = ["evaluate", str(checkpoint), "--data", str(folder), "--templates", "plain", "--device", "cpu", "--out"]
    assert main([*asked, str(tmp_path / "one.json")]) == 0
    run_ranks(evaluate_as, 2, [*asked, str(tmp_path / "two.json")], tmp_path)
    assert "17 pictures of 3 classes" in (tmp_path / "0.txt").read_text()
    assert (tmp_path / "1.txt").read_text() == ""
    assert json.loads((tmp_path / "two.json").read_text()) == json.loads((tmp_path / "one.json").read_text())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere"], "'nowhere' is neither a shipped model nor a file or folder"),
        (["{tiny}", "--data", "{tmp}/nowhere"], "There is nothing at"),
        (["{tiny}", "--data", "{tmp}/pictures", "--protocol", "retrieval"], "has classes and no captions"),
        (["{tiny}", "--data", "{tmp}/pictures", "--set", "root=x"], "is a setting of tars or of a CSV"),
        (["{tiny}", "--data", "{tmp}/pictures", "--images", "18"], "18 images cannot be taken of 17"),
        (["{tiny}", "--data", "{tmp}/pictures", "--templates", "openai"], "is no set of templates, did you mean"),
        (["{tiny}", "--templates", "{0.__class__}"], "must hold one bare {}"),
        (["{tiny}", "--data", "{tmp}/a.csv", "--protocol", "zero-shot"], "has captions and no classes"),
        (["{tiny}", "--data", "{tmp}/a.csv", "--set", "captoin=x"], "did you mean 'caption'"),
        (["{tiny}", "--data", "{tmp}/a.csv", "--set", "caption"], "is not a setting: write key=value"),
        (["{tiny}", "--protocol", "retrieval", "--templates", "plain"], "retrieval takes captions as they are"),
        (["{tiny}", "--images", "0"], "--images 0 leaves nothing to measure"),
        (["{tiny}", "--out", "{tmp}/nowhere/x.json"], "there is no folder"),
        (["{tiny}", "--device", "warp"], "device = 'warp' is not known to PyTorch"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_status_two(
    arguments: list[str],
    sentence: str,
    checkpoint: Path,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "a.csv").write_text("image,caption\na.png,a cat\n")
    given = [part.replace("{tmp}", str(tmp_path)).replace("{tiny}", str(checkpoint)) for part in arguments]
    assert main(["evaluate", *given]) == 2
    error = capsys.readouterr().err.splitlines()
    assert error[-1].startswith("error: ")
    assert sentence in error[-1]


def test_the_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["evaluate", "--help"])
    told = capsys.readouterr().out
    assert "python -m train evaluate my-diffclip clip-scenes" in told
    assert "95 % intervals" in told


def test_data_are_known_by_what_lies_at_the_path(folder: Path, tmp_path: Path) -> None:
    assert data_of(str(folder), []) is None
    assert data_of("x/table.TSV", ["root=pictures"]) == CsvData("x/table.TSV", root="pictures")
    assert data_of("x/{0000..0575}.tar", []) == TarData("x/{0000..0575}.tar")
    assert data_of("x/*.tar", ['split="last dot"']) == TarData("x/*.tar", split="last dot")
