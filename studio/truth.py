"""Which class each pixel of a picture is, from a scene's own mask, an uploaded one or one that was painted.

A mask is a picture in grey of the picture's own size: 0 is ground. If it holds one other value, that is the class that
is named; if it holds several, value v is the v-th class.
"""

import base64
import binascii
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from models import StudioError
from models.geometry import ImageGeometry
from models.layout import TokenGrid
from models.localisation import patch_coverage
from studio.examples import Example
from studio.measures import Objects, objects_of

# Where masks are from that a person gives, in words.
PAINTED, UPLOADED = "painted", "uploaded"
_PAINTED_BYTES = 4 * 2**20
_PAINTED_SIDE = 4096


@dataclass(frozen=True)
class Truth:
    """What a mask says.

    Attributes:
        labels: (height, width) of the picture: 0 is ground, c the class `classes[c - 1]`.
        classes: the names.
        source: where the mask is from, in words.
    """

    labels: np.ndarray
    classes: tuple[str, ...]
    source: str

    @property
    def words(self) -> str:
        """The mask as it is called in a sentence."""
        return f"the {self.source} mask" if self.source in (PAINTED, UPLOADED) else self.source

    def objects(self, geometry: ImageGeometry, grid: TokenGrid) -> Objects:
        """Which patches of a model lie on any object.

        Raises:
            StudioError: the mask is not of the picture's size.
        """
        return objects_of(patch_coverage(self.labels > 0, geometry, grid))


def scene_truth(example: Example) -> Truth:
    """The mask that comes with a scene; objects of one name are one class.

    Raises:
        StudioError: the picture has no mask, or is not in the list beside it.
    """
    if example.mask is None:
        raise StudioError(f"{example.picture.name} has no mask of its objects: upload or paint one.")
    listing = json.loads((example.mask.parent / "examples.json").read_text(encoding="utf-8"))
    found = [entry for entry in listing if entry["mask"] == example.mask.name]
    if not found:
        raise StudioError(f"The scene {example.picture.name} is not in the list of scenes: make the scenes again.")
    numbers = np.asarray(Image.open(example.mask).convert("L"))
    labels = np.zeros(numbers.shape, np.int64)
    for item in found[0]["objects"]:
        labels[numbers == item["id"]] = example.objects.index(item["name"]) + 1
    return Truth(labels, example.objects, "the scene's own mask")


def mask_truth(mask: Image.Image, size: tuple[int, int], classes: Sequence[str], named: str, source: str) -> Truth:
    """An uploaded or painted mask of a picture of `size` (height, width).

    Args:
        mask: any picture; its brightness is what counts.
        size: of the picture.
        classes: the typed classes.
        named: the class of a mask with one value other than 0; the first class if empty.
        source: where the mask is from, in words.

    Raises:
        StudioError: another size than the picture's, nothing marked, or more values than classes.
    """
    if (mask.height, mask.width) != size:
        raise StudioError(
            f"The mask is {mask.width} × {mask.height} pixels and the picture {size[1]} × {size[0]}: make them equal."
        )
    numbers = np.asarray(mask.convert("L")).astype(np.int64)
    values = [int(value) for value in np.unique(numbers) if value]
    if not values:
        raise StudioError("The mask marks nothing: every pixel of it is 0, which is ground.")
    if len(values) == 1:
        return Truth((numbers > 0).astype(np.int64), (named.strip() or classes[0],), source)
    if values[-1] > len(classes):
        raise StudioError(
            f"The mask holds the value {values[-1]} and there are {len(classes)} classes: give one value for one "
            "class, or the values 1, 2, 3, … for the typed classes in their order."
        )
    return Truth(numbers, tuple(classes), source)


def measured_against(truth: Truth | None) -> str:
    """What the numbers of maps are held against, in a sentence: of three masks that can hold, the one that does."""
    if truth is None:
        return "This picture has no object mask, so mass in the object and AUROC are not given."
    return f"Mass in the object and AUROC are measured against {truth.words}."


def painted_mask(value: Any, size: tuple[int, int]) -> Image.Image | None:
    """The mask in a painter's value, at the picture's size (height, width); None where nothing was painted.

    Raises:
        StudioError: it is not a painter's value; anyone can send anything.
    """
    sent = value.get("mask") if isinstance(value, dict) else None
    if sent is None:
        return None
    refusal = StudioError("That is not a mask that was painted on this page: paint it again.")
    if not isinstance(sent, str) or not sent.startswith("data:image/png;base64,") or len(sent) > _PAINTED_BYTES:
        raise refusal
    try:
        image = Image.open(io.BytesIO(base64.b64decode(sent.partition(",")[2], validate=True)), formats=["PNG"])
        if max(image.size) > _PAINTED_SIDE:
            raise refusal
        grey = image.convert("L")
    except (binascii.Error, OSError, ValueError, SyntaxError) as error:
        raise refusal from error
    clear = Image.fromarray(np.where(np.asarray(grey) > 127, 255, 0).astype(np.uint8))
    return clear.resize((size[1], size[0]), Image.Resampling.NEAREST) if clear.getbbox() else None
