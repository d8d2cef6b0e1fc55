"""Models, what they attend to, and nothing else: no user interface, no training.

model = load_model("diffclip-scenes")
pixels, geometry = model.preprocess(picture)
with record(model.vision) as recording:
    model.encode_image(pixels[None])
maps = attention_maps(recording[5], source="qk", normalizer=Normalizer(1.5))
"""

from models.errors import StudioError
from models.loaded import LoadedModel, Tower
from models.maps import AttentionMaps, attention_maps
from models.normalizers import Normalizer
from models.pictures import open_picture
from models.recorder import Recording, record
from models.zoo import available_models, load_model

__all__ = [
    "AttentionMaps",
    "LoadedModel",
    "Normalizer",
    "Recording",
    "StudioError",
    "Tower",
    "attention_maps",
    "available_models",
    "load_model",
    "open_picture",
    "record",
]
