"""Pictures with a class each: a folder with one folder a class, and scenes with one object."""

import hashlib
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from models.errors import StudioError
from train.data.config import CsvData
from train.data.csv_folder import CsvFolder
from train.data.packed import Packer
from train.data.sample import Reason, Sample, Skip, Source, counted
from train.scenes import OBJECT_NAMES, SceneOptions, describe_scene
from train.scenes.renderings import Rendering, render_as

NAMES = "classes.txt"
EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif", ".jp2", ".ppm")


@dataclass(frozen=True, eq=False)
class Labelled:
    """A source whose samples have classes.

    Attributes:
        source: the pictures.
        classes: K names; synonyms have commas between.
        labels: (n,), the class 0 to K - 1 of each sample.
        description: what it is, for a person, in one line.
    """

    source: Source
    classes: tuple[str, ...]
    labels: NDArray[np.int64]
    description: str


def open_labelled_folder(folder: str) -> Labelled:
    """A folder with one folder of pictures a class, as torchvision's ImageFolder and ImageNet have it.

    Classes are sorted by the names of their folders, in which pictures may lie at any depth. A class is called as its
    folder, with spaces for underscores; or as `classes.txt` in `folder` says, which has a line a class, either the
    names alone in the order of the sorted folders, or FOLDER, a tab, and the name.

    Raises:
        StudioError: no such folder, fewer than two classes, two of one name, no picture, or a classes.txt that does
            not fit.
    """
    root = Path(folder)
    if not root.is_dir():
        raise StudioError(f"There is no folder {folder}: give one that holds a folder of pictures for each class.")
    folders = sorted(item.name for item in root.iterdir() if item.is_dir() and _seen(item.name))
    if len(folders) < 2:
        raise StudioError(
            f"{folder} holds {counted(len(folders), 'folder')}, and one class is always right: it must hold a folder "
            "of pictures for each of two or more classes."
        )
    classes = _names(root / NAMES, folders)
    repeated = [name for name, count in Counter(classes).items() if count > 1]
    if repeated:
        raise StudioError(
            f"{folder} has several classes with the name {repeated[0]!r}, which no model could tell apart: name them "
            f"in {root / NAMES}."
        )
    paths, captions, labels, others = Packer(), Packer(), [], 0
    for label, name in enumerate(folders):
        for path in _files(root / name):
            if path.suffix.lower() in EXTENSIONS:
                paths.add(str(path.relative_to(root)))
                captions.add(classes[label])
                labels.append(label)
            else:
                others += 1
    if not labels:
        raise StudioError(f"{folder}: none of its {len(folders)} folders holds a picture ({', '.join(EXTENSIONS)}).")
    # Paths with a text each: what a CSV with pictures is, once it is read.
    table = CsvFolder(CsvData(folder), os.path.abspath(folder), paths.packed(), captions.packed(), {}, ())
    told = f"{folder}: {counted(len(labels), 'picture')} in {len(classes)} classes"
    return Labelled(
        table,
        classes,
        np.array(labels, dtype=np.int64),
        told + (f", {counted(others, 'other file')} left out" if others else ""),
    )


def _seen(name: str) -> bool:
    return not name.startswith(".") and not (name.startswith("__") and name.endswith("__"))


def _files(folder: Path) -> list[Path]:
    """All files below a folder that are not hidden, sorted."""
    found = []
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if _seen(name)]
        found += [Path(where, name) for name in names if _seen(name)]
    return sorted(found)


def _names(path: Path, folders: list[str]) -> tuple[str, ...]:
    """The names of the classes, in the order of their folders."""
    if not path.exists():
        return tuple(name.replace("_", " ").strip() for name in folders)
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").strip().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise StudioError(f"{path} cannot be read ({error}): save it as UTF-8 text.") from error
    if lines and all("\t" in line for line in lines):
        named = {folder.strip(): name.strip() for folder, _, name in (line.partition("\t") for line in lines)}
        wrong = sorted(set(folders) ^ set(named))
        if wrong or len(named) != len(lines):
            problem = f"{wrong[0]!r} is only in one of them" if wrong else "a folder is named twice"
            raise StudioError(
                f"{path} does not fit the {len(folders)} folders beside it ({problem}): give each folder one line, its "
                "name, a tab, and the name of the class."
            )
        return tuple(named[name] for name in folders)
    if len(lines) != len(folders) or not all(lines):
        raise StudioError(
            f"{path} has {len(lines)} lines for the {len(folders)} folders beside it: give each folder one line, in "
            "their sorted order."
        )
    return tuple(lines)


@dataclass(frozen=True)
class OneObjectScenes:
    """Scenes 0 to `count` - 1 of a seed that hold one object each, drawn at `size` pixels a side, as a source.

    `rendering` is one of `train.scenes.renderings`: "plain" as in training, the others for measuring beyond it.
    """

    seed: int
    count: int
    size: int
    rendering: Rendering = "plain"

    def __len__(self) -> int:
        return self.count

    def read(self, index: int, least_side: int = 0) -> Sample | Skip:
        """Scene `index` and the name of its object, always readable; `least_side` means nothing to it."""
        scene = describe_scene(self.seed, index, SceneOptions(objects=(1, 1)))
        return Sample(Image.fromarray(render_as(scene, self.size, self.rendering)), (scene.objects[0].name,))

    @property
    def left_out(self) -> Mapping[Reason, int]:
        """Nothing."""
        return {}

    @property
    def examples(self) -> tuple[Skip, ...]:
        """Nothing is left out."""
        return ()

    def fingerprint(self) -> str:
        """Over the settings; not over the drawing code."""
        return hashlib.sha256(self.describe().encode()).hexdigest()

    def describe(self) -> str:
        """What it is, in one line."""
        how = "" if self.rendering == "plain" else f", {self.rendering}"
        return f"{counted(self.count, 'scene')} with one object, seed {self.seed}, drawn at {self.size} pixels{how}"


def one_object_scenes(seed: int, count: int, size: int, rendering: Rendering = "plain") -> Labelled:
    """Scenes with one object each, over all object names.

    Raises:
        StudioError: fewer than one scene.
    """
    if count < 1:
        raise StudioError(f"{count} images cannot be classified: give 1 or more.")
    source = OneObjectScenes(seed, count, size, rendering)
    options = SceneOptions(objects=(1, 1))
    names = (describe_scene(seed, index, options).objects[0].name for index in range(count))
    labels = np.array([OBJECT_NAMES.index(name) for name in names])
    return Labelled(source, tuple(OBJECT_NAMES), labels, source.describe())
