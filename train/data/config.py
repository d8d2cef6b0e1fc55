"""The settings of the data: which source, and what is done with a picture. Each kind is known by its first key.

data = { tars = "cc3m/cc3m-train-*.tar" }
data = { csv = "flickr.csv", root = "flickr" }
data = { scenes = 0, count = 100000 }
augment = { scale = [0.5, 1.0] }   or   { plain = true }
"""

import tomllib
from dataclasses import dataclass
from typing import Any, Literal

from models.errors import StudioError
from train.scenes.scene import WEIGHTS

KeyRule = Literal["first dot", "last dot"]


@dataclass(frozen=True)
class TarData:
    """Tar shards as img2dataset and webdataset write them.

    Attributes:
        tars: a folder of *.tar, one tar, a pattern ("train-*.tar"), or a range of shards ("train-{0000..0575}.tar").
        captions: where a caption may be, in order of preference: an extension for a text file, "EXTENSION:FIELD" for
            a field of a JSON file. The first that a sample has, and that is not of 0 bytes, is taken.
        images: extensions of pictures; the content decides the format.
        split: where a file's key ends: at the "first dot" of its base name, as webdataset has it, or at the "last
            dot", for names as 22.05.png. The folder is part of the key.

    Raises:
        StudioError: an empty list, or an extension with a dot in front.
    """

    tars: str
    captions: tuple[str, ...] = ("txt", "json:caption")
    images: tuple[str, ...] = ("jpg", "jpeg", "png", "webp")
    split: KeyRule = "first dot"

    def __post_init__(self) -> None:
        for name in ("captions", "images"):
            listed = getattr(self, name)
            if not listed or any(not item or item.startswith((".", ":")) for item in listed):
                raise StudioError(f"data.{name} = {list(listed)} must list extensions without their dot, as 'txt'.")


@dataclass(frozen=True)
class CsvData:
    """A CSV or TSV with a header, one picture and its caption a row.

    Attributes:
        csv: the file.
        root: the folder that pictures are named from and must lie in; "" is the CSV's own.
        image: the column with the picture's path; "" takes "filepath" or "image".
        caption: the column with the caption; "" takes "title" or "caption".
        separator: between columns; "" takes the tab, if the header has one, or else the comma.
        between_captions: what stands between several captions in one field, of which each visit draws one; "" for
            one caption a field.

    Raises:
        StudioError: a separator of more than one character.
    """

    csv: str
    root: str = ""
    image: str = ""
    caption: str = ""
    separator: str = ""
    between_captions: str = ""

    def __post_init__(self) -> None:
        if len(self.separator) > 1:
            raise StudioError(f"data.separator = {self.separator!r} must be one character, as ',', or '' to find it.")


@dataclass(frozen=True)
class SceneData:
    """Scenes made on the fly: `count` scenes of the series `scenes` (a seed), from number `first` on.

    Attributes:
        drawn: pixels a side at which they are drawn; 0 draws them at the model's size.
        weights: how often a scene holds one, two, three and four objects.

    Raises:
        StudioError: no scene, or a number below 0.
    """

    scenes: int
    count: int
    first: int = 0
    drawn: int = 0
    weights: tuple[float, float, float, float] = WEIGHTS

    def __post_init__(self) -> None:
        if self.count < 1 or min(self.scenes, self.first, self.drawn) < 0:
            raise StudioError(
                f"data.count = {self.count} must be at least 1, and scenes, first and drawn "
                f"({self.scenes}, {self.first}, {self.drawn}) at least 0."
            )


Data = TarData | CsvData | SceneData


@dataclass(frozen=True)
class RandomCrop:
    """A random part of the picture, scaled to the model's size: SLIP's recipe, which DiffCLIP inherits.

    Attributes:
        scale: least and greatest share of the picture's area.
        ratio: least and greatest width / height of the part.
        interpolation: of the scaling.

    Raises:
        StudioError: a range that holds nothing.
    """

    scale: tuple[float, float] = (0.5, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    interpolation: Literal["bilinear", "bicubic"] = "bilinear"

    def __post_init__(self) -> None:
        if not 0 < self.scale[0] <= self.scale[1] <= 1:
            raise StudioError(f"augment.scale = {list(self.scale)} must be two shares of the area, as [0.5, 1.0].")
        if not 0 < self.ratio[0] <= self.ratio[1]:
            raise StudioError(f"augment.ratio = {list(self.ratio)} must be two ratios above 0, as [0.75, 1.333].")


@dataclass(frozen=True)
class Plain:
    """No chance: the picture as the model's own preprocessing has it, in training as in evaluation."""

    plain: Literal[True] = True


Augment = RandomCrop | Plain


def setting(text: str, example: str) -> tuple[str, Any]:
    """What a person set as key=value; the value is read as TOML, or as text where it is not TOML.

    Raises:
        StudioError: it is not written so; the sentence gives the example.
    """
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise StudioError(f"{text!r} is not a setting: write key=value, as {example}.")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key, value
