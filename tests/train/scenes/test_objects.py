"""The names of objects and their drawings."""

from __future__ import annotations

import numpy as np
import pytest

from models.errors import StudioError
from train.scenes import OBJECT_NAMES, article
from train.scenes.objects import OBJECTS, named, plural
from train.scenes.sprites import TINTS, orientations_of, placed_sprite, sprite, svg_path


def test_every_name_and_every_drawing_is_used_once():
    assert len(set(OBJECT_NAMES)) == len(OBJECT_NAMES) >= 100
    assert len({item.hexcode for item in OBJECTS}) == len(OBJECTS)
    assert list(OBJECT_NAMES) == sorted(OBJECT_NAMES)


def test_no_name_is_a_kind_of_another():
    apart = {"hot dog", "ferris wheel"}  # neither is a dog or a wheel to anyone
    words = {name: name.split() for name in OBJECT_NAMES}
    heads = [
        name for name in OBJECT_NAMES if any(name != other and words[other][-1] == name for other in set(words) - apart)
    ]
    assert heads == []


def test_every_drawing_exists_and_shows_something():
    for name in OBJECT_NAMES:
        assert svg_path(name).is_file(), name
        alpha = np.asarray(sprite(name, 64))[..., 3]
        assert (alpha > 128).mean() > 0.08, name
        assert abs(max(alpha.shape) - 64) <= 2, (name, alpha.shape)


def test_articles_follow_the_sound():
    wanted = {
        "apple": "an",
        "umbrella": "an",
        "hourglass": "an",
        "ice cream cone": "an",
        "house": "a",
        "kiwi": "a",
    }
    assert {name: article(name) for name in wanted} == wanted
    assert article("upside-down cat") == "an"
    assert article("small apple") == "a"


@pytest.mark.parametrize(
    ("name", "many"),
    [("key", "keys"), ("bus", "buses"), ("leaf", "leaves"), ("butterfly", "butterflies"),
     ("sheep", "sheep"), ("cactus", "cacti"), ("peach", "peaches"), ("monkey", "monkeys"), ("axe", "axes")],
)  # fmt: skip
def test_plurals_are_those_of_english(name: str, many: str):
    assert plural(name) == many


def test_an_unknown_name_is_refused_with_what_to_do():
    with pytest.raises(StudioError, match="OBJECT_NAMES"):
        named("unicorn")


def test_every_orientation_of_an_object_looks_different():
    for name in OBJECT_NAMES:
        drawn = [placed_sprite(name, 48, 48, word, None) for word in orientations_of(name)]
        for at, one in enumerate(drawn):
            for other in drawn[:at]:
                assert np.abs(one - other).mean() > 0.02, name


def test_a_tint_shows_on_everything_that_is_not_an_outline():
    for item in OBJECTS:
        word = orientations_of(item.name)[0]
        red, blue = (placed_sprite(item.name, 40, 40, word, tint) for tint in ("red", "blue"))
        shown = np.abs(red - blue)[..., :3][red[..., 3] > 0.5].mean()
        assert (shown < 0.02) if item.outline else (shown > 0.1), (item.name, shown)


def test_a_tint_keeps_the_outline_and_brings_its_hue():
    plain = placed_sprite("elephant", 48, 60, "facing left", None)
    for tint, colour in TINTS.items():
        tinted = placed_sprite("elephant", 48, 60, "facing left", tint)
        assert np.array_equal(tinted[..., 3], plain[..., 3])
        dark = (plain[..., :3].max(axis=2) < 0.05) & (plain[..., 3] > 0.95)
        assert tinted[..., :3][dark].max() < 0.3
        inside = (plain[..., 3] > 0.95) & ~dark
        mean = tinted[..., :3][inside].mean(axis=0)
        nearest = min(TINTS, key=lambda word: float(np.square(mean - np.divide(TINTS[word], 255)).sum()))
        assert nearest == tint, (tint, mean, colour)
