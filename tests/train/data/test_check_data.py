"""`python -m train check-data`: what is there, what is wrong, counts, and an exit status."""

import os
from pathlib import Path

import pytest
from tar_files import broken_shard, encoded, pairs, tar_bytes, write_shards

from train.__main__ import main
from train.data.check import Effort, check
from train.data.config import CsvData, TarData
from train.data.tars import open_tars


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(["check-data", *arguments])
    captured = capsys.readouterr()
    return status, captured.out + captured.err


def test_good_shards_are_told_with_counts_and_fingerprint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_shards(tmp_path, [5, 5, 1])
    status, text = said(capsys, str(folder))
    assert status == 0
    assert "3 tar shards, " in text
    assert "headers of 3 of 3 shards" in text
    assert "samples: 11 usable in these\n" in text
    assert "first keys: 00000.tar:000000000, 00000.tar:000000001" in text
    assert "captions from: txt 11" in text
    assert "left out: none" in text
    assert "decoded: 11 of 11" in text
    assert "shorter sides: 20 to 20 pixels" in text
    assert f"fingerprint: {open_tars(TarData(str(folder))).fingerprint()}" in text
    assert text.endswith("verdict: these data can be trained on.\n")
    assert sorted(path.name for path in folder.iterdir()) == ["00000.tar", "00001.tar", "00002.tar"]


def test_all_that_is_wrong_with_a_shard_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = said(capsys, str(broken_shard(tmp_path)))
    assert status == 1
    for reason in ("no caption", "empty caption", "tar cut", "truncated picture", "not a picture"):
        assert f"1 {reason}" in text, reason
    assert "'00000.tar:000000005' (no caption)" in text
    assert "00000.tar (cut at byte" in text
    assert "verdict: repair this first (3):" in text
    assert "37.5% of the samples cannot be used" in text
    assert "40.0% of the decoded samples are unreadable" in text


def test_names_with_dots_are_shown_with_the_setting_that_reads_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("22.05", "22.10")
    members = [(f"{n}.{end}", content) for n in names for end, content in (("png", encoded(0, "PNG")), ("txt", b"a"))]
    (tmp_path / "a.tar").write_bytes(tar_bytes(members))
    status, text = said(capsys, str(tmp_path))
    assert status == 1
    assert "2 dots in the name, for example 'a.tar:22.05.png'" in text
    assert 'split="last dot"' in text
    assert said(capsys, str(tmp_path), "split=last dot")[0] == 0


def test_tars_without_captions_are_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.tar").write_bytes(tar_bytes([member for member in pairs(0, 3) if member[0].endswith("jpg")]))
    status, text = said(capsys, str(tmp_path))
    assert status == 1
    assert "3 no caption" in text
    assert "no sample has both a picture and a caption" in text
    assert "decoded: none" in text


def test_without_time_the_first_shard_and_the_sizes_are_looked_at(tmp_path: Path) -> None:
    folder = write_shards(tmp_path, [4] * 30)
    os.truncate(folder / "00017.tar", (folder / "00017.tar").stat().st_size - 100)
    quick = check(TarData(str(folder)), 0.01, Effort(seconds=0.0))
    text = quick.text()
    assert "headers of 1 of 30 shards" in text
    assert "of the others only the sizes" in text
    assert "4 usable in these, about 120 in all" in text
    assert "fingerprint: needs all headers (--full)" in text
    assert len(quick.problems) == 1
    assert "shards that end early, so that what came after is lost: 1" in quick.problems[0]
    assert "00017.tar" in quick.problems[0]
    full = check(TarData(str(folder)), 0.01, Effort(full=True, seconds=0.0)).text()
    assert "headers of 30 of 30 shards" in full
    assert "120 usable in these\n" in full


def test_shards_of_several_names_and_joined_tars_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, content in (("a-train-00", pairs(0, 9)), ("a-train-01", pairs(9, 9)), ("a-val-00", pairs(0, 4))):
        (tmp_path / f"{name}.tar").write_bytes(tar_bytes(content))
    status, text = said(capsys, str(tmp_path))
    assert status == 0
    assert "shards of several names are taken together: a-train-*.tar (2), a-val-*.tar (1)" in text
    status, text = said(capsys, str(tmp_path / "a-train-*.tar"))
    assert "several names" not in text
    (tmp_path / "a-train-02.tar").write_bytes(tar_bytes(pairs(0, 9)) + tar_bytes(pairs(9, 9)))
    status, text = said(capsys, str(tmp_path / "a-train-*.tar"))
    assert status == 1
    assert "a-train-02.tar (more behind its end mark at byte" in text
    assert "tar --concatenate" in text


def test_a_table_is_checked_with_its_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pictures").mkdir()
    for number in range(4):
        (tmp_path / "pictures" / f"{number}.jpg").write_bytes(encoded(number))
    path = tmp_path / "a.csv"
    path.write_text("image,comment\n" + "".join(f"{n}.jpg,number {n}\n" for n in range(4)))
    status, text = said(capsys, str(path))
    assert status == 2
    assert "no column 'title' or 'caption'" in text
    status, text = said(capsys, str(path), "caption=comment", f"root={tmp_path / 'pictures'}")
    assert status == 0
    assert "4 rows with a path and a caption" in text
    assert "decoded: 4 of 4" in text
    status, text = said(capsys, str(path), "caption=comment")
    assert status == 1
    assert "4 no image" in text


def test_without_time_the_first_rows_of_a_table_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(encoded(0))
    (tmp_path / "a.csv").write_text("image,caption\n" + "a.jpg,a picture\n" * 20_000)
    quick = check(CsvData(str(tmp_path / "a.csv")), 0.01, Effort(seconds=0.0)).text()
    assert "2,000 rows with a path" in quick
    assert "scanned: the first of about " in quick
    assert "fingerprint: needs all rows (--full)" in quick
    full = check(CsvData(str(tmp_path / "a.csv")), 0.01, Effort(full=True, seconds=0.0)).text()
    assert "scanned: all rows in" in full
    assert "20,000 rows with a path" in full


def test_a_few_unreadable_ones_among_many_are_not_held_against_a_part(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(encoded(0))
    names = ["a.jpg"] * 2000
    names[::200] = ["gone.jpg"] * 10
    (tmp_path / "a.csv").write_text("image,caption\n" + "".join(f"{name},a\n" for name in names))
    assert not check(CsvData(str(tmp_path / "a.csv")), 0.01).problems
    (tmp_path / "a.csv").write_text(
        "image,caption\n" + "".join(f"{name},a\n" for name in (["a.jpg"] * 3 + ["b"]) * 500)
    )
    assert "unreadable" in check(CsvData(str(tmp_path / "a.csv")), 0.01).problems[0]


def test_what_is_no_data_is_told_with_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.jpg").write_bytes(b"")
    status, text = said(capsys, str(tmp_path))
    assert status == 2
    assert "holds no tars (1 .jpg)" in text
    (tmp_path / "b.csv").write_text("")
    assert "holds no tars but b.csv" in said(capsys, str(tmp_path))[1]
    assert "There are no tar shards" in said(capsys, str(tmp_path / "nowhere"))[1]
    assert "did you mean 'split'" in said(capsys, str(tmp_path), "splt=1")[1]
    assert "is not a setting" in said(capsys, str(tmp_path), "split")[1]


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["check-data", "--help"])
    assert "python -m train check-data 'cc3m/cc3m-train-*.tar' --full" in capsys.readouterr().out
