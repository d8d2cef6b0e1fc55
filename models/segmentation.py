"""Maps of classes over a picture, from its dense features and a text classifier; what a value means is always said.

classifier = text_classifier(model, ["cat", "dog, puppy"])
phrases = to_original(phrase_maps(features, classifier), geometry)
maps = class_maps(phrases, classifier, Softmax(40.0))
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from models.errors import StudioError
from models.geometry import ImageGeometry
from models.text_classifier import TextClassifier


@dataclass(frozen=True)
class Cosine:
    """A class scores what the nearest of its phrases does: cosine similarity, -1 to 1."""


@dataclass(frozen=True)
class Softmax:
    """Softmax over all phrases of scale times cosine; a class scores what the likeliest of its phrases does.

    The scale is not the model's logit scale unless it is given: published codes take 40 to 65 for dense maps.

    Raises:
        StudioError: a scale that is not above 0.
    """

    scale: float = 40.0

    def __post_init__(self) -> None:
        if not 0 < self.scale < float("inf"):
            raise StudioError(f"A softmax of scale {self.scale} is impossible: give a number above 0.")


@dataclass(frozen=True)
class ClassMaps:
    """How much each place is of each class.

    Attributes:
        values: (B, K, ...), NaN where the model saw nothing.
        classes: their names, K.
        score: what the values are. `Cosine` also where a softmax was asked for over one class, which would be 1
            everywhere and tell nothing.
    """

    values: Tensor
    classes: tuple[str, ...]
    score: Cosine | Softmax


def phrase_maps(features: Tensor, classifier: TextClassifier) -> Tensor:
    """Cosine similarity (B, S, R, C) of dense features (B, R, C, E) with every phrase."""
    return torch.einsum("brce,se->bsrc", features, classifier.embeddings.to(features))


def class_maps(phrases: Tensor, classifier: TextClassifier, score: Cosine | Softmax = Cosine()) -> ClassMaps:
    """Phrases (B, S, ...) -> classes: the highest of each class's phrases.

    Phrase maps may be brought to pixels first (`upsample`, `to_original`), which is what the published codes do, or
    be combined patch by patch.
    """
    owners = torch.tensor(classifier.owners, device=phrases.device)
    count = len(classifier.classes)
    used = Cosine() if count == 1 else score
    values = torch.softmax(phrases * used.scale, dim=1) if isinstance(used, Softmax) else phrases
    merged = [values[:, owners == index].amax(1) for index in range(count)]
    return ClassMaps(torch.stack(merged, dim=1), classifier.classes, used)


def upsample(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """Patch maps (B, K, R, C) at the pixels of the model's input (B, K, height, width), bilinear between centres."""
    return F.interpolate(maps, size=size, mode="bilinear", align_corners=False)


def to_original(maps: Tensor, geometry: ImageGeometry) -> Tensor:
    """Patch maps (B, K, R, C) of one picture at its own pixels (B, K, height, width), NaN where it was not seen.

    Bilinear between patch centres, and constant from the outermost centres to the edge of what was seen, as in
    `upsample`; where nothing was resized or cut off they are equal.
    """
    top, left, bottom, right = geometry.seen_box
    rows, seen_rows = _between_patches(geometry.original[0], top, bottom, maps.shape[-2])
    cols, seen_cols = _between_patches(geometry.original[1], left, right, maps.shape[-1])
    full = rows.to(maps) @ maps @ cols.to(maps).T
    unseen = ~(seen_rows[:, None] & seen_cols).to(maps.device)
    return full.masked_fill(unseen, float("nan"))


def _between_patches(pixels: int, near: float, far: float, patches: int) -> tuple[Tensor, Tensor]:
    """Of one axis: the weight of each patch at each pixel (pixels, patches), and whether the pixel was seen."""
    position = (torch.arange(pixels, dtype=torch.float64) + 0.5 - near) / (far - near) * patches
    centre = (position - 0.5).clamp(0, patches - 1)
    distance = (centre[:, None] - torch.arange(patches, dtype=torch.float64)).abs()
    return (1 - distance).clamp(min=0), (position >= 0) & (position < patches)
