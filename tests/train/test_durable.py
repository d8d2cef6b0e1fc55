"""What is written is there whole or not at all."""

from pathlib import Path

import pytest

from models.errors import StudioError
from train.durable import place_folder, replace_folder, write_whole, writing


def test_a_folder_takes_the_place_of_another_which_is_there_until_then(tmp_path: Path) -> None:
    folder, partial = tmp_path / "checkpoint", tmp_path / "checkpoint.tmp"
    for text in ("one", "two"):
        (partial / "deep").mkdir(parents=True)
        (partial / "deep" / text).write_text(text)
        replace_folder(partial, folder)
        assert [path.name for path in (folder / "deep").iterdir()] == [text]
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
    # Without a new folder the old one stays.
    with pytest.raises(OSError, match="No such file"):
        replace_folder(partial, folder)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
    assert (folder / "deep" / "two").exists()


def test_a_folder_gets_a_name_that_nothing_but_an_empty_folder_has(tmp_path: Path) -> None:
    for name in ("new", "empty", "full"):
        (tmp_path / "partial" / "deep").mkdir(parents=True)
        (tmp_path / "partial" / "deep" / "file").write_text(name)
        if name != "new":
            (tmp_path / name).mkdir()
        if name != "full":
            place_folder(tmp_path / "partial", tmp_path / name)
            assert (tmp_path / name / "deep" / "file").read_text() == name
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    with pytest.raises(OSError, match="not empty"):
        place_folder(tmp_path / "partial", tmp_path / "full")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "full", "new", "partial"]


def test_what_the_system_says_is_a_sentence_with_the_path(tmp_path: Path) -> None:
    path = tmp_path / "no" / "file.json"
    told = r"file\.json cannot be written \(No such file or directory\): make room"
    with pytest.raises(StudioError, match=told), writing(path):
        write_whole(path, "text")
    write_whole(tmp_path / "file.json", "text")
    assert [item.name for item in tmp_path.iterdir()] == ["file.json"]
