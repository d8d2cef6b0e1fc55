"""Minimal pairs: two scenes, and two captions, that differ in exactly one attribute.

A pair changes only what its captions mention, so that each caption is true of its own picture and false of
the other one. Ground, clutter and every other object stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from models.errors import StudioError
from train.scenes.captions import caption_of
from train.scenes.chance import Chance
from train.scenes.objects import OBJECT_NAMES, named
from train.scenes.placement import (
    OPPOSITE,
    box_around,
    fits,
    free_box,
    middle,
    place_of,
    pushed_inside,
    relation_of,
)
from train.scenes.scene import MOST_OBJECTS, SIZES, CaptionPlan, PlacedObject, Scene
from train.scenes.sprites import TINTS, orientations_of

ATTRIBUTES = ("identity", "size", "place", "relation", "count", "orientation", "tint")

Group = tuple[PlacedObject, ...]
_STREAM = 1  # keeps the choices of pairs apart from those of the scene itself
_TRIES = 40


def minimal_pair(scene: Scene, attribute: str | None = None, names: Sequence[str] = OBJECT_NAMES) -> tuple[str, Scene]:
    """(attribute, other scene): `scene` changed in one attribute that its caption mentions.

    `attribute` is one of ATTRIBUTES, or None for any. A new object, for "identity", comes from `names`. Each
    scene has one answer: the choices follow from its seed and index.

    Raises StudioError when the caption does not mention the attribute, or nothing else fits in its place;
    `mentioning` gives the scene another caption.
    """
    if attribute is not None and attribute not in ATTRIBUTES:
        raise StudioError(f"Scenes have no attribute {attribute!r}: choose one of {', '.join(ATTRIBUTES)}.")
    chance = Chance(scene.seed, scene.index, _STREAM)
    for candidate in [attribute] if attribute else chance.several(ATTRIBUTES, len(ATTRIBUTES)):
        mentioned = _mentioned(scene, candidate)
        for number in chance.several(mentioned, len(mentioned)):
            groups = _CHANGES[candidate](scene.groups, number, chance, names)
            if groups is not None:
                return candidate, _with_groups(scene, groups)
    wanted = attribute or "identity"
    raise StudioError(
        f"The scene {scene.caption!r} has no counterpart in {wanted}: its caption does not mention it, or "
        "nothing else fits. Take another scene, or train.scenes.pairs.mentioning(scene, attribute)."
    )


def mentioning(scene: Scene, attribute: str) -> Scene | None:
    """The same picture with a caption that mentions `attribute`; None where there is no such attribute."""
    if _mentioned(scene, attribute):
        return scene
    chance = Chance(scene.seed, scene.index, _STREAM, ATTRIBUTES.index(attribute))
    able = [number for number, group in enumerate(scene.groups) if _can_say(group, attribute)]
    if attribute == "relation":
        singles = len(scene.groups) == 2 and all(len(group) == 1 for group in scene.groups)
        able = [0] if singles and relation_of(scene.groups[0][0], scene.groups[1][0]) else []
    if not able:
        return None
    number = chance.pick(able)
    said = [set(words) for words in scene.plan.said]
    if attribute in ("relation", "count"):
        for words in said:
            words.discard("place")
    else:
        said[number].add(attribute)
    relation = attribute == "relation" or (scene.plan.relation and attribute not in ("place", "count"))
    joiner = " and " if attribute in ("place", "count") else scene.plan.joiner
    plan = CaptionPlan(
        scene.plan.opening, joiner, tuple(tuple(sorted(words)) for words in said), relation, scene.plan.ground
    )
    return replace(scene, plan=plan, caption=caption_of(scene.groups, scene.ground, plan))


def _can_say(group: Group, attribute: str) -> bool:
    first = group[0]
    return {
        "identity": True,
        "count": True,
        "size": True,
        "tint": first.tint is not None,
        "orientation": len(orientations_of(first.name)) > 1,
        "place": len(group) == 1 and first.size != "large",
        "relation": False,
    }[attribute]


def _mentioned(scene: Scene, attribute: str) -> list[int]:
    """The groups of which the caption mentions `attribute` in a way that can be changed on its own."""
    plan, numbers = scene.plan, range(len(scene.plan.said))
    if attribute == "relation":
        return [0] if plan.relation else []
    if attribute == "identity":
        return list(numbers)
    if attribute == "count":
        free = not plan.relation and plan.joiner != " next to "
        return [number for number in numbers if free and "place" not in plan.said[number]]
    if attribute == "place" and (plan.relation or plan.joiner == " next to "):
        return []
    return [number for number in numbers if attribute in plan.said[number]]


def _with_groups(scene: Scene, groups: Sequence[Group]) -> Scene:
    objects = tuple(item for group in groups for item in group)
    return replace(scene, objects=objects, caption=caption_of(groups, scene.ground, scene.plan))


def _swapped_in(groups: Sequence[Group], number: int, changed: Sequence[PlacedObject]) -> list[Group] | None:
    """`groups` with group `number` replaced, if what is new fits among all others and keeps its place."""
    others = [item.box for at, group in enumerate(groups) if at != number for item in group]
    for at, item in enumerate(changed):
        taken = [*others, *(other.box for other in changed[:at])]
        if not fits(item.box, taken) or place_of(item.centre) != item.place:
            return None
    return [tuple(changed) if at == number else group for at, group in enumerate(groups)]


Change = Callable[[Sequence[Group], int, Chance, Sequence[str]], "list[Group] | None"]


def _other_identity(groups: Sequence[Group], number: int, chance: Chance, names: Sequence[str]) -> list[Group] | None:
    first = groups[number][0]
    present = {group[0].name for group in groups}
    pool = [name for name in names if name not in present and first.orientation in orientations_of(name)]
    if first.orientation == "upright" and named(first.name).has_top:
        pool = [name for name in pool if named(name).has_top]
    if first.tint:
        pool = [name for name in pool if not named(name).outline]
    for name in chance.several(pool, min(_TRIES, len(pool))):
        changed = [
            replace(item, name=name, box=pushed_inside(box_around(name, item.orientation, item.side, item.centre)))
            for item in groups[number]
        ]
        found = _swapped_in(groups, number, changed)
        if found:
            return found
    return None


def _other_size(groups: Sequence[Group], number: int, chance: Chance, names: Sequence[str]) -> list[Group] | None:
    alone = len(groups) == 1 and len(groups[0]) == 1
    words = [word for word in SIZES if word != groups[number][0].size and (alone or word != "large")]
    for word in chance.several(words, len(words)):
        for _ in range(4):
            changed = [
                replace(
                    item,
                    size=word,
                    box=pushed_inside(
                        box_around(item.name, item.orientation, chance.between(*SIZES[word]), item.centre)
                    ),
                )
                for item in groups[number]
            ]
            found = _swapped_in(groups, number, changed)
            if found:
                return found
    return None


def _other_place(groups: Sequence[Group], number: int, chance: Chance, names: Sequence[str]) -> list[Group] | None:
    item = groups[number][0]
    places = [(y / 6, x / 6) for y in (1, 3, 5) for x in (1, 3, 5)]
    for y, x in chance.several(places, len(places)):
        box = pushed_inside(box_around(item.name, item.orientation, item.side, (y, x)))
        place = place_of(middle(box))
        found = _swapped_in(groups, number, [replace(item, place=place, box=box)])
        if found and place != item.place:
            return found
    return None


def _other_relation(groups: Sequence[Group], number: int, chance: Chance, names: Sequence[str]) -> list[Group] | None:
    one, two = groups[0][0], groups[1][0]
    moved = []
    for item, centre in ((one, two.centre), (two, one.centre)):
        box = pushed_inside(box_around(item.name, item.orientation, item.side, centre))
        moved.append(replace(item, box=box, place=place_of(middle(box))))
    before = relation_of(one, two)
    if before is None or relation_of(moved[0], moved[1]) != OPPOSITE[before]:
        return None
    return [(moved[0],), (moved[1],)] if fits(moved[0].box, [moved[1].box]) and fits(moved[1].box, []) else None


def _other_count(groups: Sequence[Group], number: int, chance: Chance, names: Sequence[str]) -> list[Group] | None:
    group, first = groups[number], groups[number][0]
    total = sum(len(others) for others in groups)
    if len(group) > 1 and (total == MOST_OBJECTS or chance.happens(0.5)):
        return _swapped_in(groups, number, group[:-1])
    if total == MOST_OBJECTS or first.size == "large":
        return None
    taken = [item.box for others in groups for item in others]
    box = free_box(chance, first.name, first.orientation, first.size, taken)
    if box is None:
        return None
    return _swapped_in(groups, number, [*group, replace(first, box=box, place=place_of(middle(box)))])


def _other_orientation(
    groups: Sequence[Group], number: int, chance: Chance, names: Sequence[str]
) -> list[Group] | None:
    first = groups[number][0]
    words = [word for word in orientations_of(first.name) if word != first.orientation]
    for word in chance.several(words, len(words)):
        changed = [
            replace(item, orientation=word, box=pushed_inside(box_around(item.name, word, item.side, item.centre)))
            for item in groups[number]
        ]
        found = _swapped_in(groups, number, changed)
        if found:
            return found
    return None


def _other_tint(groups: Sequence[Group], number: int, chance: Chance, names: Sequence[str]) -> list[Group] | None:
    tint = chance.pick([word for word in TINTS if word != groups[number][0].tint])
    return _swapped_in(groups, number, [replace(item, tint=tint) for item in groups[number]])


_CHANGES: dict[str, Change] = {
    "identity": _other_identity,
    "size": _other_size,
    "place": _other_place,
    "relation": _other_relation,
    "count": _other_count,
    "orientation": _other_orientation,
    "tint": _other_tint,
}
