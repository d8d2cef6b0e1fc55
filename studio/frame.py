"""Where things lie on the picture as it is shown: the preview and each model's part of it.

Boxes are (top, left, bottom, right). On the preview they are fractions of its height and width, so the browser needs
no pixel sizes of the original.
"""

import math

from PIL import Image

Box = tuple[float, float, float, float]

LONGEST = 1024
MAX_ASPECT = 3.0


def shown_window(size: tuple[int, int], seen: list[Box]) -> tuple[int, int, int, int]:
    """The part of an original of `size` (height, width) that is shown, in whole pixels.

    All of it, unless one side is more than three times the other: then what the models saw would be a sliver, so the
    long side is cut to three times the short one, around what they saw, and never less than that.
    """
    window = [0, 0, size[0], size[1]]
    for near, far in ((0, 2), (1, 3)):
        length, other = size[near], size[1 - near]
        wanted = round(other * MAX_ASPECT)
        if length <= wanted:
            continue
        first, last = min(box[near] for box in seen), max(box[far] for box in seen)
        start = int(min(max((first + last - wanted) / 2, 0), length - wanted))
        window[near], window[far] = min(start, int(max(first, 0))), max(start + wanted, math.ceil(min(last, length)))
    return window[0], window[1], window[2], window[3]


def preview(image: Image.Image, window: tuple[int, int, int, int]) -> Image.Image:
    """The shown part of the picture, its longer side at most 1024 pixels."""
    top, left, bottom, right = window
    part = image.crop((left, top, right, bottom))
    part.thumbnail((LONGEST, LONGEST), Image.Resampling.LANCZOS)
    return part


def on_preview(box: Box, window: tuple[int, int, int, int]) -> Box:
    """A box in original pixels as fractions of the shown window."""
    top, left, bottom, right = window
    height, width = bottom - top, right - left
    return (box[0] - top) / height, (box[1] - left) / width, (box[2] - top) / height, (box[3] - left) / width
