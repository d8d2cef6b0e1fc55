"""A picture -> the model's input tensor and the geometry that maps it back, on one code path.

The steps are those of CLIP's evaluation transform as open_clip and torchvision write it (resize the short
side or squash, centre crop, scale to 0..1, normalise), so the tensor is equal to theirs bit for bit; here
each step also says where its pixels came from.
"""

import math
from dataclasses import asdict, dataclass
from typing import Literal

import torch
from PIL import Image
from torchvision.transforms import CenterCrop, InterpolationMode, Resize
from torchvision.transforms import functional as tv

from models.errors import StudioError
from models.geometry import ImageGeometry
from models.pictures import check_size, upright_rgb


@dataclass(frozen=True)
class Preprocess:
    """How a checkpoint wants its pictures: part of the checkpoint, like its weights.

    `size` is the side of a square input in pixels, or its (height, width). `mode` is "shortest" (scaled with its
    aspect kept until it covers the input, centre crop; for a square, the short side becomes `size`) or "squash"
    (both sides to `size`, no crop). `interpolation` is a name that torchvision knows: "bicubic" or "bilinear".

    Raises:
        StudioError: an unknown mode or interpolation, a size below 1, a mean that is not finite, or a std that is not
            above 0.
    """

    size: int | tuple[int, int]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    mode: Literal["shortest", "squash"] = "shortest"
    interpolation: Literal["bicubic", "bilinear"] = "bicubic"

    def __post_init__(self) -> None:
        if min(self.input_size) < 1:
            raise StudioError(f"An input size of {self.size} pixels is impossible: it must be at least 1.")
        if self.mode not in ("shortest", "squash"):
            raise StudioError(f"Resize mode {self.mode!r} is unknown: choose 'shortest' or 'squash'.")
        if self.interpolation not in ("bicubic", "bilinear"):
            raise StudioError(f"Interpolation {self.interpolation!r} is unknown: choose 'bicubic' or 'bilinear'.")
        if not all(map(math.isfinite, self.mean)):
            raise StudioError(f"mean = {self.mean} is impossible: give a finite number for each channel.")
        if not all(math.isfinite(value) and value > 0 for value in self.std):
            raise StudioError(f"std = {self.std} is impossible: give a finite number above 0 for each channel.")

    @property
    def input_size(self) -> tuple[int, int]:
        """(height, width) of the input in pixels."""
        return (self.size, self.size) if isinstance(self.size, int) else self.size

    def __call__(self, image: Image.Image) -> tuple[torch.Tensor, ImageGeometry]:
        """The input tensor (3, height, width) of a picture, and its geometry.

        Raises:
            PictureError: the picture is beyond the limits on size and shape.
        """
        check_size(image.size)
        picture = upright_rgb(image)
        width, height = picture.size
        resized: Image.Image = Resize(
            self._resized(height, width), interpolation=InterpolationMode(self.interpolation), antialias=True
        )(picture)
        resized_h, resized_w = resized.size[1], resized.size[0]
        rows, cols = self.input_size
        offset = round((resized_h - rows) / 2.0), round((resized_w - cols) / 2.0)
        cropped: Image.Image = CenterCrop([rows, cols])(resized)
        tensor = tv.normalize(tv.to_tensor(cropped), list(self.mean), list(self.std))
        geometry = ImageGeometry((height, width), (resized_h, resized_w), offset, (rows, cols))
        return tensor, geometry

    def _resized(self, height: int, width: int) -> int | list[int]:
        """What the picture is scaled to, in the form torchvision takes: a short side, or both sides."""
        rows, cols = self.input_size
        if self.mode == "squash":
            return [rows, cols]
        if rows == cols:
            return rows
        ratio = min(height / rows, width / cols)
        return [round(height / ratio), round(width / ratio)]

    def to_dict(self) -> dict[str, object]:
        """The settings as plain values, as they are written into a checkpoint's config."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}
