"""Descriptions of scenes and their captions."""

from __future__ import annotations

import re

import pytest

from models.errors import StudioError
from train.scenes import SceneOptions, describe_scene
from train.scenes.objects import plural
from train.scenes.placement import overlap, place_of
from train.scenes.scene import SIZES
from train.scenes.sprites import TINTS, orientations_of

GOLDEN = ("a carrot", "noise", 1)
SCENES = [describe_scene(11, index) for index in range(1500)]


def test_the_same_seed_and_index_give_the_same_scene():
    assert [describe_scene(11, index) for index in range(50)] == SCENES[:50]


def test_another_index_or_seed_gives_another_scene():
    assert len({scene.objects for scene in SCENES}) == len(SCENES)
    assert describe_scene(12, 0).objects != SCENES[0].objects


def test_numbers_below_zero_are_refused():
    with pytest.raises(StudioError, match="from 0"):
        describe_scene(-1, 0)
    with pytest.raises(StudioError, match="from 0"):
        describe_scene(0, -1)


def test_a_scene_is_the_one_that_every_machine_gives():
    scene = describe_scene(7, 3)
    assert (scene.caption, scene.ground.kind, len(scene.objects)) == GOLDEN


def test_every_named_object_is_in_the_caption_with_its_count():
    numbers = {2: "two", 3: "three", 4: "four"}
    for scene in SCENES:
        for group in scene.groups:
            if len(group) == 1:
                assert re.search(rf"\ban? ([\w-]+ )*{group[0].name}\b", scene.caption), scene.caption
            else:
                wanted = rf"\b{numbers[len(group)]} ([\w-]+ )*{plural(group[0].name)}\b"
                assert re.search(wanted, scene.caption), scene.caption


def test_what_a_caption_of_one_object_says_is_true():
    for scene in SCENES:
        if len(scene.groups) > 1 or scene.plan.ground:
            continue
        first, text = scene.objects[0], scene.caption
        colours = [tint for tint in TINTS if re.search(rf"\b{tint}\b", text)]
        assert colours in ([], [first.tint]), text
        sizes = [size for size in SIZES if re.search(rf"\b{size}\b", text)]
        assert sizes in ([], [first.size]), text
        assert ("upside-down" in text) <= (first.orientation == "upside down"), text
        for side in ("left", "right"):
            assert (f"facing {side}" in text) <= (first.orientation == f"facing {side}"), text
            assert (f"on the {side}" in text) <= (first.place == side), text
        if " at the " in text:
            assert text.endswith(f"at the {first.place}"), text


def test_relations_are_true_of_the_boxes():
    seen = set()
    for scene in SCENES:
        if not scene.plan.relation:
            continue
        one, two = (group[0] for group in scene.groups)
        word = next(w for w in ("to the left of", "to the right of", "above", "below") if f" {w} a" in scene.caption)
        seen.add(word)
        axis, sign = {
            "to the left of": (1, -1),
            "to the right of": (1, 1),
            "above": (0, -1),
            "below": (0, 1),
        }[word]
        assert sign * (one.centre[axis] - two.centre[axis]) > 0.1, scene.caption
        assert scene.caption.index(one.name) < scene.caption.index(f" {word} a"), scene.caption
    assert len(seen) == 4


def test_objects_lie_inside_and_hardly_overlap():
    for scene in SCENES:
        boxes = [item.box for item in scene.objects]
        for at, box in enumerate(boxes):
            assert min(box) >= 0
            assert max(box) <= 1
            assert all(overlap(box, other) <= 0.03 for other in boxes[:at])


def test_words_for_size_place_and_orientation_fit_the_box():
    for scene in SCENES:
        for item in scene.objects:
            low, high = SIZES[item.size]
            assert low - 1e-9 <= item.side <= high + 1e-9
            assert item.place == place_of(item.centre)
            assert item.orientation in orientations_of(item.name)
            assert item.size != "large" or len(scene.objects) == 1


def test_numbers_of_objects_come_as_often_as_their_weights_say():
    shares = [sum(len(scene.objects) == count for scene in SCENES) / len(SCENES) for count in (1, 2, 3, 4)]
    assert shares == pytest.approx([0.45, 0.30, 0.15, 0.10], abs=0.04)


def test_half_of_the_captions_name_the_objects_and_nothing_else():
    plain = sum(not any(s.plan.said) and not s.plan.relation and not s.plan.ground for s in SCENES) / len(SCENES)
    assert 0.4 < plain < 0.6


def test_options_limit_what_scenes_hold():
    options = SceneOptions(objects=(2, 3), names=("cat", "dog", "key", "sun"), grounds=("noise",), tinted=0, clutter=0)
    for index in range(100):
        scene = describe_scene(3, index, options)
        assert len(scene.objects) in (2, 3)
        assert {item.name for item in scene.objects} <= set(options.names)
        assert all(item.tint is None for item in scene.objects)
        assert scene.ground.kind == "noise"
        assert not scene.clutter


@pytest.mark.parametrize(
    "wrong",
    [
        {"objects": (0, 2)},
        {"objects": (1, 5)},
        {"weights": (0.0, 0.0, 0.0, 0.0)},
        {"names": ("cat", "dog")},
        {"names": ("cat", "dog", "key", "unicorn")},
        {"grounds": ("lava",)},
        {"tinted": 1.5},
        {"clutter": -1},
    ],
)
def test_options_that_no_scene_can_have_are_refused(wrong: dict):
    with pytest.raises(StudioError):
        SceneOptions(**wrong)
