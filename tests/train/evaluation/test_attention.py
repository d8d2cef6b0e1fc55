"""Attention against masks: by a loop over pictures, and for maps of which the answer is known."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from models import LoadedModel, attention_maps, record
from models.build import vision_blocks
from models.errors import StudioError
from models.layout import TokenGrid
from models.localisation import auroc, mass_inside, patch_coverage
from models.towers import text_tower, vision_tower
from train.evaluation.attention import (
    DIFFERENCE,
    OTHER,
    POSITIVE,
    SHUFFLED,
    SIGNED,
    UNIFORM,
    attention_to_objects,
    batches,
)
from train.scenes import describe_scene, render_scene

SEED = 91_001


def changed(model: LoadedModel, factor: float) -> LoadedModel:
    """The model with queries and keys of its vision tower times a factor: 0 makes every map uniform."""
    module = deepcopy(model.module)
    with torch.no_grad():
        for block in vision_blocks(module):
            for name, parameter in block.named_parameters():
                if "in_proj" in name:
                    parameter[: 2 * parameter.shape[0] // 3].mul_(factor)
                if any(part in name for part in ("q_proj", "k_proj")):
                    parameter.mul_(factor)
    return replace(model, module=module, vision=vision_tower(module), text=text_tower(module))


def test_mass_and_auroc_are_those_of_a_loop_over_pictures_and_layers(clip: LoadedModel) -> None:
    found = attention_to_objects(clip, SEED, 12)
    layout = clip.vision.layout
    assert isinstance(layout, TokenGrid)
    masses, ranks, left_out = [], [], 0
    for number in range(12):
        picture, instances = render_scene(describe_scene(SEED, number), 2 * clip.preprocess_settings.input_size[0])
        pixels, geometry = clip.preprocess(Image.fromarray(picture))
        covered = torch.from_numpy(patch_coverage(instances > 0, geometry, layout).reshape(-1))
        inside, ground = covered >= 0.5, covered < 0.1
        if not inside.any() or not ground.any():
            left_out += 1
            continue
        with record(clip.vision) as recording:
            clip.encode_image(pixels[None])
        rows = torch.stack(
            [attention_maps(recording[layer]).a1[0, :, 0, 1:].mean(0) for layer in range(clip.vision.layers)]
        )
        either = inside | ground
        masses.append(mass_inside(rows[:, either], inside[either]).numpy())
        ranks.append(auroc(rows, inside, ground).numpy())
    assert (found.pictures, found.left_out) == (len(masses), left_out)
    for metric, expected in (("mass", masses), ("auroc", ranks)):
        place = found.maps["A"][metric]
        assert [layer.value for layer in place.layers] == pytest.approx(list(np.mean(expected, axis=0)), abs=1e-5)
        assert place.mean.value == pytest.approx(np.mean(expected), abs=1e-5)
        assert place.mean.low <= place.mean.value <= place.mean.high


def test_uniform_maps_have_the_mass_of_the_object_and_know_no_place(clip: LoadedModel, diffclip: LoadedModel) -> None:
    plain = attention_to_objects(changed(clip, 0.0), SEED, 10)
    assert plain.maps["A"]["mass"].mean.value == pytest.approx(plain.object_share, abs=1e-5)
    assert plain.maps["A"]["lift"].mean.value == pytest.approx(1, abs=1e-5)
    assert plain.maps["A"]["auroc"].mean.value == pytest.approx(0.5, abs=1e-6)
    flat = attention_to_objects(changed(diffclip, 0.0), SEED, 10)
    for name in ("A1", "A2", POSITIVE + DIFFERENCE, "A1 sharpened to that entropy"):
        assert flat.maps[name]["lift"].mean.value == pytest.approx(1, abs=1e-4), name


def test_every_control_stands_beside_the_difference(diffclip: LoadedModel) -> None:
    found = attention_to_objects(diffclip, SEED, 8)
    assert set(found.maps) == {
        "A1", "A2", DIFFERENCE, POSITIVE + DIFFERENCE, "A1 sharpened to that entropy", "A1, run with lambda = 0",
        SHUFFLED, POSITIVE + SHUFFLED, UNIFORM, POSITIVE + UNIFORM, OTHER, POSITIVE + OTHER,
    }  # fmt: skip
    assert set(found.gains) == {
        "A1", "A1 sharpened to that entropy", "A1, run with lambda = 0",
        POSITIVE + SHUFFLED, POSITIVE + UNIFORM, POSITIVE + OTHER,
    }  # fmt: skip
    for name in SIGNED:
        assert set(found.maps[name]) == {"auroc"}, "a share of a signed sum means nothing"
    gain = found.gains["A1"]["auroc"].value
    own, first = (found.maps[name]["auroc"].mean.value for name in (POSITIVE + DIFFERENCE, "A1"))
    assert gain == pytest.approx(own - first, abs=1e-6)


def test_a_uniform_second_map_does_not_change_how_patches_are_ranked(diffclip: LoadedModel) -> None:
    found = attention_to_objects(changed(diffclip, 3.0), SEED, 8)
    assert found.maps[UNIFORM]["auroc"].mean.value == pytest.approx(found.maps["A1"]["auroc"].mean.value, abs=1e-5)


@pytest.mark.parametrize("count", [2, 3, 25, 26, 27, 50, 51, 300, 501])
def test_no_scene_is_alone_in_its_batch_where_it_would_be_its_own_other_picture(count: int) -> None:
    parts = batches(count)
    assert [number for part in parts for number in part] == list(range(count))
    assert min(map(len, parts)) > 1


def test_too_few_scenes_are_refused(clip: LoadedModel) -> None:
    with pytest.raises(StudioError, match="give 2 or more"):
        attention_to_objects(clip, SEED, 1)
