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
    AttentionToObjects,
    AttentionValues,
    attention_to_objects,
    attention_values,
    batches,
    summary,
)
from train.evaluation.spread import Ranks, Stopped
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


def mean(found: AttentionToObjects, name: str, metric: str) -> float:
    """The mean over layers, which there must be."""
    measured = found.maps[name][metric].mean
    assert measured is not None
    return measured.value


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
        assert [layer.value for layer in place.layers if layer] == pytest.approx(
            list(np.mean(expected, axis=0)), abs=1e-5
        )
        assert place.mean is not None
        assert place.mean.value == pytest.approx(np.mean(expected), abs=1e-5)
        assert place.mean.low <= place.mean.value <= place.mean.high


def test_uniform_maps_have_the_mass_of_the_object_and_know_no_place(clip: LoadedModel, diffclip: LoadedModel) -> None:
    plain = attention_to_objects(changed(clip, 0.0), SEED, 10)
    assert mean(plain, "A", "mass") == pytest.approx(plain.object_share, abs=1e-5)
    assert mean(plain, "A", "lift") == pytest.approx(1, abs=1e-5)
    assert mean(plain, "A", "auroc") == pytest.approx(0.5, abs=1e-6)
    flat = attention_to_objects(changed(diffclip, 0.0), SEED, 10)
    for name in ("A1", "A2", POSITIVE + DIFFERENCE, "A1 sharpened to that entropy"):
        assert mean(flat, name, "lift") == pytest.approx(1, abs=1e-4), name


def test_every_control_stands_beside_the_difference(diffclip: LoadedModel) -> None:
    found = attention_to_objects(diffclip, SEED, 8)
    assert set(found.maps) == {
        "A1", "A2", DIFFERENCE, POSITIVE + DIFFERENCE, "A1 sharpened to that entropy", "A1, run with lambda = 0",
        SHUFFLED, POSITIVE + SHUFFLED, UNIFORM, POSITIVE + UNIFORM, OTHER, POSITIVE + OTHER,
    }  # fmt: skip
    first = {"A1", "A1 sharpened to that entropy", "A1, run with lambda = 0"}
    controls = (SHUFFLED, UNIFORM, OTHER)
    assert set(found.gains) == {DIFFERENCE, POSITIVE + DIFFERENCE}
    assert set(found.gains[DIFFERENCE]) == {*first, *controls}
    assert set(found.gains[POSITIVE + DIFFERENCE]) == {*first, *(POSITIVE + name for name in controls)}
    assert {tuple(metrics) for metrics in found.gains[DIFFERENCE].values()} == {("auroc",)}
    for name in SIGNED:
        assert set(found.maps[name]) == {"auroc"}, "a share of a signed sum means nothing"
    for own, controls in found.gains.items():
        for control in controls:
            apart = mean(found, own, "auroc") - mean(found, control, "auroc")
            assert getattr(controls[control]["auroc"], "value", None) == pytest.approx(apart, abs=1e-6)


def test_the_numbers_of_each_scene_have_the_means_that_are_told(diffclip: LoadedModel) -> None:
    values = attention_values(diffclip, SEED, 12)
    found, each = summary(values), values.of_each()
    assert set(each) == {f"{name}: {metric}" for name, places in found.maps.items() for metric in places}
    for name, places in found.maps.items():
        for metric in places:
            numbers = each[f"{name}: {metric}"]
            assert len(numbers) == 12
            assert int(np.isnan(numbers).sum()) == found.left_out
            assert np.nanmean(numbers) == pytest.approx(mean(found, name, metric), abs=1e-6)


def test_a_number_that_no_scene_has_is_none_and_the_others_are_told() -> None:
    maps = np.full((4, 2, 3), 0.5)
    maps[:, 1, 0] = np.nan  # the second layer has no mass
    maps[0] = np.nan  # left out
    shares = np.array([np.nan, 0.2, 0.2, 0.2])
    found = summary(AttentionValues(shares, {"A1": maps}))
    assert (found.pictures, found.left_out) == (3, 1)
    first, second = found.maps["A1"]["mass"].layers
    assert first is not None
    assert second is None
    assert mean(found, "A1", "mass") == pytest.approx(0.5)


def test_it_is_left_between_two_batches_when_somebody_asks(clip: LoadedModel) -> None:
    asked: list[int] = []

    def second_time() -> bool:
        asked.append(1)
        return len(asked) == 2

    with pytest.raises(Stopped):
        attention_to_objects(clip, SEED, 60, Ranks(stopped=second_time))
    assert len(asked) == 2


def test_a_uniform_second_map_does_not_change_how_patches_are_ranked(diffclip: LoadedModel) -> None:
    found = attention_to_objects(changed(diffclip, 3.0), SEED, 8)
    assert mean(found, UNIFORM, "auroc") == pytest.approx(mean(found, "A1", "auroc"), abs=1e-5)


@pytest.mark.parametrize("count", [2, 3, 25, 26, 27, 50, 51, 300, 501])
def test_no_scene_is_alone_in_its_batch_where_it_would_be_its_own_other_picture(count: int) -> None:
    parts = batches(count)
    assert [number for part in parts for number in part] == list(range(count))
    assert min(map(len, parts)) > 1


def test_too_few_scenes_are_refused(clip: LoadedModel) -> None:
    with pytest.raises(StudioError, match="give 2 or more"):
        attention_to_objects(clip, SEED, 1)
