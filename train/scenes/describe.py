"""Draws a scene's description: which objects, where, on what ground, and what the caption says."""

from __future__ import annotations

from math import pi

from models.errors import StudioError
from train.scenes.captions import caption_of, plan_caption
from train.scenes.chance import Chance
from train.scenes.grounds import CLUTTER_SHAPES, GROUND_COLOURS, Clutter, Colour, Ground
from train.scenes.objects import named
from train.scenes.placement import free_box, middle, place_of
from train.scenes.scene import SIZES, Box, PlacedObject, Scene, SceneOptions
from train.scenes.sprites import TINTS, orientations_of

_SIZE_WEIGHTS = {1: (0.2, 0.35, 0.45), 2: (0.35, 0.65, 0.0), 3: (0.6, 0.4, 0.0), 4: (0.8, 0.2, 0.0)}
_LAYOUTS = 12


def describe_scene(seed: int, index: int, options: SceneOptions = SceneOptions()) -> Scene:  # noqa: B008 (frozen)
    """The scene with number `index` of the endless series `seed`: a pure function of its arguments.

    Raises StudioError when `seed` or `index` is below 0.
    """
    if seed < 0 or index < 0:
        raise StudioError(f"Seed {seed} and index {index} name no scene: both count from 0. Give whole numbers from 0.")
    chance = Chance(seed, index)
    groups = _place_groups(chance, options)
    ground = _draw_ground(chance, options)
    clutter = draw_clutter(chance, max(0, chance.whole(-2, options.clutter)) if options.clutter else 0)
    plan = plan_caption(chance, groups, options.plainly)
    objects = tuple(item for group in groups for item in group)
    return Scene(seed, index, objects, ground, clutter, plan, caption_of(groups, ground, plan))


def _counts(chance: Chance, options: SceneOptions) -> list[int]:
    """How many objects each group has."""
    least, most = options.objects
    total = chance.pick(range(least, most + 1), options.weights[least - 1 : most])
    if total > 1 and chance.happens(0.3):
        return [total]
    if total > 2 and chance.happens(0.3):
        pairs = [2] + [1] * (total - 2)
        return chance.several(pairs, len(pairs))
    return [1] * total


def _orientation(chance: Chance, name: str, turned: float) -> str:
    allowed = orientations_of(name)
    usual = tuple(word for word in allowed if word == "upright" or word.startswith("facing"))
    unusual = tuple(word for word in allowed if word not in usual)
    if unusual and chance.happens(turned):
        return chance.pick(unusual)
    return chance.pick(usual)


def _place_groups(chance: Chance, options: SceneOptions) -> list[list[PlacedObject]]:
    """Groups of placed objects; after some layouts that did not fit, smaller objects, and at last fewer."""
    counts = _counts(chance, options)
    total = sum(counts)
    traits = [
        (name, _orientation(chance, name, options.turned), _tint(chance, name, options.tinted))
        for name in chance.several(options.names, len(counts))
    ]
    placed: list[list[PlacedObject]] = []
    for layout in range(_LAYOUTS):
        weights = _SIZE_WEIGHTS[total] if layout < 4 else (1.0, 0.0, 0.0)
        placed = []
        boxes: list[Box] = []
        for (name, orientation, tint), count in zip(traits, counts, strict=True):
            size = chance.pick(tuple(SIZES), weights)
            group = []
            for _ in range(count):
                box = free_box(chance, name, orientation, size, boxes)
                if box is not None:
                    boxes.append(box)
                    group.append(PlacedObject(name, size, place_of(middle(box)), tint, orientation, box))
            if group:
                placed.append(group)
        if len(boxes) == total:
            break
    return placed


def _tint(chance: Chance, name: str, share: float) -> str | None:
    tint = chance.pick(tuple(TINTS)) if chance.happens(share) else None
    return None if named(name).outline else tint


def _near(chance: Chance, colour: Colour) -> Colour:
    """A colour close to `colour`, so that no two grounds of one name are equal."""
    shift = chance.between(-16, 9)
    red, green, blue = (max(0, min(255, round(part + shift + chance.between(-7, 7)))) for part in colour)
    return red, green, blue


def _softened(colour: Colour, towards: Colour) -> Colour:
    """`colour` moved a third of the way to another one: regular patterns stay behind the objects."""
    red, green, blue = (round(part + (goal - part) / 3) for part, goal in zip(colour, towards, strict=True))
    return red, green, blue


def _draw_ground(chance: Chance, options: SceneOptions) -> Ground:
    kind = chance.pick(options.grounds)
    names = tuple(chance.several(tuple(GROUND_COLOURS), 1 if kind == "plain" else 4 if kind == "blur" else 2))
    colours = tuple(_near(chance, GROUND_COLOURS[name]) for name in names)
    if kind in ("checker", "stripes"):
        colours = (colours[0], _softened(colours[1], colours[0]))
    low, high = {"checker": (4, 10), "stripes": (6, 16), "noise": (14, 40), "blur": (3, 5)}.get(kind, (1, 1))
    return Ground(kind, names, colours, chance.whole(low, high), chance.between(0, 2 * pi), chance.whole(0, 2**31 - 1))


def draw_clutter(chance: Chance, count: int) -> tuple[Clutter, ...]:
    """`count` small shapes, of which no caption speaks."""
    return tuple(
        Clutter(
            chance.pick(CLUTTER_SHAPES),
            (chance.between(0.0, 1.0), chance.between(0.0, 1.0)),
            chance.between(0.03, 0.08),
            15 * chance.whole(0, 5),
            _near(chance, chance.pick(tuple(GROUND_COLOURS.values()) + tuple(TINTS.values()))),
        )
        for _ in range(count)
    )
