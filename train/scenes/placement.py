"""Where objects can be: boxes, the words for their places, and who is left of whom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from train.scenes.chance import Chance
from train.scenes.scene import SIZES, Box, PlacedObject
from train.scenes.sprites import extent

MARGIN = 0.015
_LINE_GAP = 0.025
_MOST_OVERLAP = 0.03
_TRIES = 30

PLACES = (
    ("top left", "top", "top right"),
    ("left", "center", "right"),
    ("bottom left", "bottom", "bottom right"),
)

OPPOSITE = {
    "to the left of": "to the right of",
    "to the right of": "to the left of",
    "above": "below",
    "below": "above",
}


def box_around(name: str, orientation: str, side: float, centre: tuple[float, float]) -> Box:
    """The box, (top, left, bottom, right), of an object with longer side `side` and its middle at (y, x)."""
    height, width = extent(name)
    if orientation == "on its side":
        height, width = width, height
    y, x = centre
    half_height, half_width = height * side / 2, width * side / 2
    return y - half_height, x - half_width, y + half_height, x + half_width


def middle(box: Box) -> tuple[float, float]:
    """(y, x) of the middle of a box."""
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def place_of(centre: tuple[float, float]) -> str:
    """The word for the ninth of the picture in which (y, x) lies."""
    row, column = (min(2, max(0, int(part * 3))) for part in centre)
    return PLACES[row][column]


def is_inside(box: Box) -> bool:
    """Whether a box leaves the margin of the picture free."""
    return min(box[:2]) > MARGIN - 1e-6 and max(box[2:]) < 1 - MARGIN + 1e-6


def pushed_inside(box: Box) -> Box:
    """`box` moved by no more than it takes to leave the margin of the picture free."""
    top, left, bottom, right = box
    down = max(MARGIN - top, 0.0) + min(1 - MARGIN - bottom, 0.0)
    across = max(MARGIN - left, 0.0) + min(1 - MARGIN - right, 0.0)
    return top + down, left + across, bottom + down, right + across


def is_clear(centre: tuple[float, float]) -> bool:
    """Whether (y, x) is far enough from the lines between the ninths for its word to be beyond doubt."""
    return all(abs(part - line) > _LINE_GAP for part in centre for line in (1 / 3, 2 / 3))


def overlap(one: Box, two: Box) -> float:
    """The area that two boxes share, as a share of the smaller box."""
    height = min(one[2], two[2]) - max(one[0], two[0])
    width = min(one[3], two[3]) - max(one[1], two[1])
    if height <= 0 or width <= 0:
        return 0.0
    areas = ((box[2] - box[0]) * (box[3] - box[1]) for box in (one, two))
    return height * width / min(areas)


def fits(box: Box, others: Iterable[Box]) -> bool:
    """Whether an object can lie at `box`: inside, its place clear, hardly anything of the others covered."""
    return is_inside(box) and is_clear(middle(box)) and all(overlap(box, other) <= _MOST_OVERLAP for other in others)


def free_box(chance: Chance, name: str, orientation: str, size: str, taken: Sequence[Box]) -> Box | None:
    """A random box of the size word `size` that fits next to the boxes `taken`; None if none is found."""
    side = chance.between(*SIZES[size])
    top, left, _, _ = box_around(name, orientation, side, (0.0, 0.0))
    for _ in range(_TRIES):
        y = chance.between(MARGIN - top, 1 - MARGIN + top)
        x = chance.between(MARGIN - left, 1 - MARGIN + left)
        box = box_around(name, orientation, side, (y, x))
        if fits(box, taken):
            return box
    return None


def relation_of(one: PlacedObject, two: PlacedObject) -> str | None:
    """Where `one` is with respect to `two`, or None when no single word says it.

    One direction has to outweigh the other by half, and the objects have to be apart in it.
    """
    down, across = (b - a for a, b in zip(two.centre, one.centre, strict=True))
    if abs(across) > 1.5 * abs(down):
        apart = max(one.box[1], two.box[1]) - min(one.box[3], two.box[3])
        word = "to the right of" if across > 0 else "to the left of"
    elif abs(down) > 1.5 * abs(across):
        apart = max(one.box[0], two.box[0]) - min(one.box[2], two.box[2])
        word = "below" if down > 0 else "above"
    else:
        return None
    return word if apart > -0.02 else None
