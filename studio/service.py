"""The only caller of models: loads them once, records what they do with a picture, hands out maps.

Running a model and reading its maps are apart. `look` runs it, from events that wait in one queue; `layer` reads a
recording and can be called at any time, but never runs a model: what was let go to save memory is said to be gone.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image
from torch import Tensor

from models import LoadedModel, Normalizer, Recording, StudioError, attention_maps, available_models, load_model, record
from models.checkpoints import read_info
from models.geometry import ImageGeometry
from models.layout import TokenGrid
from models.localisation import patch_coverage
from models.zoo import SHIPPED
from studio.examples import Example, picture_token
from studio.measures import Objects, objects_of
from studio.store import BoundedStore
from studio.view import layer_payload

RECORDING_BYTES = 256 * 2**20
PAYLOAD_BYTES = 128 * 2**20
# Kept are inputs and outputs (2 D a token); a layer that is looked at adds Q, K and V (3 D).
_WITH_PROJECTIONS = 2.5
_READERS = 2
_PATIENCE = 20.0


@dataclass(frozen=True)
class Look:
    """What one model did with one picture.

    Attributes:
        model: the model.
        recording: its vision tower's run.
        embedding: the picture's embedding (1, E) of length 1.
        geometry: where the patches lie on the picture.
        objects: which patches lie on an object, None for a picture without a mask.
    """

    model: LoadedModel
    recording: Recording
    embedding: Tensor
    geometry: ImageGeometry
    objects: Objects | None


class Service:
    """Models by name, and what they did with the pictures that were looked at last."""

    def __init__(
        self,
        models: Sequence[str | Path],
        examples: Sequence[Example],
        recording_bytes: int = RECORDING_BYTES,
        payload_bytes: int = PAYLOAD_BYTES,
    ) -> None:
        self._sources = {Path(source).name: source for source in models}
        if len(self._sources) < len(models):
            raise StudioError("Two of the models have the same name: rename one of the folders, so each can be chosen.")
        self._loaded: dict[str, LoadedModel] = {}
        self._loading = threading.Lock()
        self._examples = {example.token: example for example in examples}
        self.looks: BoundedStore[tuple[str, str], Look] = BoundedStore(recording_bytes)
        self.payloads: BoundedStore[tuple[str, str, int, float], dict[str, Any]] = BoundedStore(payload_bytes)
        self._readers = threading.BoundedSemaphore(_READERS)

    @property
    def names(self) -> list[str]:
        """Names of the models that can be asked for."""
        return list(self._sources)

    def title(self, name: str) -> str:
        """How a person reads the model's name, from its config alone; the name itself where that cannot be read."""
        try:
            return read_info(self.folder(name)).title
        except StudioError:
            return name

    def folder(self, name: str) -> Path:
        """Where the model's checkpoint, its card and its log lie."""
        source = self._sources[name]
        return SHIPPED / source if isinstance(source, str) and source in available_models() else Path(source)

    def model(self, name: str) -> LoadedModel:
        """The model of that name; it is loaded once.

        Raises:
            StudioError: there is none of that name, or its checkpoint is broken.
        """
        if name not in self._sources:
            raise StudioError(f"There is no model {name!r} here: choose {', '.join(self._sources)}.")
        with self._loading:
            if name not in self._loaded:
                self._loaded[name] = load_model(self._sources[name])
            return self._loaded[name]

    def example(self, token: str) -> Example | None:
        """The example scene with these pixels, if it is one."""
        return self._examples.get(token)

    def look(self, name: str, image: Image.Image) -> Look:
        """What the model does with a picture (upright RGB); it is run only if that is not known already."""
        token = picture_token(image)
        known = self.looks.get((name, token))
        if known is not None:
            return known
        model = self.model(name)
        pixels, geometry = model.preprocess(image)
        with record(model.vision) as recording:
            embedding = model.encode_image(pixels[None], normalize=True)
        example = self.example(token)
        grid = vision_grid(model)
        objects = None if example is None else objects_of(patch_coverage(example.inside(), geometry, grid))
        look = Look(model, recording, embedding, geometry, objects)
        self.looks.put((name, token), look, int(recording.nbytes * _WITH_PROJECTIONS))
        return look

    def layer(self, name: str, token: str, layer: int, alpha: float) -> dict[str, Any] | None:
        """The maps of one layer for the browser, or None when the recording was let go.

        Raises:
            StudioError: no such layer, alpha outside 1..2, or too many ask at once.
        """
        look = self.looks.get((name, token))
        if look is None:
            return None
        key = (name, token, layer, alpha)
        payload = self.payloads.get(key)
        if payload is not None:
            return payload
        if not self._readers.acquire(timeout=_PATIENCE):
            raise StudioError("Many people ask for maps at this moment: move the control again in a few seconds.")
        try:
            maps = attention_maps(look.recording[layer], normalizer=Normalizer(alpha))
            payload = layer_payload(maps, vision_grid(look.model).prefix, look.objects)
        finally:
            self._readers.release()
        self.payloads.put(key, payload, _text_bytes(payload))
        return payload


def vision_grid(model: LoadedModel) -> TokenGrid:
    """What the tokens of the vision tower are."""
    layout = model.vision.layout
    if not isinstance(layout, TokenGrid):
        raise StudioError(f"{model.title} has no grid of patches, so nothing can be laid over a picture.")
    return layout


def _text_bytes(payload: dict[str, Any]) -> int:
    """Bytes of all text in a payload; the few numbers beside it do not count."""
    return sum(
        _text_bytes(value) if isinstance(value, dict) else len(value) if isinstance(value, str) else 0
        for value in payload.values()
    )
