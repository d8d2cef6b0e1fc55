"""The shown part of a picture, and where the model's part lies on it."""

import pytest
from PIL import Image

from models.preprocess import Preprocess
from studio.frame import LONGEST, on_preview, preview, shown_window

PREPROCESS = Preprocess(32, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))


@pytest.mark.parametrize("size", [(64, 64), (300, 100), (100, 300), (97, 211)])
def test_pictures_up_to_three_to_one_are_shown_whole(size: tuple[int, int]) -> None:
    assert shown_window(size, [(0.0, 0.0, 10.0, 10.0)]) == (0, 0, *size)


@pytest.mark.parametrize("size", [(40, 2000), (2000, 40)])
def test_a_long_picture_is_shown_around_what_the_model_saw(size: tuple[int, int]) -> None:
    _, geometry = PREPROCESS(Image.new("RGB", size[::-1]))
    window = shown_window(size, [geometry.seen_box])
    top, left, bottom, right = window
    assert max(bottom - top, right - left) <= 3 * min(bottom - top, right - left) + 1
    box = on_preview(geometry.seen_box, window)
    assert min(box) >= -1e-9
    assert max(box) <= 1 + 1e-9


def test_two_models_that_saw_different_ends_are_both_shown() -> None:
    window = shown_window((10, 1000), [(0, 0, 10, 10), (0, 990, 10, 1000)])
    assert window == (0, 0, 10, 1000)


def test_the_box_of_a_cropped_picture_is_the_middle_third() -> None:
    _, geometry = PREPROCESS(Image.new("RGB", (90, 270)))
    box = on_preview(geometry.seen_box, shown_window((270, 90), [geometry.seen_box]))
    assert box == pytest.approx((1 / 3, 0, 2 / 3, 1), abs=0.02)


def test_a_large_picture_is_sent_small_and_in_shape() -> None:
    image = preview(Image.new("RGB", (3000, 1500)), (0, 0, 1500, 3000))
    assert image.size == (LONGEST, LONGEST // 2)
