"""What the browser gets is what the models computed: zeros stay zeros, rows come back, sinks are marked."""

import base64

import numpy as np
import pytest
import torch

from models import LoadedModel, Normalizer, StudioError, attention_maps, record, statistics
from models.contributions import value_weighted
from models.maps import AttentionMaps
from models.projections import Projections
from studio import view
from studio.panels import with_mean
from studio.view import STEPS, layer_payload, quantise, sinks_of


def unpacked(payload: dict, kind: str) -> np.ndarray:
    """A map of a payload as floats (S, Nq, Nk), by the rule that the browser follows."""
    shape = len(payload["slots"]), payload["queries"], payload["keys"]
    steps = np.frombuffer(base64.b64decode(payload["maps"][kind]["steps"]), "<i2").reshape(shape)
    top = np.frombuffer(base64.b64decode(payload["maps"][kind]["top"]), "<f4").reshape(*shape[:2], 1)
    return restored(steps, top)


def restored(steps: np.ndarray, top: np.ndarray) -> np.ndarray:
    return np.sign(steps) * (steps.astype(np.float64) / STEPS) ** 2 * top


def read(model: LoadedModel, alpha: float = 1.0) -> tuple[AttentionMaps, Projections]:
    pixels = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(1)) * 3
    with record(model.vision) as recording:
        model.encode_image(pixels)
    return attention_maps(recording[1], normalizer=Normalizer(alpha)), recording[1]


def test_a_weight_other_than_zero_never_becomes_zero_and_zero_stays_zero() -> None:
    row = torch.tensor([[0.0, 1e-30, -1e-9, 0.5, 0.0, 1.0]])
    steps, _ = quantise(row)
    assert (np.sign(steps) == row.sign().numpy()).all()
    assert steps.max() == STEPS


def test_rows_come_back_within_one_step_of_their_own_largest_entry() -> None:
    rows = torch.from_numpy(np.random.default_rng(0).normal(0, 1, (3, 5, 50)).astype(np.float32)) ** 3
    steps, top = quantise(rows)
    again = restored(steps, top[..., None])
    assert (np.abs(again - rows.numpy()) <= 1.001 * rows.abs().amax(-1, keepdim=True).numpy() / STEPS).all()


@pytest.mark.parametrize(("sink", "share"), [(0.9, 0.002), (0.999, 0.01), (1 - 1e-5, 0.1)])
def test_patches_keep_their_values_beside_a_sink_that_takes_nearly_all_of_the_row(sink: float, share: float) -> None:
    patches = torch.rand(196, generator=torch.Generator().manual_seed(3)) + 0.1
    row = torch.cat([torch.tensor([sink]), (1 - sink) * patches / patches.sum()])
    steps, top = quantise(row[None])
    error = np.abs(restored(steps, top[:, None])[0] - row.numpy())[1:].max()
    assert error <= share * float(row[1:].max()), "of the strongest patch"


def test_a_row_of_zeros_stays_empty() -> None:
    steps, top = quantise(torch.zeros(2, 4))
    assert not steps.any()
    assert not top.any()


@pytest.mark.parametrize("alpha", [1.0, 1.5])
def test_what_is_sent_is_what_multiplies_v(diffclip: LoadedModel, alpha: float) -> None:
    maps, projections = read(diffclip, alpha)
    payload = layer_payload(maps, projections, ["weights", "a1", "subtracted"], [None])
    assert payload["slots"] == [0, 1, 2]
    np.testing.assert_allclose(unpacked(payload, "weights")[1:], maps.weights[0].numpy(), atol=2e-5)
    np.testing.assert_allclose(unpacked(payload, "weights")[0], maps.weights[0].mean(0).numpy(), atol=2e-5)
    difference = unpacked(payload, "a1") - unpacked(payload, "subtracted")
    np.testing.assert_allclose(difference, unpacked(payload, "weights"), atol=6e-5)
    if alpha > 1:
        assert ((unpacked(payload, "a1")[1:] == 0) == (maps.a1[0].numpy() == 0)).all()


def test_value_weighted_maps_are_those_of_the_models_package(model: LoadedModel) -> None:
    maps, projections = read(model)
    sent = unpacked(layer_payload(maps, projections, ["value"], [None]), "value")
    expected = with_mean(value_weighted(projections, maps.weights)[0]).numpy()
    np.testing.assert_allclose(sent, expected, atol=float(expected.max()) / STEPS)


def test_a_model_with_one_map_has_no_a2_to_send(clip: LoadedModel) -> None:
    maps, projections = read(clip)
    assert list(layer_payload(maps, projections, ["weights"], [None])["maps"]) == ["weights"]
    with pytest.raises(StudioError, match="one map"):
        layer_payload(maps, projections, ["subtracted"], [None])


def test_of_a_large_layer_only_the_heads_that_are_shown_are_sent(
    clip: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    maps, projections = read(clip)
    whole = unpacked(layer_payload(maps, projections, ["weights"], [2]), "weights")
    monkeypatch.setattr(view, "ALL_SLOTS", 10)
    payload = layer_payload(maps, projections, ["weights"], [2, None, 2])
    assert payload["slots"] == [0, 3]
    np.testing.assert_array_equal(unpacked(payload, "weights"), whole[[0, 3]])
    with pytest.raises(StudioError, match="Head 9 does not exist"):
        layer_payload(maps, projections, ["weights"], [9])


def test_sinks_are_those_of_the_models_package_also_with_empty_rows() -> None:
    maps = torch.randn(4, 30, 30, generator=torch.Generator().manual_seed(2)).abs() ** 4
    maps[:, :, 3] *= 40
    maps[1, 5] = 0
    expected = statistics.sinks(maps)
    assert expected.any()
    assert torch.equal(sinks_of(maps), expected)
