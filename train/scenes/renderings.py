"""The same scene drawn in ways that training never saw, for measuring what is left of recognition.

"plain" is the drawing of training and the control. "outline" keeps the dark lines and fills them with white;
"recoloured" swaps the colour channels of each object, so only grey stays; "textured" fills objects with a speckled
texture and keeps their light and dark; "cluttered" puts four times as many small shapes behind the objects as any
training scene has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from models.errors import StudioError
from train.scenes.chance import Chance
from train.scenes.describe import draw_clutter
from train.scenes.grounds import GROUND_COLOURS, Ground, paint_ground
from train.scenes.render import Painter, painted, render_scene
from train.scenes.scene import PlacedObject, Scene
from train.scenes.sprites import luminance

Rendering = Literal["plain", "outline", "recoloured", "textured", "cluttered"]
RENDERINGS: tuple[Rendering, ...] = get_args(Rendering)

_STREAM = 2  # keeps what is drawn here apart from the choices of the scene and of its pair
_SHAPES = 24
# Of the five ways to swap three channels these two change every colour but grey.
_SWAPS = ((1, 2, 0), (2, 0, 1))


def render_as(scene: Scene, size: int, rendering: Rendering) -> NDArray[np.uint8]:
    """The picture (size, size, 3) of a scene in one of the renderings; a pure function of its arguments.

    Raises:
        StudioError: an unknown rendering, or a size that `render_scene` refuses.
    """
    if rendering not in RENDERINGS:
        raise StudioError(f"Rendering {rendering!r} is unknown: choose one of {', '.join(RENDERINGS)}.")
    if rendering == "cluttered":
        scene = replace(scene, clutter=draw_clutter(Chance(scene.seed, scene.index, _STREAM), _SHAPES))
    return render_scene(scene, size, _PAINTERS[rendering](scene))[0]


def _plain(scene: Scene) -> Painter:
    return painted


def _outline(scene: Scene) -> Painter:
    def paint(item: PlacedObject, height: int, width: int) -> NDArray[np.float32]:
        pixels = painted(item, height, width)
        white = np.clip((luminance(pixels) - 0.15) / 0.2, 0, 1).astype(np.float32)
        return np.concatenate([np.repeat(white * pixels[..., 3:], 3, axis=2), pixels[..., 3:]], axis=2)

    return paint


def _recoloured(scene: Scene) -> Painter:
    chance = Chance(scene.seed, scene.index, _STREAM)
    swaps = {name: chance.pick(_SWAPS) for name in dict.fromkeys(item.name for item in scene.objects)}

    def paint(item: PlacedObject, height: int, width: int) -> NDArray[np.float32]:
        return painted(item, height, width)[..., [*swaps[item.name], 3]]

    return paint


def _textured(scene: Scene) -> Painter:
    chance = Chance(scene.seed, scene.index, _STREAM)
    names = tuple(chance.several(tuple(GROUND_COLOURS), 2))
    colours = tuple(GROUND_COLOURS[name] for name in names)
    ground = Ground("noise", names, colours, 24, 0.0, chance.whole(0, 2**31 - 1))

    def paint(item: PlacedObject, height: int, width: int) -> NDArray[np.float32]:
        pixels = painted(item, height, width)
        texture = paint_ground(ground, max(height, width))[:height, :width].astype(np.float32) / np.float32(255)
        shade = np.minimum(np.float32(1), np.sqrt(luminance(pixels)) * np.float32(1.2))
        return np.concatenate([texture * shade * pixels[..., 3:], pixels[..., 3:]], axis=2)

    return paint


_PAINTERS: dict[Rendering, Callable[[Scene], Painter]] = {
    "plain": _plain,
    "outline": _outline,
    "recoloured": _recoloured,
    "textured": _textured,
    "cluttered": _plain,
}
