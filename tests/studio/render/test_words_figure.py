"""The words of a figure: colours by score on one scale, no word without its number, every box within the page."""

from dataclasses import replace

import numpy as np

from studio.render.layout import MARGIN, WIDTH
from studio.render.shapes import Hatching, Lines, Words
from studio.render.words_figure import AGAINST, FOR, FULL, words_shapes
from studio.scored_texts import ScoredText

NAN = float("nan")


def text(pieces: str, values: list[float], of: str = "A model", words: str = "a cat") -> ScoredText:
    return ScoredText(words, of, tuple(pieces.split()), np.array(values), "part of the cosine")


def test_the_largest_score_has_the_full_colour_and_signs_have_hues_of_their_own() -> None:
    one = text("<start> a cat sat", [NAN, 0.2, -0.4, 0.0])
    shapes, _ = words_shapes([one, replace(one, of="Another", values=np.array([NAN, 0.1, 0.1, 0.1]))], 0)
    boxes = [(shape.tint, shape.opacity) for shape in shapes if isinstance(shape, Hatching)]
    quarter = round(FULL / 4, 3)
    # Exactly 0 has no colour; the two last are the legend's.
    assert boxes == [(FOR, FULL / 2), (AGAINST, FULL), *[(FOR, quarter)] * 3, (FOR, FULL), (AGAINST, FULL)]
    said = [shape.text for shape in shapes if isinstance(shape, Words)]
    assert said.count("“a cat”") == 1
    assert {"A model", "Another", "+0.20", "−0.40", "0"} <= set(said)


def test_tokens_that_are_no_words_are_dashed_and_have_no_number() -> None:
    shapes, _ = words_shapes([text("<start> a", [NAN, 0.5])], 0)
    edges = [shape.ends for shape in shapes if isinstance(shape, Lines)]
    assert len(edges[0]) > 8
    assert len(edges[1]) == 4
    numbers = [shape.text for shape in shapes if isinstance(shape, Words) and shape.text in ("", "+0.50")]
    assert numbers == ["", "+0.50"]


def test_long_texts_are_in_rows_within_the_page_and_nothing_stands_on_another() -> None:
    many = text(" ".join(["word", "w" * 300, "x"] * 20), [0.1, -0.2, 0.3] * 20)
    said = replace(many, values=None, said=("There is a reason. " * 20,))
    shapes, bottom = words_shapes([many, said, replace(many, text="b " * 200)], 100)
    boxes = [shape.places[0] for shape in shapes if isinstance(shape, Hatching)]
    assert len(boxes) == 2 * 60 + 2
    assert min(box.x for box in boxes) >= MARGIN
    assert max(box.x + box.w for box in boxes) <= WIDTH - MARGIN + 1e-6
    assert all(box.y > 100 and box.y + box.h <= bottom for box in boxes)
    for at, box in enumerate(boxes):
        for other in boxes[at + 1 :]:
            apart = box.x + box.w <= other.x or other.x + other.w <= box.x
            assert apart or box.y + box.h <= other.y or other.y + other.h <= box.y
    baselines = [shape.y for shape in shapes if isinstance(shape, Words)]
    assert max(baselines) < bottom


def test_without_texts_there_is_nothing() -> None:
    assert words_shapes([], 42) == ([], 42)
