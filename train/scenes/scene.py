"""What a scene is: objects at places on a ground, and what its caption says of them.

A scene is a description in unit coordinates; pixels are made from it at any size.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from models.errors import StudioError
from train.scenes.grounds import GROUND_KINDS, Clutter, Ground
from train.scenes.objects import OBJECT_NAMES, named

Box = tuple[float, float, float, float]

SIZES: dict[str, tuple[float, float]] = {"small": (0.24, 0.32), "medium": (0.36, 0.48), "large": (0.55, 0.75)}
MOST_OBJECTS = 4
# How often a scene holds one, two, three and four objects.
WEIGHTS = (0.45, 0.30, 0.15, 0.10)


@dataclass(frozen=True)
class PlacedObject:
    """One object of a scene.

    `size` is a word of SIZES: the longer side as a share of the picture's side. `place` is the ninth of the
    picture that holds the centre, from "top left" over "center" to "bottom right". `tint` is a word of TINTS
    or None for the drawing's own colours. `box` is (top, left, bottom, right) in shares of the side.
    """

    name: str
    size: str
    place: str
    tint: str | None
    orientation: str
    box: Box

    @property
    def centre(self) -> tuple[float, float]:
        """(y, x) of the middle of the box, in shares of the side."""
        top, left, bottom, right = self.box
        return (top + bottom) / 2, (left + right) / 2

    @property
    def side(self) -> float:
        """The longer side of the box, in shares of the picture's side."""
        top, left, bottom, right = self.box
        return max(bottom - top, right - left)


@dataclass(frozen=True)
class CaptionPlan:
    """Which words a caption uses, whatever it describes: two captions of one plan differ in facts alone.

    `opening` comes before the objects. `joiner` links two groups. `said` names, for each group of equal
    objects, the attributes that are mentioned: some of "size", "tint", "orientation", "place". `relation`
    says where the first of two objects is with respect to the second. `ground` mentions the ground.
    """

    opening: str
    joiner: str
    said: tuple[tuple[str, ...], ...]
    relation: bool
    ground: bool


@dataclass(frozen=True)
class Scene:
    """A picture before it is drawn: `objects` from back to front, equal names next to each other."""

    seed: int
    index: int
    objects: tuple[PlacedObject, ...]
    ground: Ground
    clutter: tuple[Clutter, ...]
    plan: CaptionPlan
    caption: str

    @property
    def groups(self) -> tuple[tuple[PlacedObject, ...], ...]:
        """The objects by name: one tuple for each name, in the order of the caption."""
        return tuple(tuple(group) for _, group in groupby(self.objects, key=lambda item: item.name))


@dataclass(frozen=True)
class SceneOptions:
    """What scenes may hold.

    `objects` is the least and the greatest number of objects, `weights` how often one, two, three and four
    come. `names` are the objects to choose from. `tinted` and `turned` are the shares of groups that are
    recoloured, and that are upside down or on their side. `clutter` is the greatest number of small shapes.
    `plainly` is the share of captions that name the objects and nothing else.

    Raises StudioError for a value that no scene can have.
    """

    objects: tuple[int, int] = (1, MOST_OBJECTS)
    weights: tuple[float, float, float, float] = WEIGHTS
    names: tuple[str, ...] = OBJECT_NAMES
    grounds: tuple[str, ...] = GROUND_KINDS
    tinted: float = 0.3
    turned: float = 0.15
    clutter: int = 6
    plainly: float = 0.45

    def __post_init__(self) -> None:
        least, most = self.objects
        if not 1 <= least <= most <= MOST_OBJECTS:
            raise StudioError(
                f"A scene cannot hold {least} to {most} objects: it holds 1 to {MOST_OBJECTS}. "
                "Give (least, most) within that."
            )
        if len(self.weights) != MOST_OBJECTS or min(self.weights) < 0 or sum(self.weights[least - 1 : most]) <= 0:
            raise StudioError(
                f"The weights {self.weights} do not say how often {least} to {most} objects come: "
                f"give {MOST_OBJECTS} numbers from 0, not all 0 in that range."
            )
        if len(set(self.names)) < MOST_OBJECTS:
            raise StudioError(
                f"{len(set(self.names))} names are too few: a scene needs {MOST_OBJECTS} different ones. "
                "Give more names."
            )
        for name in self.names:
            named(name)
        unknown = [kind for kind in self.grounds if kind not in GROUND_KINDS]
        if unknown or not self.grounds:
            raise StudioError(
                f"The grounds {self.grounds} cannot be painted: known are {', '.join(GROUND_KINDS)}. Choose from them."
            )
        for label in ("tinted", "turned", "plainly"):
            share = getattr(self, label)
            if not 0 <= share <= 1:
                raise StudioError(f"{label} is {share}, but it is a share: give a number from 0 to 1.")
        if not 0 <= self.clutter <= 40:
            raise StudioError(f"clutter is {self.clutter}, but a scene takes 0 to 40 small shapes: choose within that.")
