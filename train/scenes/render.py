"""From a scene to pixels and an exact mask of who is where."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from models.errors import StudioError
from train.scenes.grounds import add_clutter, paint_ground
from train.scenes.scene import Box, PlacedObject, Scene
from train.scenes.sprites import placed_sprite

SMALLEST, LARGEST = 16, 1024

# (object, height, width) -> its pixels (height, width, 4), premultiplied, 0..1.
Painter = Callable[[PlacedObject, int, int], NDArray[np.float32]]


def painted(item: PlacedObject, height: int, width: int) -> NDArray[np.float32]:
    """An object as its description says: (height, width, 4), premultiplied, 0..1."""
    return placed_sprite(item.name, height, width, item.orientation, item.tint)


def pixel_box(box: Box, size: int) -> tuple[int, int, int, int]:
    """(top, left, height, width) in pixels of a box in shares of a picture of `size` pixels a side."""
    top, left, bottom, right = box
    height = max(1, int((bottom - top) * size + 0.5))
    width = max(1, int((right - left) * size + 0.5))
    return min(int(top * size + 0.5), size - height), min(int(left * size + 0.5), size - width), height, width


def render_ground(scene: Scene, size: int) -> NDArray[np.uint8]:
    """The scene without its objects: ground and clutter, (size, size, 3)."""
    ground = paint_ground(scene.ground, size)
    if not scene.clutter:
        return ground
    picture = Image.fromarray(ground)
    add_clutter(picture, scene.clutter)
    return np.array(picture)


def render_scene(scene: Scene, size: int, painter: Painter = painted) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The picture (size, size, 3) and its instances (size, size), both uint8; `painter` draws each object.

    Instances are 0 on the ground and i + 1 where object i covers more than half of a pixel; a later object
    hides an earlier one.

    Raises StudioError when `size` is not from 16 to 1024.
    """
    if not SMALLEST <= size <= LARGEST:
        raise StudioError(
            f"A scene cannot be drawn at {size} pixels a side: sizes go from {SMALLEST} to {LARGEST}. "
            "Choose one within that."
        )
    image = render_ground(scene, size)
    instances = np.zeros((size, size), dtype=np.uint8)
    for number, item in enumerate(scene.objects, start=1):
        top, left, height, width = pixel_box(item.box, size)
        pixels = painter(item, height, width)
        window = np.s_[top : top + height, left : left + width]
        alpha = pixels[..., 3:]
        blended = image[window] * (1.0 - alpha) + pixels[..., :3] * np.float32(255) + np.float32(0.5)
        image[window] = np.minimum(blended, 255).astype(np.uint8)
        instances[window][alpha[..., 0] > 0.5] = number
    return image, instances
