"""From a scene to a sentence about it.

A plan is drawn once for each scene and says which facts are mentioned and in which form; the words follow
from the plan and the facts. So a scene that differs in one fact gets a caption that differs in that fact.
"""

from __future__ import annotations

from collections.abc import Sequence

from train.scenes.chance import Chance
from train.scenes.grounds import Ground
from train.scenes.objects import article, named, plural
from train.scenes.placement import relation_of
from train.scenes.scene import CaptionPlan, PlacedObject

OPENINGS: dict[str, float] = {
    "": 0.34,
    "a photo of ": 0.26,
    "a picture of ": 0.14,
    "an image of ": 0.08,
    "a drawing of ": 0.06,
    "there is ": 0.06,
    "this is ": 0.03,
    "a scene with ": 0.03,
}
_PLURAL_OPENINGS = {"there is ": "there are ", "this is ": "these are "}
_NUMBERS = ("", "one", "two", "three", "four")
_SIZE_WORDS = {"small": "small", "medium": "medium-sized", "large": "large"}
_PLACE_WORDS = {"left": "on the left", "right": "on the right", "center": "in the center"}
_GROUND_WORDS = {
    "gradient": "a gradient",
    "checker": "a checkered",
    "stripes": "a striped",
    "noise": "a speckled",
    "blur": "a blurry",
}

Groups = Sequence[Sequence[PlacedObject]]


def plan_caption(chance: Chance, groups: Groups, plainly: float) -> CaptionPlan:
    """Draws which facts of a scene its caption mentions; `plainly` is how often it only names the objects."""
    opening = chance.pick(tuple(OPENINGS), tuple(OPENINGS.values()))
    joiner = chance.pick((" and ", " with ", " next to "), (0.8, 0.12, 0.08))
    if joiner == " next to " and not _are_neighbours(groups):
        joiner = " and "
    if opening == "this is " and len(groups) > 1:
        opening = ""
    if chance.happens(plainly):
        return CaptionPlan(opening, joiner, ((),) * len(groups), relation=False, ground=False)
    single = all(len(group) == 1 for group in groups)
    related = len(groups) == 2 and single and relation_of(groups[0][0], groups[1][0]) is not None
    relation = related and chance.happens(0.55)
    said = tuple(_mentions(chance, group, may_place=not relation) for group in groups)
    return CaptionPlan(opening, joiner, said, relation, ground=chance.happens(0.25))


def _are_neighbours(groups: Groups) -> bool:
    if len(groups) != 2 or any(len(group) > 1 for group in groups):
        return False
    (y_one, x_one), (y_two, x_two) = groups[0][0].centre, groups[1][0].centre
    return abs(y_one - y_two) < 0.25 and abs(x_one - x_two) < 0.6


def _mentions(chance: Chance, group: Sequence[PlacedObject], *, may_place: bool) -> tuple[str, ...]:
    first = group[0]
    shares = {
        "size": {"small": 0.45, "medium": 0.1, "large": 0.45}[first.size],
        "tint": 0.9 if first.tint else 0.0,
        "orientation": 0.6 if first.orientation != "upright" else 0.04 if named(first.name).has_top else 0.0,
        "place": 0.5 if may_place and len(group) == 1 and first.size != "large" else 0.0,
    }
    return tuple(attribute for attribute, share in shares.items() if chance.happens(share))


def group_words(group: Sequence[PlacedObject], said: Sequence[str]) -> str:
    """The words for equal objects: "a small red apple at the top left", "three upside-down cats"."""
    first = group[0]
    before, after = [], []
    if "size" in said:
        before.append(_SIZE_WORDS[first.size])
    if "orientation" in said:
        if first.orientation.startswith("facing"):
            after.append(first.orientation)
        elif first.orientation == "on its side":
            after.append("on its side" if len(group) == 1 else "on their sides")
        else:
            before.append(first.orientation.replace(" ", "-"))
    if "tint" in said and first.tint:
        before.append(first.tint)
    if "place" in said and len(group) == 1:
        after.append(_PLACE_WORDS.get(first.place, f"at the {first.place}"))
    noun = first.name if len(group) == 1 else plural(first.name)
    phrase = " ".join([*before, noun])
    counted = f"{article(phrase)} {phrase}" if len(group) == 1 else f"{_NUMBERS[len(group)]} {phrase}"
    return " ".join([counted, *after])


def ground_words(ground: Ground) -> str:
    """Words for a ground: "on a blue background", "on a checkered background"."""
    kind = _GROUND_WORDS.get(ground.kind) or f"{article(ground.names[0])} {ground.names[0]}"
    return f"on {kind} background"


def caption_of(groups: Groups, ground: Ground, plan: CaptionPlan) -> str:
    """The sentence about a scene that follows from its facts and its plan."""
    words = [group_words(group, said) for group, said in zip(groups, plan.said, strict=True)]
    if plan.relation:
        text = f"{words[0]} {relation_of(groups[0][0], groups[1][0])} {words[1]}"
    elif len(words) == 1:
        text = words[0]
    elif len(words) == 2:
        text = plan.joiner.join(words)
    else:
        text = f"{', '.join(words[:-1])} and {words[-1]}"
    opening = _PLURAL_OPENINGS.get(plan.opening, plan.opening) if len(groups[0]) > 1 else plan.opening
    return opening + text + (f" {ground_words(ground)}" if plan.ground else "")
