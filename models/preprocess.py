"""A picture -> the model's input tensor and the geometry that maps it back, on one code path.

The steps are those of CLIP's evaluation transform as open_clip and torchvision write it (resize the short
side or squash, centre crop, scale to 0..1, normalise), so the tensor is equal to theirs bit for bit; here
each step also says where its pixels came from.
"""

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

    `mode` is "shortest" (short side to `size`, centre crop) or "squash" (both sides to `size`, no crop).
    `interpolation` is a name that torchvision knows: "bicubic" or "bilinear".

    Raises:
        StudioError: an unknown mode or interpolation, or a size below 1.
    """

    size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    mode: Literal["shortest", "squash"] = "shortest"
    interpolation: Literal["bicubic", "bilinear"] = "bicubic"

    def __post_init__(self) -> None:
        if self.size < 1:
            raise StudioError(f"An input size of {self.size} pixels is impossible: it must be at least 1.")
        if self.mode not in ("shortest", "squash"):
            raise StudioError(f"Resize mode {self.mode!r} is unknown: choose 'shortest' or 'squash'.")
        if self.interpolation not in ("bicubic", "bilinear"):
            raise StudioError(f"Interpolation {self.interpolation!r} is unknown: choose 'bicubic' or 'bilinear'.")

    def __call__(self, image: Image.Image) -> tuple[torch.Tensor, ImageGeometry]:
        """The input tensor (3, size, size) of a picture, and its geometry.

        Raises:
            PictureError: the picture is beyond the limits on size and shape.
        """
        check_size(image.size)
        picture = upright_rgb(image)
        width, height = picture.size
        mode = InterpolationMode(self.interpolation)
        target = [self.size, self.size] if self.mode == "squash" else self.size
        resized: Image.Image = Resize(target, interpolation=mode, antialias=True)(picture)
        resized_h, resized_w = resized.size[1], resized.size[0]
        offset = round((resized_h - self.size) / 2.0), round((resized_w - self.size) / 2.0)
        cropped: Image.Image = CenterCrop([self.size, self.size])(resized)
        tensor = tv.normalize(tv.to_tensor(cropped), list(self.mean), list(self.std))
        geometry = ImageGeometry((height, width), (resized_h, resized_w), offset, (self.size, self.size))
        return tensor, geometry

    def to_dict(self) -> dict[str, object]:
        """The settings as plain values, as they are written into a checkpoint's config."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}
