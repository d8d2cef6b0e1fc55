"""A CSV and a folder of pictures as a source."""

import os
from pathlib import Path

import pytest
from tar_files import encoded

from models.errors import StudioError
from train.data.config import CsvData
from train.data.csv_folder import CsvFolder, open_csv
from train.data.sample import Sample, Skip


def table(folder: Path, text: str, name: str = "data.csv") -> CsvData:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return CsvData(str(path))


def read(source: CsvFolder, index: int) -> Sample:
    sample = source.read(index)
    assert isinstance(sample, Sample), sample
    return sample


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pictures").mkdir()
    for number in range(3):
        (tmp_path / "pictures" / f"{number}.jpg").write_bytes(encoded(number))
    return tmp_path


def test_open_clips_tables_and_plain_ones_are_read(folder: Path) -> None:
    tabbed = table(folder, "filepath\ttitle\npictures/0.jpg\ta dog, running\npictures/1.jpg\ta “cat”\n", "a.tsv")
    commas = table(folder, '\ufeffid,caption,image\r\n7,"a dog, running",pictures/0.jpg\r\n8,a “cat”,./pictures/1.jpg')
    for data in (tabbed, commas):
        source = open_csv(data)
        assert [read(source, index).captions for index in range(2)] == [("a dog, running",), ("a “cat”",)]
        assert read(source, 0).picture.size == (24, 20)
        assert "2 rows" in source.describe()


def test_what_a_row_lacks_is_counted_and_what_its_picture_lacks_is_a_skip(folder: Path) -> None:
    (folder / "page.jpg").write_text("404")
    rows = [
        "pictures/0.jpg,dog",
        ",no path",
        "pictures/1.jpg,  ",
        "pictures/2.jpg",
        "",
        "gone.jpg,gone",
        "page.jpg,404",
    ]
    source = open_csv(table(folder, "filepath,title\n" + "\n".join([*rows, "pictures,a folder"])))
    assert source.left_out == {"no image": 1, "empty caption": 2}
    assert source.examples[0] == Skip(-1, "line 3", "no image")
    assert [source.read(index) for index in (1, 2, 3)] == [
        Skip(1, "gone.jpg", "no image"),
        Skip(2, "page.jpg", "not a picture"),
        Skip(3, "pictures", "no image"),
    ]


def test_no_row_is_swallowed_by_a_quote_that_nothing_closes(folder: Path) -> None:
    captions = ['"hello dog', "a cat", 'the 5" screen', '"a "big" dog', "“end”", 'last "']
    lines = "".join(f"pictures/{number % 3}.jpg\t{caption}\n" for number, caption in enumerate(captions))
    source = open_csv(table(folder, f"filepath\ttitle\n{lines}", "a.tsv"))
    assert [read(source, index).captions for index in range(len(source))] == [(caption,) for caption in captions]
    assert not source.left_out
    # Between commas a quote is a quote: what it opens and nothing closes ends with its line.
    commas = table(folder, 'filepath,title\npictures/0.jpg,"hello, dog\npictures/1.jpg,a "cat"\npictures/2.jpg,end')
    source = open_csv(commas)
    assert [read(source, index).captions for index in range(3)] == [("hello, dog",), ('a "cat"',), ("end",)]


@pytest.mark.parametrize(("separator", "name"), [("\t", "a.tsv"), (",", "a.csv")])
def test_fields_in_quotes_may_hold_separators_quotes_and_line_breaks(separator: str, name: str, folder: Path) -> None:
    captions = [f"a{separator}b", 'says ""hi""', "two\nlines", "end"]
    rows = "".join(f'pictures/0.jpg{separator}"{caption}"\r\n' for caption in captions)
    source = open_csv(table(folder, f"filepath{separator}title\r\n{rows}", name))
    wanted = [caption.replace('""', '"') for caption in captions]
    assert [source.captions[index] for index in range(len(source))] == wanted
    bad = table(folder, f'filepath{separator}title\n1.jpg{separator}"two\nlines"\n../2.jpg{separator}out', f"b{name}")
    with pytest.raises(StudioError, match="line 4: the path"):
        open_csv(bad)


def test_a_table_is_read_no_further_than_asked(folder: Path) -> None:
    rows = "".join(f"pictures/{number % 3}.jpg,number {number}\n" for number in range(10_000))
    data = table(folder, f"filepath,title\n{rows}")
    part = open_csv(data, lambda: True)
    assert len(part) == 2000
    assert 0.15 < part.share < 0.35
    assert open_csv(data).share == 1.0


def test_several_captions_in_a_field_are_all_there(folder: Path) -> None:
    data = table(folder, "filepath,title\npictures/0.jpg,one| two ||three\npictures/1.jpg,|\n")
    source = open_csv(CsvData(data.csv, between_captions="|"))
    assert read(source, 0).captions == ("one", "two", "three")
    assert source.left_out == {"empty caption": 1}


@pytest.mark.parametrize(
    "path", ["../secret.jpg", "pictures/../../secret.jpg", "a/../../b", "/etc/hostname", "a\0b.jpg"]
)
def test_a_path_that_leaves_the_root_is_refused_with_its_line(path: str, folder: Path) -> None:
    data = table(folder, f"filepath,title\npictures/0.jpg,fine\n{path},out\n")
    with pytest.raises(StudioError, match=r"data\.csv, line 3: the path .* leads out of"):
        open_csv(data)


@pytest.mark.parametrize(
    "path", ["./a.jpg", "b//a.jpg", "b/./a.jpg", "b/../a.jpg", "b/a.jpg/", "b/.a.jpg", "b/a b..jpg"]
)
def test_paths_are_kept_in_their_shortest_form(path: str, folder: Path) -> None:
    source = open_csv(table(folder, f"filepath,title\n{path},one\n"))
    assert source.paths[0] == os.path.normpath(path)


def test_paths_are_named_from_the_root_and_absolute_ones_are_taken_within_it(folder: Path) -> None:
    (folder / "tables").mkdir()
    data = table(folder / "tables", f"filepath,title\n{folder}/pictures/0.jpg,absolute\npictures/1.jpg,from the root\n")
    with pytest.raises(StudioError, match=r"set data\.root"):
        open_csv(data)
    source = open_csv(CsvData(data.csv, root=str(folder)))
    assert [read(source, index).captions for index in range(2)] == [("absolute",), ("from the root",)]


@pytest.mark.parametrize(
    ("content", "settings", "message"),
    [
        (b"file,text\na,b\n", {}, r"no column 'filepath' or 'image': its columns are 'file', 'text'"),
        (b"image,captoin\na,b\n", {"caption": "caption"}, r"no column 'caption', did you mean 'captoin'"),
        (b"", {}, "its columns are none"),
        (b"image,caption\na.jpg,caf\xe9\n", {}, "is not UTF-8"),
        (b'image,caption\na.jpg,"' + b"x" * 200_000 + b'"\n', {}, "cannot be read as a table"),
    ],
)
def test_a_table_that_cannot_be_read_is_told(content: bytes, settings: dict, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(StudioError, match=message):
        open_csv(CsvData(str(tmp_path / "a.csv"), **settings))


def test_no_table_is_told(tmp_path: Path) -> None:
    with pytest.raises(StudioError, match="There is no file"):
        open_csv(CsvData(str(tmp_path / "a.csv")))


def test_the_fingerprint_follows_the_rows(folder: Path) -> None:
    texts = ("pictures/0.jpg,ab\npictures/1.jpg,c\n", "pictures/0.jpg,a\npictures/1.jpg,bc\n")
    prints = [open_csv(table(folder, f"filepath,title\n{text}")).fingerprint() for text in (*texts, texts[0])]
    assert prints[0] == prints[2] != prints[1]
