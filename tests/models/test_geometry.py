"""Preprocessing and geometry: the library's own tensor, and pixels that land where they came from."""

import math

import numpy as np
import pytest
import torch
from open_clip.transform import image_transform
from PIL import Image

from models.errors import PictureError, StudioError
from models.geometry import ImageGeometry
from models.layout import TokenGrid
from models.preprocess import Preprocess

MEAN, STD = (0.48, 0.46, 0.41), (0.27, 0.26, 0.28)
SIZES = [(64, 64), (100, 37), (37, 100), (1, 40), (40, 1), (1, 1), (333, 112), (50, 2001), (113, 112), (1200, 900)]


def noise(width: int, height: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode", ["shortest", "squash"])
@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
def test_the_tensor_is_bit_equal_to_open_clips_transform(size: tuple[int, int], mode: str, interpolation: str) -> None:
    picture = noise(*size)
    ours, geometry = Preprocess(112, MEAN, STD, mode, interpolation)(picture)  # type: ignore[arg-type]
    theirs = image_transform(112, False, MEAN, STD, resize_mode=mode, interpolation=interpolation)(picture)
    assert torch.equal(ours, theirs)
    assert geometry.original == (size[1], size[0])
    assert geometry.input == (112, 112)


@pytest.mark.parametrize("mode", ["shortest", "squash"])
@pytest.mark.parametrize("size", [(90, 60), (60, 90), (31, 200), (48, 80)])
def test_an_input_that_is_no_square_is_filled_as_open_clip_fills_it(size: tuple[int, int], mode: str) -> None:
    picture = noise(*size)
    ours, geometry = Preprocess((48, 80), MEAN, STD, mode)(picture)  # type: ignore[arg-type]
    theirs = image_transform((48, 80), False, MEAN, STD, resize_mode=mode, interpolation="bicubic")(picture)
    assert torch.equal(ours, theirs)
    assert geometry.input == (48, 80)


@pytest.mark.parametrize("mode", ["shortest", "squash"])
@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
def test_fine_patterns_are_shrunk_by_pillows_antialiased_filter(mode: str, interpolation: str) -> None:
    cells = np.indices((1024, 1024)).sum(0) % 2 * 255
    picture = Image.fromarray(np.stack([cells, cells // 2, np.asarray(noise(1024, 1024))[..., 0]], -1).astype(np.uint8))
    ours, _ = Preprocess(224, (0, 0, 0), (1, 1, 1), mode, interpolation)(picture)  # type: ignore[arg-type]
    shrunk = np.asarray(picture.resize((224, 224), Image.Resampling[interpolation.upper()]))
    pillow = torch.from_numpy(shrunk.astype(np.float32) / 255).permute(2, 0, 1)
    torch.testing.assert_close(ours, pillow, rtol=0, atol=1e-6)
    # The pattern is finer than a pixel of the input: what is left of it is grey. Without antialiasing stripes are left.
    bare = torch.nn.functional.interpolate(
        torch.from_numpy(np.array(picture)).permute(2, 0, 1)[None].float() / 255, (224, 224), mode=interpolation
    )[0]
    assert float(ours[0].std()) < 0.01
    assert float((ours - bare).abs().max()) > 0.3


@pytest.mark.parametrize(("width", "height", "x", "y"), [(400, 200, 190, 60), (200, 400, 60, 190), (300, 300, 20, 250)])
def test_a_white_square_lands_where_the_geometry_says(width: int, height: int, x: int, y: int) -> None:
    canvas = np.zeros((height, width, 3), np.uint8)
    canvas[y : y + 20, x : x + 20] = 255
    tensor, geometry = Preprocess(112, (0, 0, 0), (1, 1, 1))(Image.fromarray(canvas))
    light = tensor.mean(0).numpy()
    rows, cols = np.indices(light.shape) + 0.5
    centre = (rows * light).sum() / light.sum(), (cols * light).sum() / light.sum()
    (sy, sx), (oy, ox) = geometry.scale, geometry.offset
    assert (centre[0] + oy) * sy == pytest.approx(y + 10, abs=1.0)
    assert (centre[1] + ox) * sx == pytest.approx(x + 10, abs=1.0)


@pytest.mark.parametrize("size", [(300, 100), (100, 300), (448, 448), (57, 91)])
def test_a_click_in_the_middle_of_a_patch_finds_that_patch(size: tuple[int, int]) -> None:
    _, geometry = Preprocess(112, MEAN, STD)(noise(*size))
    grid = TokenGrid(1, 14, 14)
    for row in range(14):
        for col in range(14):
            top, left, bottom, right = geometry.patch_box(row, col, grid)
            assert geometry.patch_at((top + bottom) / 2, (left + right) / 2, grid) == (row, col)


def test_what_the_crop_cut_off_is_nan_and_has_no_patch() -> None:
    _, geometry = Preprocess(112, MEAN, STD)(noise(300, 100))
    grid = TokenGrid(1, 14, 14)
    full = geometry.to_original(np.arange(196.0).reshape(14, 14))
    assert full.shape == (100, 300)
    seen = ~np.isnan(full)
    left, right = geometry.seen_box[1], geometry.seen_box[3]
    assert right - left == pytest.approx(100, abs=0.5)
    assert seen.all(axis=0).sum() == 100
    assert not seen[:, 90].any()
    assert geometry.patch_at(50, 90, grid) is None
    assert geometry.patch_at(50, 150, grid) == (7, 7)
    assert full[50, 150] == 7 * 14 + 7


def test_a_squashed_picture_is_seen_whole() -> None:
    _, geometry = Preprocess(112, MEAN, STD, "squash")(noise(300, 100))
    assert geometry.seen_box == (0, 0, 100, 300)
    assert not np.isnan(geometry.to_original(np.ones((14, 14)))).any()


def test_one_hot_maps_come_back_as_one_box_each() -> None:
    geometry = ImageGeometry((90, 60), (150, 100), (25, 0), (100, 100))
    grid = TokenGrid(1, 5, 5)
    for row in range(5):
        one = np.zeros((5, 5))
        one[row, 2] = 1
        rows, cols = np.nonzero(geometry.to_original(one) == 1)
        top, left, bottom, right = geometry.patch_box(row, 2, grid)
        assert (rows.min(), rows.max() + 1) == (round(top), round(bottom))
        assert (cols.min(), cols.max() + 1) == (round(left), round(right))


def test_patches_outside_the_grid_and_wrong_settings_are_refused() -> None:
    geometry = ImageGeometry((10, 10), (10, 10), (0, 0), (10, 10))
    with pytest.raises(StudioError, match=r"Patch \(2, 0\) lies outside the 2 x 2 grid"):
        geometry.patch_box(2, 0, TokenGrid(1, 2, 2))
    with pytest.raises(StudioError, match="choose 'shortest' or 'squash'"):
        Preprocess(112, MEAN, STD, "longest")  # type: ignore[arg-type]
    with pytest.raises(PictureError, match="51 times longer"):
        Preprocess(112, MEAN, STD)(noise(51, 1))


@pytest.mark.parametrize("value", [0.0, -0.1, math.nan, math.inf])
def test_a_std_that_is_not_above_zero_is_refused(value: float) -> None:
    with pytest.raises(StudioError, match=r"std = .*: give a finite number above 0 for each channel"):
        Preprocess(112, MEAN, (0.2, value, 0.2))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_mean_that_is_not_finite_is_refused_and_zero_is_taken(value: float) -> None:
    with pytest.raises(StudioError, match=r"mean = .*: give a finite number for each channel"):
        Preprocess(112, (0.5, 0.5, value), STD)
    assert Preprocess(112, (0.0, -0.5, 0.5), STD).mean == (0.0, -0.5, 0.5)
