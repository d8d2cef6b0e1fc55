"""Accuracy on minimal pairs against a loop over captions and pictures."""

import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from models import LoadedModel
from models.errors import StudioError
from train.evaluation.minimal_pairs import CAPTION_CHANCE, PAIR_CHANCE, minimal_pairs, pairs_of
from train.scenes import render_scene
from train.scenes.pairs import ATTRIBUTES

SEED = 91_000


def choices_by_loop(model: LoadedModel, attribute: str, count: int) -> list[list[bool]]:
    side = 2 * max(model.preprocess_settings.input_size)
    right = []
    for pair in pairs_of(attribute, SEED, count):
        pictures = [model.preprocess(Image.fromarray(render_scene(scene, side)[0]))[0] for scene in pair]
        images = [F.normalize(model.encode_image(pixels[None]), dim=-1)[0] for pixels in pictures]
        right.append([])
        for number, scene in enumerate(pair):
            text = F.normalize(model.encode_text(model.tokenize(scene.caption)), dim=-1)[0]
            right[-1].append(float(text @ images[number]) > float(text @ images[1 - number]))
    return right


def test_accuracy_is_that_of_a_loop(model: LoadedModel) -> None:
    found = minimal_pairs(model, SEED, 9, ("tint", "identity"))
    for attribute, accuracy in found.items():
        expected = choices_by_loop(model, attribute, 9)
        assert accuracy.pairs == 9
        assert accuracy.captions.value == pytest.approx(sum(map(sum, expected)) / 18)
        assert accuracy.both.value == pytest.approx(sum(map(all, expected)) / 9)
        assert accuracy.both.value <= accuracy.captions.value


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_both_captions_of_a_pair_differ_and_so_do_the_pictures(attribute: str) -> None:
    pairs = list(pairs_of(attribute, SEED, 3))
    assert len(pairs) == 3
    for scene, other in pairs:
        assert scene.caption != other.caption
        assert (render_scene(scene, 64)[0] != render_scene(other, 64)[0]).any()


def test_a_model_that_cannot_tell_pictures_apart_is_always_wrong(clip: LoadedModel) -> None:
    from copy import deepcopy
    from dataclasses import replace

    module = deepcopy(clip.module)
    blind = replace(clip, module=module)
    with torch.no_grad():
        module.visual.conv1.weight.zero_()
    found = minimal_pairs(blind, SEED, 4, ("tint",))["tint"]
    assert found.captions.value == 0
    assert found.both.value == 0


def test_what_chance_gives_is_stated() -> None:
    assert (CAPTION_CHANCE, PAIR_CHANCE) == (0.5, 0.25)


def test_no_pair_and_an_unknown_attribute_are_refused(clip: LoadedModel) -> None:
    with pytest.raises(StudioError, match="give 1 or more"):
        minimal_pairs(clip, SEED, 0)
    with pytest.raises(StudioError, match="no attribute 'mood'"):
        minimal_pairs(clip, SEED, 1, ("mood",))
