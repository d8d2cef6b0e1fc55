"""Words with scores, taken away: the page, the arrays, the table and the figure say the same numbers."""

import csv
import io
import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from taken_strips import explained, taken

from models import StudioError
from models.geometry import ImageGeometry
from studio.scored_texts import CSV_COLUMNS, ScoredText, word_scale, words_csv
from studio.service import Service
from studio.strip import Strip, no_map, strip_over
from studio.strip_files import strip_arrays, strip_files
from studio.upload import Upload


def scored(*values: float, text: str = "a cat") -> ScoredText:
    return ScoredText(text, "A model", ("<start>", "a", "<b>cat</b>"), np.array(values), "part of the cosine")


def test_words_of_explanations_are_in_the_arrays_the_table_and_the_figure(service: Service, scene: Upload) -> None:
    strip, settings = explained(service, scene, "ig", ready=(4, 0))
    assert [(each.text, each.of) for each in strip.texts] == [
        (panel.title.strip("“”"), panel.of) for panel in strip.panels
    ]
    files = taken(service, scene, (strip, settings))
    lines = list(csv.DictReader(io.StringIO(files["words.csv"].decode())))
    assert tuple(lines[0]) == CSV_COLUMNS
    svg = files["figure.svg"].decode()
    scale = word_scale(strip.texts)
    with np.load(io.BytesIO(files["arrays.npz"]), allow_pickle=False) as arrays:
        for at, each in enumerate(strip.texts):
            assert each.values is not None
            own = [line for line in lines if line["panel"] == str(at)]
            assert tuple(line["token"] for line in own) == each.pieces
            scores = [float(line["score"] or "nan") for line in own]
            assert scores == pytest.approx(each.values.tolist(), rel=1e-6, nan_ok=True)
            assert np.array_equal(arrays[f"panel{at}_words"], each.values.astype(np.float32), equal_nan=True)
            assert np.isnan(each.values[[0, -1]]).all(), "start and end are no words"
            for value in each.values[1:-1].tolist():
                assert f">{scale.written(value)}</text>" in svg
    assert "never seen in training" in svg
    assert "<script" not in svg


def test_one_scale_is_over_all_words_and_small_numbers_have_a_power() -> None:
    scale = word_scale([scored(np.nan, 4.2e-5, -2.1e-5), replace(scored(), values=None)])
    assert (scale.power, scale.share(-2.1e-5)) == (-4, pytest.approx(0.5))
    assert [scale.written(value) for value in (4.2e-5, -2.1e-5, 1e-9, 0.0)] == ["+0.42", "−0.21", "≈ 0", "0"]
    assert word_scale([scored(np.nan, 0, 0)]).share(0.0) == 0


def test_a_text_without_scores_has_one_line_that_says_why() -> None:
    said = words_csv([scored(np.nan, 0.25, -1), replace(scored(), values=None, said=("No A2.",))]).splitlines()
    assert said[1:] == [
        "0,a cat,A model,,0,<start>,,part of the cosine,",
        "0,a cat,A model,,1,a,0.25,part of the cosine,",
        "0,a cat,A model,,2,<b>cat</b>,-1,part of the cosine,",
        "1,a cat,A model,,,,,part of the cosine,No A2.",
    ]


def test_words_are_taken_away_where_no_picture_side_has_a_map(service: Service, scene: Upload) -> None:
    strip, settings = explained(service, scene)
    silent = replace(strip, panels=tuple(replace(panel, message="No layer.") for panel in strip.panels))
    files = taken(service, scene, (silent, settings))
    with np.load(io.BytesIO(files["arrays.npz"]), allow_pickle=False) as arrays:
        assert arrays.files == [f"panel{at}_words" for at in range(4)]
    with pytest.raises(StudioError, match=r"^No layer\.$"):
        strip_files(replace(silent, texts=()), None)  # type: ignore[arg-type]


def of_texts(*texts: ScoredText) -> Strip:
    geometry = ImageGeometry((8, 8), (8, 8), (0, 0), (8, 8))
    return strip_over(Image.new("RGB", (8, 8)), [no_map("t", "of", geometry, "none")] * len(texts), texts=texts)


def test_the_memory_of_a_strip_counts_its_scores() -> None:
    assert of_texts(scored(np.nan, 1, 2)).nbytes == of_texts(replace(scored(), values=None)).nbytes + 24
    assert list(strip_arrays(of_texts(scored(np.nan, 1, 2)))) == ["panel0_words"]
    assert not re.search("panel", " ".join(strip_arrays(of_texts(replace(scored(), values=None)))))
