"""Pictures of named objects with captions, masks and minimal pairs, made from OpenMoji drawings.

`describe_scene(seed, index)` is a pure function; `render_scene(scene, size)` draws it at any size.
"""

from train.scenes.describe import describe_scene
from train.scenes.objects import OBJECT_NAMES, article
from train.scenes.pairs import minimal_pair
from train.scenes.render import render_scene
from train.scenes.scene import PlacedObject, Scene, SceneOptions
from train.scenes.shards import write_shards

__all__ = [
    "OBJECT_NAMES",
    "PlacedObject",
    "Scene",
    "SceneOptions",
    "article",
    "describe_scene",
    "minimal_pair",
    "render_scene",
    "write_shards",
]
