"""Bytes of a sample -> its picture or its captions, or the reason why they cannot be had.

The rules of `models.pictures` hold (25 megapixels and an aspect ratio of 50, checked from the header; orientation,
transparency and depth); here a failure is a word to count instead of a sentence to show, and a JPEG may be decoded
at a reduced scale.
"""

import io
import json
import warnings

from PIL import Image, UnidentifiedImageError

from models.errors import PictureError
from models.pictures import FORMATS, check_size, upright_rgb
from train.data.sample import Reason

MAX_BYTES = 200_000_000


def decode_picture(content: bytes, least_side: int = 0) -> Image.Image | Reason:
    """The upright RGB picture of a file's content, or why there is none.

    With `least_side` above 0 a JPEG is decoded at the smallest of 1/1, 1/2, 1/4, 1/8 of its size at which both sides
    keep that many pixels. A reduced decode averages blocks of pixels, as the resize that follows would.
    """
    if not content:
        return "no image"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # check_size refuses these
            image = Image.open(io.BytesIO(content), formats=FORMATS)
    except UnidentifiedImageError:
        return "not a picture"
    except Image.DecompressionBombError:
        return "too large"
    except Exception:  # Pillow's readers raise nearly anything for a damaged header
        return "damaged picture"
    with image:
        try:
            check_size(image.size)
        except PictureError:
            return "too large"
        try:
            if least_side > 0 and image.format == "JPEG":
                image.draft(None, _asked(image.size, least_side))
            image.load()
            return image if _is_upright_rgb(image) else upright_rgb(image)
        except Exception as error:  # and for damaged pixels
            return "truncated picture" if "truncated" in str(error).lower() else "damaged picture"


def _is_upright_rgb(image: Image.Image) -> bool:
    """Whether nothing is to be done: a quarter of the time of reading a small JPEG would go into copies of it."""
    return image.format == "JPEG" and image.mode == "RGB" and not image.info.keys() & {"exif", "xmp"}


def _asked(size: tuple[int, int], least_side: int) -> tuple[int, int]:
    """`size` scaled until its shorter side is `least_side`: Pillow's draft keeps both sides at or above this."""
    share = min(1.0, least_side / min(size))
    return max(1, round(size[0] * share)), max(1, round(size[1] * share))


def decode_captions(content: bytes, field: str) -> tuple[str, ...] | Reason:
    """The captions in a text file (`field` is "") or in a field of a JSON object: a text, or a list of texts.

    Text is UTF-8; space around it is taken off, and texts of nothing but space are left out.
    """
    try:
        text = content.decode("utf-8-sig")
        value = json.loads(text).get(field) if field else text
    except (ValueError, AttributeError, RecursionError):  # not UTF-8, not JSON, not an object
        return "caption not text"
    if value is None:
        return "no caption"
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(item, str) for item in values):
        return "caption not text"
    return tuple(item.strip() for item in values if item.strip()) or "empty caption"
