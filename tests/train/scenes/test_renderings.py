"""Scenes drawn as training never saw them: what changes is the objects' look, or the clutter, and nothing else."""

import numpy as np
import pytest

from models.errors import StudioError
from train.scenes import describe_scene, render_scene
from train.scenes.render import render_ground
from train.scenes.renderings import RENDERINGS, Rendering, render_as

SIZE = 96
SCENES = [describe_scene(7, index) for index in range(12)]


def test_plain_is_the_drawing_of_training() -> None:
    for scene in SCENES:
        assert np.array_equal(render_as(scene, SIZE, "plain"), render_scene(scene, SIZE)[0])


@pytest.mark.parametrize("rendering", ["outline", "recoloured", "textured"])
def test_objects_change_and_the_ground_does_not(rendering: Rendering) -> None:
    changed = 0
    for scene in SCENES:
        drawn, (plain, instances) = render_as(scene, SIZE, rendering), render_scene(scene, SIZE)
        # A soft rim of two pixels belongs to the objects although no instance covers half of it.
        near = np.zeros_like(instances, dtype=bool)
        for down in range(-2, 3):
            for right in range(-2, 3):
                near |= np.roll(instances > 0, (down, right), (0, 1))
        assert np.array_equal(drawn[~near], plain[~near])
        changed += bool((drawn[instances > 0] != plain[instances > 0]).any())
    assert changed >= len(SCENES) - 2, "a grey object has no colour that could change"


def test_outlines_have_no_colour() -> None:
    for scene in SCENES:
        drawn, (_, instances) = render_as(scene, SIZE, "outline"), render_scene(scene, SIZE)
        ground = render_ground(scene, SIZE).astype(int)
        # Where an object hides the ground, all channels agree but for what shines through a soft rim.
        inside = instances > 0
        spread = np.ptp(drawn[inside].astype(int), axis=1)
        assert np.mean(spread <= 1 + np.ptp(ground[inside], axis=1) / 2) == 1
        assert np.mean(spread <= 1) > 0.6


def test_swapped_channels_keep_what_each_pixel_holds_inside_an_object() -> None:
    for scene in SCENES:
        drawn, (plain, instances) = render_as(scene, SIZE, "recoloured"), render_scene(scene, SIZE)
        same = np.sort(drawn[instances > 0], axis=1) == np.sort(plain[instances > 0], axis=1)
        assert same.all(axis=1).mean() > 0.5  # the rest is rim, in which the ground is mixed


def test_clutter_is_added_behind_the_objects() -> None:
    changed = 0
    for scene in SCENES:
        drawn, (plain, instances) = render_as(scene, SIZE, "cluttered"), render_scene(scene, SIZE)
        differs = (drawn != plain).any(axis=2)
        assert differs[instances == 0].mean() > 0.02
        changed += differs[instances > 0].mean()
    assert changed / len(SCENES) < 0.15


@pytest.mark.parametrize("rendering", RENDERINGS)
def test_the_same_scene_is_drawn_the_same_again(rendering: Rendering) -> None:
    assert np.array_equal(render_as(SCENES[0], SIZE, rendering), render_as(describe_scene(7, 0), SIZE, rendering))


def test_an_unknown_rendering_is_refused() -> None:
    with pytest.raises(StudioError, match="choose one of plain, outline"):
        render_as(SCENES[0], SIZE, "sepia")  # type: ignore[arg-type]
