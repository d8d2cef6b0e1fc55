"""From a picture to pixels: the recipe's random crop, and the model's own preprocessing bit for bit."""

import io

import numpy as np
import pytest
import torch
from PIL import Image
from tar_files import picture
from torchvision.transforms import RandomResizedCrop

from models.preprocess import Preprocess
from train.data.augment import View, crop_box
from train.data.batch import normalised
from train.data.config import Plain, RandomCrop
from train.data.decode import decode_picture
from train.data.order import sample_chances

HALF, QUARTER = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)
PREPROCESS = Preprocess(32, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), interpolation="bilinear")


def test_crops_are_distributed_as_torchvision_draws_them() -> None:
    crop = RandomCrop((0.2, 0.9), (0.6, 1.8))
    torch.manual_seed(0)
    blank = torch.zeros(3, 200, 300)
    theirs = np.array([RandomResizedCrop.get_params(blank, list(crop.scale), list(crop.ratio)) for _ in range(3000)])
    ours = np.array([crop_box(200, 300, crop, sample_chances(0, 0, index)) for index in range(3000)])
    for boxes in (theirs, ours):
        assert (boxes[:, :2] >= 0).all()
        assert (boxes[:, 0] + boxes[:, 2] <= 200).all()
        assert (boxes[:, 1] + boxes[:, 3] <= 300).all()
    features = [
        np.stack([b[:, 0], b[:, 1], b[:, 2], b[:, 3], np.log(b[:, 3] / b[:, 2]) * 100], 1) for b in (theirs, ours)
    ]
    deviation = features[0].std(axis=0)
    # Means and spreads agree within four standard errors of the difference of two means over 3000 draws.
    assert (np.abs(features[0].mean(axis=0) - features[1].mean(axis=0)) < 4 * deviation * (2 / 3000) ** 0.5).all()
    assert np.allclose(deviation, features[1].std(axis=0), rtol=0.08)


@pytest.mark.parametrize("size", [(400, 10), (10, 400), (1, 400), (2, 2)])
def test_a_picture_in_which_no_crop_fits_gives_torchvisions_central_one(size: tuple[int, int]) -> None:
    crop = RandomCrop((0.5, 1.0), (3 / 4, 4 / 3)) if size != (2, 2) else RandomCrop((0.01, 0.02), (1.0, 1.0))
    height, width = size
    theirs = RandomResizedCrop.get_params(torch.zeros(3, height, width), list(crop.scale), list(crop.ratio))
    assert crop_box(height, width, crop, sample_chances(0, 0, 0)) == tuple(theirs)


def test_the_crop_is_that_part_of_the_picture() -> None:
    view = View(PREPROCESS, RandomCrop())
    image = picture(1, (150, 120))
    chances = sample_chances(1, 2, 3)
    top, left, rows, cols = crop_box(120, 150, RandomCrop(), chances)
    pixels = view(image, chances)
    assert pixels.shape == (32, 32, 3)
    # Red grows with the column and green with the row, from 0 to 255 over the picture.
    assert pixels[16, 16, 0] / 255 * 149 == pytest.approx(left + cols / 2, abs=3)
    assert pixels[16, 16, 1] / 255 * 119 == pytest.approx(top + rows / 2, abs=3)
    assert (pixels[..., 0].max() - pixels[..., 0].min()) / 255 * 149 == pytest.approx(cols, rel=0.06)
    assert np.array_equal(view(image, sample_chances(1, 2, 3)), pixels)
    assert not np.array_equal(view(image, sample_chances(1, 3, 3)), pixels)


@pytest.mark.parametrize("preprocess", [PREPROCESS, Preprocess((20, 30), HALF, QUARTER, "squash")])
def test_a_plain_view_normalised_is_the_models_preprocessing_bit_for_bit(preprocess: Preprocess) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (67, 91, 3), dtype=np.uint8)
    image = Image.fromarray(noise)
    pixels = torch.from_numpy(View(preprocess, Plain())(image, sample_chances(0, 0, 0))).permute(2, 0, 1)[None]
    assert torch.equal(normalised(pixels, preprocess.mean, preprocess.std)[0], preprocess(image)[0])


def test_a_large_jpeg_is_reduced_for_training_only_and_looks_the_same() -> None:
    buffer = io.BytesIO()
    noise = np.random.default_rng(1).normal(0, 25, (40, 60, 3))
    textured = Image.fromarray(np.clip(128 + noise, 0, 255).astype(np.uint8)).resize(
        (600, 400), Image.Resampling.BICUBIC
    )
    textured.save(buffer, "JPEG", quality=90)
    view, plain = View(PREPROCESS, RandomCrop()), View(PREPROCESS, Plain())
    assert plain.least_side == 0
    whole = decode_picture(buffer.getvalue(), plain.least_side)
    reduced = decode_picture(buffer.getvalue(), view.least_side)
    assert isinstance(whole, Image.Image)
    assert isinstance(reduced, Image.Image)
    assert whole.size == (600, 400)
    assert reduced.size == (150, 100)
    chances = sample_chances(0, 0, 1)
    one, other = view(whole, chances).astype(int), view(reduced, chances).astype(int)
    # The texture is as fine as the model can see; its crop may lie half a reduced pixel beside.
    assert one.std() > 10
    assert np.abs(one - other).mean() < 2
    assert np.corrcoef(one.ravel(), other.ravel())[0, 1] > 0.98


def test_a_jpeg_near_the_models_size_is_never_reduced() -> None:
    buffer = io.BytesIO()
    picture(0, (100, 70)).save(buffer, "JPEG")
    read = decode_picture(buffer.getvalue(), View(PREPROCESS, RandomCrop()).least_side)
    assert isinstance(read, Image.Image)
    assert read.size == (100, 70)
