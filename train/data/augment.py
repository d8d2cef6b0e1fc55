"""A picture -> the pixels a model gets, at its size; what is left to chance comes in as numbers."""

from dataclasses import dataclass, replace
from math import exp, log, sqrt

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as tv

from models.preprocess import Preprocess
from train.data.config import Augment, Plain, RandomCrop

TRIES = 10
CROP_CHANCES = 2 * TRIES + 2


@dataclass(frozen=True)
class View:
    """How pictures reach the model: its own preprocessing, or a random crop to the same size."""

    preprocess: Preprocess
    augment: Augment = Plain()  # noqa: RUF009 (frozen)

    @property
    def least_side(self) -> int:
        """How far a JPEG may be reduced in decoding (see Source.read): to twice the model's size, or not at all.

        A crop of half the area is then still 1.4 times larger than what it is scaled to, and lies at most half a
        reduced pixel beside where it would have lain. Pictures that img2dataset has resized to the model's size are
        never reduced, and neither is anything that is measured.
        """
        return 0 if isinstance(self.augment, Plain) else 2 * max(self.preprocess.input_size)

    def __call__(self, picture: Image.Image, chances: NDArray[np.float64]) -> NDArray[np.uint8]:
        """Pixels (height, width, 3) of an upright RGB picture; `chances` are at least 22 numbers in [0, 1)."""
        if isinstance(self.augment, Plain):
            # With mean 0 and deviation 1 the tensor is pixels / 255, which rounds back to them exactly.
            tensor, _ = replace(self.preprocess, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))(picture)
            return tensor.mul_(255).round_().byte().permute(1, 2, 0).numpy()
        width, height = picture.size
        top, left, rows, cols = crop_box(height, width, self.augment, chances)
        mode = InterpolationMode(self.augment.interpolation)
        cropped = tv.resized_crop(picture, top, left, rows, cols, list(self.preprocess.input_size), mode)  # type: ignore[arg-type]
        return np.asarray(cropped)


def crop_box(height: int, width: int, crop: RandomCrop, chances: NDArray[np.float64]) -> tuple[int, int, int, int]:
    """(top, left, height, width) of a random part, as torchvision's RandomResizedCrop draws it.

    Up to ten times, an area evenly within `crop.scale` and a ratio, evenly in its logarithm, within `crop.ratio` are
    drawn; the first part that fits is put anywhere, evenly. If none fits, it is the largest central part with the
    nearest allowed ratio. Here `chances` (22 or more) take the place of a global generator: two for each try, and the
    last two for the place.
    """
    low, high = log(crop.ratio[0]), log(crop.ratio[1])
    for attempt in range(TRIES):
        share, shape = chances[2 * attempt], chances[2 * attempt + 1]
        area = height * width * (crop.scale[0] + share * (crop.scale[1] - crop.scale[0]))
        ratio = exp(low + shape * (high - low))
        rows, cols = round(sqrt(area / ratio)), round(sqrt(area * ratio))
        if 0 < rows <= height and 0 < cols <= width:
            top = int(chances[2 * TRIES] * (height - rows + 1))
            left = int(chances[2 * TRIES + 1] * (width - cols + 1))
            return top, left, rows, cols
    ratio = width / height
    rows, cols = height, width
    if ratio < crop.ratio[0]:
        rows = max(1, round(width / crop.ratio[0]))
    elif ratio > crop.ratio[1]:
        cols = max(1, round(height * crop.ratio[1]))
    return (height - rows) // 2, (width - cols) // 2, rows, cols
