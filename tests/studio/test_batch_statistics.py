"""Statistics over a folder are means over its pictures, go on where they stopped, and count what is left out."""

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from models import StudioError, attention_maps, load_model, localisation, open_picture, record, statistics
from models.localisation import patch_coverage
from studio.__main__ import main
from studio.batch import OF_ONE, batch
from studio.bootstrap import intervals
from studio.service import vision_grid


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    (folder / "inner").mkdir(parents=True)
    generator = np.random.default_rng(4)
    for name in ("a.png", "b.png", "inner/c.jpg"):
        Image.fromarray(generator.integers(0, 256, (48, 40, 3), dtype=np.uint8)).save(folder / name)
    mask = np.zeros((48, 40), dtype=np.uint8)
    mask[:24] = 7
    Image.fromarray(mask).save(folder / "a.mask.png")
    return folder


def rows_of(path: Path) -> dict[tuple[str, ...], dict[str, str]]:
    keys = ("model", "layer", "head", "map", "measure")
    return {tuple(row[key] for key in keys): row for row in csv.DictReader(path.open(encoding="utf-8"))}


def test_means_are_those_of_the_pictures(pictures: Path, folders: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "stats.csv"
    said = batch(pictures, [str(folder) for folder in folders], out, heads=True)
    assert said.startswith("3 of 3 pictures")
    rows = rows_of(out)
    model = load_model(folders[1])
    negative, inside = [], []
    for name in ("a.png", "b.png", "inner/c.jpg"):
        pixels, geometry = model.preprocess(open_picture(pictures / name))
        with record(model.vision) as recording:
            model.encode_image(pixels[None])
        row = attention_maps(recording[2]).weights[0].mean(0)[0]
        negative.append(float(statistics.negative_mass(row)))
        if name == "a.png":
            mask = np.asarray(Image.open(pictures / "a.mask.png")) > 0
            object_keys = torch.from_numpy(patch_coverage(mask, geometry, vision_grid(model)).reshape(-1) >= 0.5)
            inside.append(float(localisation.mass_inside(row.clamp(min=0)[1:], object_keys)))
    found = rows["diffclip-scenes", "2", "mean", "weights", "negative"]
    assert float(found["mean"]) == pytest.approx(np.mean(negative), rel=1e-5)
    assert float(found["low"]) <= float(found["mean"]) <= float(found["high"])
    assert float(found["difference"]) == pytest.approx(
        float(found["mean"]) - float(found["control_a2_shuffled"]), abs=1e-6
    )
    masked = rows["diffclip-scenes", "2", "mean", "weights", "inside"]
    assert masked["pictures"] == "1"
    assert float(masked["mean"]) == pytest.approx(inside[0], rel=1e-5)
    assert ("clip-scenes", "0", "3", "weights", "entropy") in rows
    assert rows["clip-scenes", "0", "mean", "weights", "entropy"]["control_a2_shuffled"] == ""


def test_a_second_run_goes_on_and_gives_the_same(
    pictures: Path, folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, source = tmp_path / "stats.csv", [str(folders[1])]
    batch(pictures, source, out)
    first = out.read_bytes()
    known = tmp_path / "stats.pictures.jsonl"
    whole = known.read_text(encoding="utf-8")
    lines = whole.splitlines(keepends=True)
    assert len(lines) == 4
    known.write_text("".join(lines[:-1]) + lines[-1][:50], encoding="utf-8")
    batch(pictures, source, out)
    assert out.read_bytes() == first
    monkeypatch.setattr("studio.batch._numbers", _no_run)
    batch(pictures, source, out)
    assert out.read_bytes() == first
    Image.new("RGB", (40, 48), "red").save(pictures / "new.png")
    with pytest.raises(AssertionError, match="no run"):
        batch(pictures, source, out)


def test_a_second_run_goes_on_wherever_the_first_was_stopped(
    pictures: Path, folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, source = tmp_path / "stats.csv", [str(folders[0])]
    batch(pictures, source, out)
    first, known = out.read_bytes(), tmp_path / "stats.pictures.jsonl"
    whole = known.read_text(encoding="utf-8")
    settings, line = whole.splitlines()[:2]
    cut = json.dumps({**json.loads(line), "numbers": [["clip-scenes", 0, "mean", "weights", "entropy", 1.0]]})
    strange = ("12", "null", "[]", '"settings"', '{"picture": "a"}', '{"sha256": 5, "numbers": []}', "\udcff", cut)
    for left in (settings[:40], settings, settings + "\n" + line[:9], "\n".join([settings, *strange])):
        known.write_bytes(left.encode("utf-8", "surrogateescape"))
        batch(pictures, source, out)
        assert out.read_bytes() == first, left[:60]
        with monkeypatch.context() as patch:
            patch.setattr("studio.batch._numbers", _no_run)
            batch(pictures, source, out)
    monkeypatch.setattr("studio.batch._numbers", _stopped)
    known.unlink()
    out.unlink()
    assert main(["batch", str(pictures), "--models", *source, "--out", str(out)]) == 130
    assert known.is_file()
    assert not out.exists()


def test_a_file_that_no_run_wrote_is_not_written_over(
    pictures: Path, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "stats.csv"
    out.write_text("mine", encoding="utf-8")
    with pytest.raises(StudioError, match="is there already"):
        batch(pictures, [str(folders[0])], out)
    assert out.read_text(encoding="utf-8") == "mine"


def test_of_one_picture_there_is_no_interval_and_it_is_said(folders: tuple[Path, Path], tmp_path: Path) -> None:
    Image.effect_noise((48, 40), 60).save(tmp_path / "one.png")
    said = batch(tmp_path, [str(folders[0])], tmp_path / "stats.csv")
    assert said.splitlines() == [f"1 of 1 pictures in {tmp_path / 'stats.csv'}", f"  {OF_ONE}"]
    rows = list(csv.DictReader((tmp_path / "stats.csv").open(encoding="utf-8")))
    assert {(row["pictures"], row["low"], row["high"]) for row in rows if row["mean"]} == {("1", "", "")}
    Image.effect_noise((40, 48), 60).save(tmp_path / "two.png")
    assert OF_ONE not in batch(tmp_path, [str(folders[0])], tmp_path / "stats.csv")


def test_pictures_that_all_cannot_be_read_leave_no_statistics(folders: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"n\xff.png")).write_bytes(b"no picture")
    out = tmp_path / "stats.json"
    with pytest.raises(StudioError, match=r"(?s)Of none of the 1 pictures .*1 left out: .* First: n\\xff.png"):
        batch(tmp_path, [str(folders[0])], out)
    assert not out.exists()
    Image.effect_noise((48, 40), 60).save(tmp_path / "one.png")
    batch(tmp_path, [str(folders[0])], out)
    assert ["n\\xff.png"] in json.loads(out.read_text(encoding="utf-8"))["left_out"].values()


def _stopped(*_: object) -> None:
    raise KeyboardInterrupt


def _no_run(*_: object) -> None:
    raise AssertionError("no run")


def test_numbers_of_other_models_are_not_mixed_in(
    pictures: Path, folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "stats.json"
    assert main(["batch", str(pictures), "--models", str(folders[0]), "--out", str(out)]) == 0
    assert json.loads(out.read_text(encoding="utf-8"))["pictures"] == 3
    assert main(["batch", str(pictures), "--models", str(folders[1]), "--out", str(out)]) == 1
    assert "choose another OUT" in capsys.readouterr().err


def test_what_cannot_be_read_is_counted_by_its_reason(
    pictures: Path, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    (pictures / "text.jpg").write_text("no picture")
    (pictures / "empty.png").write_bytes(b"")
    (pictures / "half.png").write_bytes((pictures / "b.png").read_bytes()[:2000])
    Image.new("L", (2000, 20)).save(pictures / "long.png")
    Image.new("L", (3000, 20)).save(pictures / "longer.png")
    Image.new("L", (5, 5)).save(pictures / "b.mask.png")
    out = tmp_path / "stats.json"
    said = batch(pictures, [str(folders[0])], out)
    left_out = json.loads(out.read_text(encoding="utf-8"))["left_out"]
    assert sum(map(len, left_out.values())) == 6
    assert any("times longer" in reason and len(names) == 2 for reason, names in left_out.items())
    assert any("they must agree" in reason for reason in left_out)
    assert "2 of 8 pictures" in said
    assert all(f"{len(names)} left out: {reason} First: {names[0]}" in said for reason, names in left_out.items())


@pytest.mark.parametrize("arguments", [["nowhere", "--out", "x.csv"], [".", "--out", "x.txt"]])
def test_impossible_runs_are_refused(tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    arguments[0] = str(tmp_path / arguments[0])
    assert main(["batch", *arguments, "--models", "clip-scenes"]) == 1
    assert capsys.readouterr().err.strip().endswith(".")


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "python -m studio render recipe.json" in capsys.readouterr().out


def test_intervals_cover_the_mean_as_often_as_they_say() -> None:
    generator = np.random.default_rng(0)
    values = generator.normal(3.0, 1.0, (40, 400))
    found = intervals(values, resamples=400)
    covered = np.mean([interval.low <= 3.0 <= interval.high for interval in found])  # type: ignore[operator]
    assert 0.9 <= covered <= 0.98
    assert [interval.mean for interval in found] == pytest.approx(values.mean(0).tolist())


def test_undefined_numbers_are_left_out_of_their_column_alone() -> None:
    values = np.array([[1.0, np.nan, np.nan], [3.0, 5.0, np.nan]])
    first, second, third = intervals(values)
    assert (first.mean, first.count) == (2.0, 2)
    assert (second.mean, second.low, second.high, second.count) == (5.0, None, None, 1)
    assert (third.mean, third.low, third.count) == (None, None, 0)
