"""The pictures that come along: scenes with masks, photographs with their attribution; and the tour."""

from pathlib import Path

import pytest

from models import StudioError, open_picture
from studio.examples import PHOTOGRAPHS, load_examples, load_gallery, load_photographs
from studio.service import Service
from studio.tour import STOPS, tour_html
from studio.viewer.gallery import gallery


def test_photographs_are_small_pictures_with_a_stated_free_license() -> None:
    listed = (PHOTOGRAPHS / "ATTRIBUTION.md").read_text(encoding="utf-8")
    photographs = load_photographs()
    assert len(photographs) >= 4
    for photograph in photographs:
        row = next(line for line in listed.splitlines() if f"`{photograph.picture.name}`" in line)
        assert row.split("|")[4].strip() in ("CC0", "public domain", "CC BY 4.0")
        assert photograph.picture.stat().st_size < 100_000
        assert max(open_picture(photograph.picture).size) <= 512
    files = {path.name for path in PHOTOGRAPHS.iterdir()} - {"ATTRIBUTION.md", "photographs.json"}
    assert files == {photograph.picture.name for photograph in photographs}


def test_a_photograph_is_no_scene_of_the_models_domain(folders: tuple[Path, Path]) -> None:
    pictures = load_gallery()
    service = Service(folders, pictures)
    known = [example for example in pictures if service.example(example.token) is not None]
    assert known == list(load_examples())
    with pytest.raises(StudioError, match="has no mask"):
        load_photographs()[0].inside()


def test_the_gallery_groups_pictures_and_keeps_their_index() -> None:
    pictures = load_gallery()
    groups = gallery(pictures).props["groups"]
    assert [group["title"] for group in groups] == ["Scenes", "Photographs"]
    shown = [(item["index"], item["caption"]) for group in groups for item in group["items"]]
    assert sorted(shown) == [(index, picture.caption) for index, picture in enumerate(pictures)]


def test_a_broken_list_of_photographs_is_told(tmp_path: Path) -> None:
    assert load_photographs(tmp_path) == ()
    for text in ("{", '[{"image": "none.jpg", "caption": "x"}]', '[{"caption": "x"}]'):
        (tmp_path / "photographs.json").write_text(text, encoding="utf-8")
        with pytest.raises(StudioError):
            load_photographs(tmp_path)


def test_the_tour_says_what_the_maps_are_not() -> None:
    said = " ".join(stop.text for stop in STOPS)
    for words in ("subtracts nothing", "1 − λ", "do not depend on the text", "readout", "intervention", "shuffled"):
        assert words in said
    assert tour_html().count("<li>") == len(STOPS) == 6
    assert all(len(stop.text) < 360 for stop in STOPS)
