"""Folders with a folder of pictures a class: names, what is left out, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
from picture_files import labelled_folder, picture, png

from models.errors import StudioError
from train.data.sample import Sample
from train.evaluation.labelled import Labelled, one_object_scenes, open_labelled_folder
from train.scenes import OBJECT_NAMES


def open_folder(folder: Path) -> Labelled:
    return open_labelled_folder(str(folder))


def test_classes_are_called_as_their_folders_and_pictures_are_found_at_any_depth(tmp_path: Path) -> None:
    folder = labelled_folder(tmp_path, {"red_apple": 2, "anchor": 1, "empty": 0})
    (folder / "anchor" / "more").mkdir()
    (folder / "anchor" / "more" / "x.PNG").write_bytes(png(7))
    for hidden in (".git", "__MACOSX__"):
        (folder / hidden).mkdir()
        (folder / hidden / "x.png").write_bytes(png(8))
    (folder / "anchor" / "._000.png").write_bytes(b"")
    (folder / "anchor" / "notes.txt").write_text("mine")
    found = open_folder(folder)
    assert found.classes == ("anchor", "empty", "red apple")
    assert found.labels.tolist() == [0, 0, 2, 2]
    assert "4 pictures in 3 classes, 1 other file left out" in found.description
    first = found.source.read(1)
    assert isinstance(first, Sample)
    assert np.array_equal(np.asarray(first.picture), np.asarray(picture(7)))


@pytest.mark.parametrize(
    "text", ["big anchor\ncat, kitten\n", "n2\tcat, kitten\nn1\tbig anchor", "\ufeffbig anchor\r\ncat, kitten\r\n"]
)
def test_names_come_from_classes_txt_in_order_or_by_folder(text: str, tmp_path: Path) -> None:
    folder = labelled_folder(tmp_path, {"n1": 1, "n2": 1})
    (folder / "classes.txt").write_bytes(text.encode())
    assert open_folder(folder).classes == ("big anchor", "cat, kitten")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("cat", "has 1 lines for the 2 folders"),
        ("cat\n\ndog", "has 3 lines for the 2 folders"),
        ("n1\tcat\nn3\tdog", "'n2' is only in one of them"),
        ("n1\tcat\nn2\tdog\nn2\tdogs", "a folder is named twice"),
        ("cat\ncat", "several classes with the name 'cat'"),
        ("", "has 0 lines"),
    ],
)
def test_a_classes_txt_that_does_not_fit_is_refused(text: str, sentence: str, tmp_path: Path) -> None:
    folder = labelled_folder(tmp_path, {"n1": 1, "n2": 1})
    (folder / "classes.txt").write_text(text)
    with pytest.raises(StudioError, match=sentence):
        open_folder(folder)


def test_folders_that_classify_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StudioError, match="There is no folder"):
        open_folder(tmp_path / "nowhere")
    with pytest.raises(StudioError, match="one class is always right"):
        open_folder(labelled_folder(tmp_path / "one", {"cat": 2}))
    with pytest.raises(StudioError, match="none of its 2 folders holds a picture"):
        open_folder(labelled_folder(tmp_path / "none", {"cat": 0, "dog": 0}))


def test_the_fingerprint_changes_with_files_and_with_names(tmp_path: Path) -> None:
    folder = labelled_folder(tmp_path, {"cat": 2, "dog": 1})
    prints = [open_folder(folder).source.fingerprint()]
    assert open_folder(folder).source.fingerprint() == prints[0]
    (folder / "classes.txt").write_text("a\nb")
    prints.append(open_folder(folder).source.fingerprint())
    (folder / "cat" / "new.png").write_bytes(png(5))
    prints.append(open_folder(folder).source.fingerprint())
    assert len(set(prints)) == 3


def test_scenes_with_one_object_are_labelled_by_it() -> None:
    found = one_object_scenes(4, 6, 32)
    for index, label in enumerate(found.labels):
        sample = found.source.read(index)
        assert isinstance(sample, Sample)
        assert sample.captions == (OBJECT_NAMES[label],)
        assert sample.picture.size == (32, 32)
    with pytest.raises(StudioError, match="give 1 or more"):
        one_object_scenes(4, 0, 32)
