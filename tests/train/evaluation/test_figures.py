"""Figures of a study: whole SVG, every model and number in them, nothing outside the picture, labels apart."""

import re
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from studies import model_entry, six, study_file

from train.__main__ import main
from train.evaluation.attention import READING_ORDER, readable
from train.evaluation.figures.relevance import colours
from train.evaluation.figures.svg import width_of
from train.evaluation.figures.write import FIGURES, TABLES, write_figures
from train.evaluation.study_file import StudyFile
from train.scenes.pairs import ATTRIBUTES

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def found(tmp_path: Path) -> StudyFile:
    return study_file(tmp_path, six())


def boxes(root: ElementTree.Element) -> list[tuple[str, float, float, float, float]]:
    """Every text with its box (left, top, right, bottom), as wide as it can be."""
    places = []
    for one in root.iter(f"{SVG}text"):
        size, content = float(one.get("font-size", "0")), one.text or ""
        long = 0.9 * width_of(content, size)  # the bound that figures leave room for is a generous one
        x, y = float(one.get("x", "0")), float(one.get("y", "0"))
        left = x - {"start": 0.0, "middle": long / 2, "end": long}[one.get("text-anchor", "start")]
        places.append((content, left, y - 0.75 * size, left + long, y + 0.2 * size))
    return places


@pytest.mark.parametrize("name", FIGURES)
def test_labels_lie_inside_the_figure_and_apart_from_each_other(name: str, found: StudyFile) -> None:
    root = ElementTree.fromstring(FIGURES[name](found.models))
    width, height = (float(root.get(side, "0")) for side in ("width", "height"))
    placed = boxes(root)
    assert len(placed) > 8
    for content, left, top, right, bottom in placed:
        assert left >= 0, content
        assert top >= 0, content
        assert right <= width, content
        assert bottom <= height, content
    for (one, l1, t1, r1, b1), (other, l2, t2, r2, b2) in combinations(placed, 2):
        assert r1 <= l2 or r2 <= l1 or b1 <= t2 or b2 <= t1, f"{one!r} lies on {other!r}"


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_has_its_own_ground_generic_fonts_and_words_for_those_who_do_not_see_it(
    name: str, found: StudyFile
) -> None:
    text = FIGURES[name](found.models)
    root = ElementTree.fromstring(text)
    ground = next(root.iter(f"{SVG}rect"))
    assert (ground.get("width"), ground.get("fill")) == ("100%", "#ffffff")
    assert root.get("font-family", "").endswith("sans-serif")
    assert "CLIP, seed 0" in (root.findtext(f"{SVG}desc") or "")
    assert "NaN" not in text
    assert set(re.findall(r'href="([a-z]+:)', text)) <= {"data:"}


def test_bars_are_as_high_as_their_numbers_and_seeds_look_different(found: StudyFile) -> None:
    root = ElementTree.fromstring(FIGURES["bars.svg"](found.models))
    bars = [one for one in root.iter(f"{SVG}rect") if "(48.0% to 52.0%)" in (one.findtext(f"{SVG}title") or "")]
    assert len(bars) == 4 * 11  # four models of seed 0, eleven numbers
    assert {float(one.get("height", "0")) for one in bars} == {115.0}  # half of a panel
    hatched = [one for one in root.iter(f"{SVG}rect") if "url(#hatch" in one.get("fill", "")]
    assert len(hatched) == 2 * (11 + 1)  # two of seed 1, and their keys
    for one in hatched:
        assert f'id="{one.get("fill", "")[5:-1]}"' in FIGURES["bars.svg"](found.models)


def test_a_polygon_lies_where_its_shares_are_and_chance_is_dashed(found: StudyFile) -> None:
    root = ElementTree.fromstring(FIGURES["radar.svg"](found.models))
    outlines = {one.findtext(f"{SVG}title") or "": one for one in root.iter(f"{SVG}polygon")}
    whole, chance = outlines["100%"], outlines["chance"]
    own = next(one for told, one in outlines.items() if told.startswith("CLIP, seed 0: identity 50.0%"))

    def corners(one: ElementTree.Element) -> np.ndarray:
        return np.array([[float(value) for value in pair.split(",")] for pair in one.get("points", "").split()])

    centre = corners(whole).mean(0)
    assert len(corners(own)) == len(ATTRIBUTES)
    assert corners(own) - centre == pytest.approx(0.5 * (corners(whole) - centre), abs=0.2)
    assert corners(chance) - centre == pytest.approx(0.25 * (corners(whole) - centre), abs=0.2)
    assert chance.get("stroke-dasharray")


def test_every_map_and_control_has_a_row(found: StudyFile) -> None:
    told = [content for content, *_ in boxes(ElementTree.fromstring(FIGURES["attention.svg"](found.models)))]
    assert set(map(readable, READING_ORDER)) <= set(told)


def test_relevance_is_drawn_on_one_scale_whatever_its_size(tmp_path: Path) -> None:
    """A model whose relevance is a thousand times as large gives the same picture."""
    entries = [model_entry("CLIP", 0), model_entry("DiffCLIP", 0)]
    before = FIGURES["relevance.svg"](study_file(tmp_path, entries).models)
    for one in entries[1]["result"]["relevance"]:
        one["values"] = " ".join(str(1000 * float(value)) for value in one["values"].split())
    assert FIGURES["relevance.svg"](study_file(tmp_path, entries).models) == before
    entries[1]["result"]["relevance"][0]["values"] = " ".join(["0"] * 16)
    assert "no relevance" in FIGURES["relevance.svg"](study_file(tmp_path, entries).models)


def test_a_darker_colour_is_a_larger_value() -> None:
    lightness = colours(np.linspace(0, 1, 50)).astype(float) @ [0.2126, 0.7152, 0.0722]
    assert bool((np.diff(lightness) < 0).all())


def test_figures_are_drawn_from_the_file_alone_with_one_model_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study_file(tmp_path, [model_entry("DiffCLIP", 0)])
    assert main(["figures", str(tmp_path / "scenes.json")]) == 0
    said = capsys.readouterr().out.split()
    assert said == [str(tmp_path / name) for name in (*FIGURES, TABLES)]
    for name in FIGURES:
        ElementTree.parse(tmp_path / name)


def test_figures_of_a_later_study_take_the_place_of_earlier_ones(tmp_path: Path, found: StudyFile) -> None:
    write_figures(found, tmp_path)
    before = (tmp_path / "bars.svg").read_text()
    write_figures(study_file(tmp_path, six()[:3]), tmp_path)
    assert (tmp_path / "bars.svg").read_text() != before
