"""The pictures that come with the project: scenes with a mask of where the objects are, and photographs."""

import base64
import hashlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image

from models import StudioError, open_picture

_ASSETS = Path(__file__).resolve().parent.parent / "assets"
FOLDER = _ASSETS / "examples"
PHOTOGRAPHS = _ASSETS / "photographs"
Group = Literal["Scenes", "Photographs"]
_THUMBNAIL = 96


@dataclass(frozen=True)
class Example:
    """One picture.

    Attributes:
        picture: the picture file.
        mask: a PNG of the same size, 0 where the ground is and another number for each object; None for a photograph.
        caption: the sentence that describes it.
        objects: names of the objects, each once.
        token: what `picture_token` gives for it.
        group: under which heading it is shown.
    """

    picture: Path
    mask: Path | None
    caption: str
    objects: tuple[str, ...]
    token: str
    group: Group = "Scenes"

    def inside(self) -> np.ndarray:
        """True (height, width) where an object is.

        Raises:
            StudioError: nobody has marked the objects of this picture.
        """
        if self.mask is None:
            raise StudioError(f"{self.picture.name} has no mask of its objects: choose one of the scenes.")
        return np.asarray(Image.open(self.mask).convert("L")) > 0


def picture_token(image: Image.Image) -> str:
    """A name for the pixels of an RGB picture, whatever file or route they came by."""
    return hashlib.sha256(f"{image.width}x{image.height}".encode() + image.tobytes()).hexdigest()[:32]


def load_examples(folder: Path = FOLDER) -> tuple[Example, ...]:
    """The scenes that examples.json lists, or none where there is no such file.

    Raises:
        StudioError: examples.json lists a file that is not there, or is malformed.
    """
    listing = folder / "examples.json"
    if not listing.is_file():
        return ()
    try:
        return tuple(_example(folder, entry) for entry in json.loads(listing.read_text(encoding="utf-8")))
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise StudioError(f"{listing} does not list scenes ({error}): make it again.") from error


def _example(folder: Path, entry: dict) -> Example:
    picture = folder / entry["image"]
    names = dict.fromkeys(item["name"] for item in entry["objects"])
    return Example(
        picture, folder / entry["mask"], entry["caption"], tuple(names), picture_token(open_picture(picture))
    )


def load_photographs(folder: Path = PHOTOGRAPHS) -> tuple[Example, ...]:
    """The photographs that photographs.json lists, or none where there is no such file.

    Raises:
        StudioError: photographs.json lists a file that is not there, or is malformed.
    """
    listing = folder / "photographs.json"
    if not listing.is_file():
        return ()
    try:
        entries = json.loads(listing.read_text(encoding="utf-8"))
        found = [(folder / entry["image"], str(entry["caption"])) for entry in entries]
        return tuple(
            Example(picture, None, caption, (), picture_token(open_picture(picture)), "Photographs")
            for picture, caption in found
        )
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise StudioError(f"{listing} does not list photographs ({error}): make it again.") from error


def load_gallery() -> tuple[Example, ...]:
    """All pictures that come with the project, scenes first."""
    return (*load_examples(), *load_photographs())


def thumbnail(example: Example) -> str:
    """The picture small, in a data URL, for a button."""
    image = open_picture(example.picture)
    image.thumbnail((_THUMBNAIL, _THUMBNAIL))
    return data_url(image)


def data_url(image: Image.Image, quality: int = 90) -> str:
    """A picture as a JPEG data URL: it needs no file on the server that could be cleared away under an open page."""
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=quality)
    return "data:image/jpeg;base64," + base64.b64encode(stream.getvalue()).decode("ascii")
