"""Where a patch of the model's input lies on the picture that a person gave, and back.

All sizes are (height, width) and all points (y, x), in pixels; boxes are (top, left, bottom, right) with
the far edges excluded. A picture is resized, then cropped to the model's input; the part that the crop
cut off was never seen by the model and is NaN in every map that is laid over the original.
"""

from dataclasses import dataclass

import numpy as np

from models.errors import StudioError
from models.layout import TokenGrid


@dataclass(frozen=True)
class ImageGeometry:
    """The path of one picture from its own pixels to the model's input, as four sizes.

    A point of the input lies at `y_original = (y_input + offset_y) * original_h / resized_h` on the
    original picture, and likewise for x.
    """

    original: tuple[int, int]
    resized: tuple[int, int]
    offset: tuple[int, int]
    input: tuple[int, int]

    @property
    def scale(self) -> tuple[float, float]:
        """Original pixels per resized pixel, (vertical, horizontal)."""
        return self.original[0] / self.resized[0], self.original[1] / self.resized[1]

    @property
    def seen_box(self) -> tuple[float, float, float, float]:
        """The part of the original picture that the model saw."""
        return self.to_original_box((0.0, 0.0, float(self.input[0]), float(self.input[1])))

    def to_original_box(self, box: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
        """A box in input pixels as a box in original pixels."""
        top, left, bottom, right = box
        (sy, sx), (oy, ox) = self.scale, self.offset
        return (top + oy) * sy, (left + ox) * sx, (bottom + oy) * sy, (right + ox) * sx

    def patch_box(self, row: int, col: int, grid: TokenGrid) -> tuple[float, float, float, float]:
        """The box of the patch at (row, col) in original pixels.

        Raises:
            StudioError: the patch lies outside the grid.
        """
        grid.token(row, col)
        height, width = self.input[0] / grid.rows, self.input[1] / grid.cols
        return self.to_original_box((row * height, col * width, (row + 1) * height, (col + 1) * width))

    def patch_at(self, y: float, x: float, grid: TokenGrid) -> tuple[int, int] | None:
        """(row, col) of the patch under an original pixel, or None where the model saw nothing."""
        top, left, bottom, right = self.seen_box
        if not (max(top, 0) <= y < min(bottom, self.original[0])):
            return None
        if not (max(left, 0) <= x < min(right, self.original[1])):
            return None
        row = int((y - top) / (bottom - top) * grid.rows)
        col = int((x - left) / (right - left) * grid.cols)
        return min(row, grid.rows - 1), min(col, grid.cols - 1)

    def to_original(self, values: np.ndarray) -> np.ndarray:
        """A patch map (R, C) as a map of the original's pixels, nearest patch, NaN where nothing was seen.

        Raises:
            StudioError: `values` is not a matrix.
        """
        if values.ndim != 2:
            raise StudioError(f"A patch map has two axes (R, C), this one has {values.ndim}: choose one row of it.")
        top, left, bottom, right = self.seen_box
        rows, seen_rows = _patch_of_pixels(self.original[0], top, bottom, values.shape[0])
        cols, seen_cols = _patch_of_pixels(self.original[1], left, right, values.shape[1])
        full = values[np.ix_(rows, cols)].astype(np.float64)
        full[~np.logical_and.outer(seen_rows, seen_cols)] = np.nan
        return full


def _patch_of_pixels(pixels: int, near: float, far: float, patches: int) -> tuple[np.ndarray, np.ndarray]:
    """For each pixel of one axis: the patch index under its centre, and whether it was seen at all."""
    position = (np.arange(pixels) + 0.5 - near) / (far - near) * patches
    index = np.floor(position).astype(int)
    return np.clip(index, 0, patches - 1), (position >= 0) & (position < patches)
