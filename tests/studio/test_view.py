"""What the browser gets is what the models computed: zeros stay zeros, rows and statistics come back."""

import base64

import numpy as np
import pytest
import torch

from models import LoadedModel, Normalizer, attention_maps, localisation, record, statistics
from models.maps import AttentionMaps
from studio.measures import objects_of, shuffled_measures
from studio.view import STEPS, layer_payload, quantise, with_mean


def unpacked(payload: dict, name: str) -> np.ndarray:
    """A map of a payload as floats (1 + H, Nq, Nk), by the rule that the browser follows."""
    keys, slots = payload["keys"], payload["slots"]
    steps = np.frombuffer(base64.b64decode(payload["maps"][name]["steps"]), "<u2").reshape(slots, -1, keys)
    top = np.frombuffer(base64.b64decode(payload["maps"][name]["top"]), "<f4").reshape(slots, -1, 1)
    return steps.astype(np.float64) * top / STEPS


def measured(payload: dict, group: str, name: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(payload["measures"][group][name]), "<f4").reshape(payload["slots"], -1)


def maps_of(model: LoadedModel, alpha: float = 1.0) -> AttentionMaps:
    pixels = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(1)) * 3
    with record(model.vision) as recording:
        model.encode_image(pixels)
    return attention_maps(recording[1], normalizer=Normalizer(alpha))


def test_a_weight_above_zero_never_becomes_zero_and_zero_stays_zero() -> None:
    row = np.array([[0.0, 1e-30, 1e-9, 0.5, 0.0, 1.0]], dtype=np.float32)
    steps, _ = quantise(row)
    assert ((steps == 0) == (row == 0)).all()
    assert steps.max() == STEPS


def test_rows_come_back_within_one_step_of_their_own_largest_entry() -> None:
    rows = np.random.default_rng(0).gamma(0.1, 1.0, (3, 5, 50)).astype(np.float32)
    steps, top = quantise(rows)
    again = steps.astype(np.float64) * top[..., None] / STEPS
    assert (np.abs(again - rows) <= rows.max(-1, keepdims=True) / STEPS * 1.001).all()


def test_a_negative_row_keeps_its_sign_and_an_empty_row_stays_empty() -> None:
    rows = np.array([[-0.2, -0.1, 0.0], [0.0, 0.0, 0.0]], dtype=np.float32)
    steps, top = quantise(rows)
    again = steps * top[:, None] / STEPS
    np.testing.assert_allclose(again, rows, atol=1e-5)


@pytest.mark.parametrize("alpha", [1.0, 1.5])
def test_the_difference_of_what_is_sent_is_what_multiplies_v(diffclip: LoadedModel, alpha: float) -> None:
    maps = maps_of(diffclip, alpha)
    payload = layer_payload(maps, 1, None)
    sent = unpacked(payload, "first") - unpacked(payload, "subtracted")
    np.testing.assert_allclose(sent[1:], maps.weights[0].numpy(), atol=4e-5)
    np.testing.assert_allclose(sent[0], maps.weights[0].mean(0).numpy(), atol=4e-5)
    if alpha > 1:
        assert ((unpacked(payload, "first")[1:] == 0) == (maps.a1[0].numpy() == 0)).all()


def test_a_standard_model_sends_one_map(clip: LoadedModel) -> None:
    payload = layer_payload(maps_of(clip), 1, None)
    assert list(payload["maps"]) == list(payload["measures"]) == ["first"]
    assert payload["slots"] == 1 + clip.vision.heads


def test_statistics_sent_are_those_of_the_models_package(diffclip: LoadedModel) -> None:
    maps = maps_of(diffclip)
    coverage = np.zeros((4, 4))
    coverage[:2, :2] = 1.0
    objects = objects_of(coverage)
    payload = layer_payload(maps, 1, objects)
    first, difference = with_mean(maps.a1), with_mean(maps.weights)
    patches = difference[..., 1:]
    expected = {
        ("first", "sum"): torch.ones_like(first[..., 0]),
        ("first", "entropy"): statistics.entropy(first),
        ("difference", "negative"): statistics.negative_mass(difference),
        ("difference", "inside"): localisation.mass_inside(statistics.positive_part(patches), objects.inside),
        ("difference", "auroc"): localisation.auroc(patches, objects.inside, objects.outside),
    }
    for (group, name), values in expected.items():
        np.testing.assert_allclose(measured(payload, group, name), values.numpy(), rtol=1e-4, atol=1e-6)
    lam = diffclip.vision.lambdas()
    assert lam is not None
    np.testing.assert_allclose(measured(payload, "subtracted", "sum"), lam[1], rtol=1e-5)


def test_the_control_is_the_same_every_time_and_keeps_what_shuffling_cannot_change(diffclip: LoadedModel) -> None:
    maps = maps_of(diffclip)
    assert maps.subtracted is not None
    first, subtracted = with_mean(maps.a1), with_mean(maps.subtracted)
    one, two = (shuffled_measures(first, subtracted, 1, None, count=4) for _ in range(2))
    assert all(torch.equal(one[name], two[name]) for name in one)
    torch.testing.assert_close(one["sum"], statistics.row_sum(first - subtracted))
    assert not torch.allclose(one["negative"], statistics.negative_mass(first - subtracted))


def test_without_a_mask_nothing_is_said_about_objects(diffclip: LoadedModel) -> None:
    payload = layer_payload(maps_of(diffclip), 1, None)
    assert all("inside" not in group and "auroc" not in group for group in payload["measures"].values())
