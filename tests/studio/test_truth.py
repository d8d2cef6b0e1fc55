import base64
import io

import numpy as np
import pytest
from PIL import Image

from models import StudioError
from models.geometry import ImageGeometry
from models.layout import TokenGrid
from studio.examples import Example
from studio.truth import mask_truth, painted_mask, scene_truth


def png(array: np.ndarray) -> str:
    stream = io.BytesIO()
    Image.fromarray(array).save(stream, "PNG")
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()


def grey(rows: list[list[int]]) -> Image.Image:
    return Image.fromarray(np.array(rows, np.uint8)).convert("RGB")


def test_a_scene_knows_which_pixels_are_which_class(examples: tuple[Example, ...]) -> None:
    truth = scene_truth(examples[0])
    assert truth.classes == ("cat",)
    assert np.array_equal(truth.labels > 0, examples[0].inside())


def test_one_value_is_the_named_class_and_the_first_one_without_a_name() -> None:
    mask = grey([[0, 255], [0, 255]])
    assert mask_truth(mask, (2, 2), ("cat", "dog"), "", "x").classes == ("cat",)
    truth = mask_truth(mask, (2, 2), ("cat", "dog"), "dog ", "x")
    assert truth.classes == ("dog",)
    assert truth.labels.tolist() == [[0, 1], [0, 1]]


def test_several_values_are_the_typed_classes_in_their_order() -> None:
    truth = mask_truth(grey([[0, 1], [2, 2]]), (2, 2), ("cat", "dog"), "ignored", "x")
    assert truth.classes == ("cat", "dog")
    assert truth.labels.tolist() == [[0, 1], [2, 2]]


@pytest.mark.parametrize(
    ("rows", "size", "sentence"),
    [
        ([[0, 255]], (2, 2), "make them equal"),
        ([[0, 0]], (1, 2), "marks nothing"),
        ([[1, 3]], (1, 2), "there are 2 classes"),
    ],
)
def test_a_mask_that_does_not_fit_gets_a_sentence(rows: list[list[int]], size: tuple[int, int], sentence: str) -> None:
    with pytest.raises(StudioError, match=sentence):
        mask_truth(grey(rows), size, ("cat", "dog"), "", "x")


def test_objects_of_a_mask_are_the_patches_it_covers() -> None:
    labels = np.zeros((32, 32), np.uint8)
    labels[:16, :16] = 200
    truth = mask_truth(Image.fromarray(labels).convert("RGB"), (32, 32), ("cat",), "", "x")
    objects = truth.objects(ImageGeometry((32, 32), (32, 32), (0, 0), (32, 32)), TokenGrid(1, 2, 2))
    assert objects.inside.tolist() == [True, False, False, False]
    assert objects.outside.tolist() == [False, True, True, True]


def test_a_painted_mask_is_brought_to_the_picture_without_new_values() -> None:
    small = np.array([[0, 255], [120, 130]], np.uint8)
    mask = painted_mask({"mask": png(small)}, (4, 4))
    assert mask is not None
    assert np.asarray(mask).tolist() == [[0, 0, 255, 255]] * 2 + [[0, 0, 255, 255]] * 2


@pytest.mark.parametrize("value", [None, {}, {"mask": None}, {"mask": png(np.zeros((2, 2), np.uint8))}])
def test_nothing_painted_is_no_mask(value: object) -> None:
    assert painted_mask(value, (4, 4)) is None


@pytest.mark.parametrize(
    "sent", [7, "/etc/passwd", "data:image/png;base64,@@", "data:image/png;base64,aGVsbG8=", "data:image/svg+xml,x"]
)
def test_what_is_no_painted_mask_is_refused(sent: object) -> None:
    with pytest.raises(StudioError, match="paint it again"):
        painted_mask({"mask": sent}, (4, 4))


def test_a_huge_painted_mask_is_refused() -> None:
    with pytest.raises(StudioError, match="paint it again"):
        painted_mask({"mask": png(np.zeros((1, 5000), np.uint8))}, (4, 4))
