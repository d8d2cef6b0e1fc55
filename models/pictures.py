"""Any picture file a person has -> the upright RGB picture that every part of the project works on.

One rule each for what picture files hide: EXIF orientation is applied, transparency is laid over white,
16-bit and float images are brought to 8 bits, the first frame of an animation is taken. Size and shape are
checked from the header, before any pixel is decoded, so a small file cannot expand without bound.
"""

import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from models.errors import PictureError

MAX_PIXELS = 25_000_000
MAX_ASPECT = 50.0
FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "AVIF", "JPEG2000", "PPM")


def open_picture(source: Path | str | bytes) -> Image.Image:
    """Read a picture file (a path, or its bytes) as upright 8-bit RGB.

    The content decides what a file is, not its name.

    Raises:
        PictureError: empty, not a picture, truncated, beyond 25 megapixels or an aspect ratio of 50.
    """
    stream = io.BytesIO(source) if isinstance(source, bytes) else source
    try:
        with Image.open(stream, formats=FORMATS) as image:
            check_size(image.size)
            image.load()
            return upright_rgb(image)
    except PictureError:
        raise
    except Image.DecompressionBombError as error:
        raise PictureError(f"The picture is larger than {MAX_PIXELS:,} pixels: make it smaller.") from error
    except UnidentifiedImageError as error:
        raise PictureError("The file is not a picture that can be read: use JPEG, PNG, WebP or TIFF.") from error
    except Exception as error:  # Pillow's decoders raise nearly anything for a damaged file
        raise PictureError(f"The picture cannot be read to its end ({error}): save it again.") from error


def check_size(size: tuple[int, int]) -> None:
    """Refuse a picture by its header. `size` is Pillow's (width, height).

    Raises:
        PictureError: more than 25 megapixels, or one side more than 50 times the other.
    """
    width, height = size
    if width < 1 or height < 1:
        raise PictureError(f"The picture has no pixels ({width} x {height}): choose another file.")
    if width * height > MAX_PIXELS:
        raise PictureError(
            f"The picture has {width * height / 1e6:.1f} megapixels ({width} x {height}): "
            f"at most {MAX_PIXELS / 1e6:.0f} are taken, make it smaller."
        )
    aspect = max(size) / min(size)
    if aspect > MAX_ASPECT:
        raise PictureError(
            f"The picture is {aspect:.0f} times longer than it is wide ({width} x {height}): "
            f"at most {MAX_ASPECT:.0f} times is taken, crop it."
        )


def upright_rgb(image: Image.Image) -> Image.Image:
    """A Pillow image of any mode as upright 8-bit RGB; transparent parts become white.

    Raises:
        PictureError: a float image that holds a value that is not a finite number.
    """
    try:
        upright = ImageOps.exif_transpose(image)
    except Exception:  # damaged EXIF, in which Pillow stumbles in many ways; the pixels themselves are whole
        upright = image
    if upright.mode.startswith("I;16") or upright.mode in ("I", "F"):
        return _from_deep(upright)
    if upright.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in upright.info:
        rgba = upright.convert("RGBA")
        paper = Image.new("RGBA", rgba.size, (255, 255, 255, 255))
        return Image.alpha_composite(paper, rgba).convert("RGB")
    return upright.convert("RGB")


def _from_deep(image: Image.Image) -> Image.Image:
    """16-bit, 32-bit or float grey to 8 bits: a full 16-bit range, or 0..1, or 0..255, by the values."""
    values = np.asarray(image).astype(np.float64)
    if not np.isfinite(values).all():
        raise PictureError("The picture holds values that are not numbers: save it as 8-bit or 16-bit.")
    top = values.max(initial=0.0)
    full = (
        1.0
        if image.mode == "F" and top <= 1.0
        else 255.0
        if top <= 255.0 and not image.mode.startswith("I;16")
        else 65535.0
    )
    grey = np.clip(np.rint(values / full * 255.0), 0, 255).astype(np.uint8)
    return Image.fromarray(grey).convert("RGB")
