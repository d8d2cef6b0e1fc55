"""Models, what they attend to, and nothing else: no user interface, no training.

model = load_model("diffclip-scenes")
pixels, geometry = model.preprocess(picture)
with record(model.vision) as recording:
    model.encode_image(pixels[None])
maps = attention_maps(recording[5], source="qk", normalizer=Normalizer(1.5))

Each name is imported when it is first asked for: open_clip takes seconds, and a command that only reads file names
or prints its help needs none of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from models.description import Description, describe
    from models.errors import StudioError
    from models.gradients import Choice, map_gradients
    from models.loaded import LoadedModel, Tower
    from models.maps import AttentionMaps, attention_maps
    from models.normalizers import Normalizer
    from models.pictures import open_picture
    from models.recorder import Recording, record
    from models.zoo import available_models, load_model

__all__ = [
    "AttentionMaps",
    "Choice",
    "Description",
    "LoadedModel",
    "Normalizer",
    "Recording",
    "StudioError",
    "Tower",
    "attention_maps",
    "available_models",
    "describe",
    "load_model",
    "map_gradients",
    "open_picture",
    "record",
]

_HOMES = {
    "AttentionMaps": "maps",
    "Choice": "gradients",
    "Description": "description",
    "LoadedModel": "loaded",
    "Normalizer": "normalizers",
    "Recording": "recorder",
    "StudioError": "errors",
    "Tower": "loaded",
    "attention_maps": "maps",
    "available_models": "zoo",
    "describe": "description",
    "load_model": "zoo",
    "map_gradients": "gradients",
    "open_picture": "pictures",
    "record": "recorder",
}


def __getattr__(name: str) -> object:
    """Import a public name from its module."""
    if name not in _HOMES:
        raise AttributeError(f"module 'models' has no attribute {name!r}")
    value = getattr(import_module(f"models.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
