"""Minimal pairs of scenes."""

from __future__ import annotations

import numpy as np
import pytest

from models.errors import StudioError
from train.scenes import describe_scene, minimal_pair, render_scene
from train.scenes.pairs import ATTRIBUTES, mentioning
from train.scenes.placement import OPPOSITE, relation_of
from train.scenes.scene import PlacedObject, Scene

FIELDS = {"identity": "name", "size": "size", "place": "place", "orientation": "orientation", "tint": "tint"}


def pairs_in(attribute: str, wanted: int = 40) -> list[tuple[Scene, Scene]]:
    found = []
    for index in range(2000):
        base = mentioning(describe_scene(31, index), attribute)
        if base is not None:
            try:
                found.append((base, minimal_pair(base, attribute)[1]))
            except StudioError:
                continue
        if len(found) == wanted:
            break
    return found


def facts(item: PlacedObject) -> dict[str, object]:
    return {field: getattr(item, field) for field in FIELDS.values()}


@pytest.mark.parametrize("attribute", sorted(FIELDS))
def test_a_pair_differs_in_one_attribute_of_one_group(attribute: str):
    pairs = pairs_in(attribute)
    assert len(pairs) == 40
    for base, other in pairs:
        assert (base.ground, base.clutter, base.plan) == (other.ground, other.clutter, other.plan)
        assert len(base.objects) == len(other.objects)
        changed = [
            (one.name, field)
            for one, two in zip(base.objects, other.objects, strict=True)
            for field in facts(one)
            if facts(one)[field] != facts(two)[field]
        ]
        assert len(set(changed)) == 1, (base.caption, other.caption)
        assert changed[0][1] == FIELDS[attribute], (base.caption, other.caption)


def test_a_pair_in_count_has_one_object_more_or_less():
    for base, other in pairs_in("count"):
        assert abs(len(base.objects) - len(other.objects)) == 1
        fewer, more = sorted((base.objects, other.objects), key=len)
        assert set(fewer) < set(more)
        assert {item.name for item in fewer} == {item.name for item in more}


def test_a_pair_in_relation_turns_it_round():
    for base, other in pairs_in("relation", 20):
        before = relation_of(*base.objects)
        assert before is not None
        assert relation_of(*other.objects) == OPPOSITE[before]
        assert base.caption.replace(before, OPPOSITE[before]) == other.caption


@pytest.mark.parametrize("attribute", ["size", "tint", "orientation", "identity", "place"])
def test_captions_of_a_pair_differ_in_one_stretch_of_words(attribute: str):
    for base, other in pairs_in(attribute):
        one, two = base.caption.split(), other.caption.split()
        assert one != two
        while one and two and one[0] == two[0]:
            one, two = one[1:], two[1:]
        while one and two and one[-1] == two[-1]:
            one, two = one[:-1], two[:-1]
        assert max(len(one), len(two)) <= 7, (base.caption, other.caption)


def test_a_pair_leaves_all_other_pixels_alone():
    for base, other in pairs_in("tint", 15):
        (image, mask), (changed, other_mask) = render_scene(base, 96), render_scene(other, 96)
        assert np.array_equal(mask, other_mask)
        assert (image != changed).any()
        untouched = [n for n, (a, b) in enumerate(zip(base.objects, other.objects, strict=True), 1) if a == b]
        assert np.array_equal(image[np.isin(mask, untouched)], changed[np.isin(mask, untouched)])


def test_a_pair_without_a_wish_is_one_that_the_caption_mentions():
    seen = set()
    for index in range(300):
        scene = describe_scene(32, index)
        attribute, other = minimal_pair(scene)
        seen.add(attribute)
        assert other.caption != scene.caption
        assert minimal_pair(scene) == (attribute, other)
    assert seen == set(ATTRIBUTES)


def test_a_new_object_comes_from_the_names_that_are_given():
    for base, _ in pairs_in("identity", 20):
        _, other = minimal_pair(base, "identity", names=("cat", "dog", "apple", "key", "balloon", "chair", "lemon"))
        new = {item.name for item in other.objects} - {item.name for item in base.objects}
        assert new <= {"cat", "dog", "apple", "key", "balloon", "chair", "lemon"}


def test_an_attribute_that_is_unknown_or_not_mentioned_is_refused():
    scene = next(s for s in (describe_scene(33, i) for i in range(50)) if not any(s.plan.said) and not s.plan.relation)
    with pytest.raises(StudioError, match="mentioning"):
        minimal_pair(scene, "tint")
    with pytest.raises(StudioError, match="choose one of"):
        minimal_pair(scene, "mood")
