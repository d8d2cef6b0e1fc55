"""Recording: exact, gone afterwards, private to a thread, honest when something does not fit."""

import copy
import threading
from dataclasses import replace

import pytest
import torch
from hooked import hooks_of
from torch import nn

from models import LoadedModel, attention_maps, record
from models.errors import RecordingError, UnsupportedAttentionError
from models.projections import Projections, reconstruct
from models.recorder import TOLERANCE
from models.replacing import replacing


@pytest.mark.parametrize("tower", ["vision", "text"])
def test_weights_times_v_give_the_output_of_every_attention_module(
    model: LoadedModel, pixels: torch.Tensor, tower: str
) -> None:
    with record(getattr(model, tower)) as recording:
        model.encode_image(pixels) if tower == "vision" else model.encode_text(model.tokenize(["a cat", "two dogs"]))
    for layer in range(len(recording)):
        weights = attention_maps(recording[layer]).weights
        torch.testing.assert_close(
            reconstruct(recording[layer], weights), recording._layers[layer].output, rtol=1e-4, atol=1e-6
        )


def test_recording_changes_no_bit_of_the_embedding(model: LoadedModel, pixels: torch.Tensor) -> None:
    before = model.encode_image(pixels)
    with record(model.vision):
        during = model.encode_image(pixels)
    assert torch.equal(before, during)
    assert torch.equal(before, model.encode_image(pixels))


def test_hooks_are_removed_after_success_and_when_forward_raises(model: LoadedModel, pixels: torch.Tensor) -> None:
    with record(model.vision):
        assert hooks_of(model.module) > 0
        model.encode_image(pixels)
    assert hooks_of(model.module) == 0
    with pytest.raises(RuntimeError), record(model.vision):
        model.encode_image(pixels[:, :, :-8])
    assert hooks_of(model.module) == 0


def test_hooks_are_removed_when_a_generator_that_records_is_abandoned(model: LoadedModel, pixels: torch.Tensor) -> None:
    def layers():
        with record(model.vision) as recording:
            model.encode_image(pixels)
            yield recording[0]

    walk = layers()
    next(walk)
    walk.close()
    assert hooks_of(model.module) == 0


def test_two_threads_with_two_pictures_each_get_their_own_maps(model: LoadedModel) -> None:
    pictures = [torch.full((1, 3, 32, 32), value) for value in (-0.5, 0.9)]
    alone = []
    for picture in pictures:
        with record(model.vision) as recording:
            model.encode_image(picture)
        alone.append(attention_maps(recording[1]).weights)
    together: list[torch.Tensor | None] = [None, None]
    gate = threading.Barrier(2)

    def look(i: int) -> None:
        with record(model.vision) as recording:
            gate.wait()
            model.encode_image(pictures[i])
            gate.wait()
        together[i] = attention_maps(recording[1]).weights

    threads = [threading.Thread(target=look, args=(i,)) for i in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for ours, theirs in zip(together, alone, strict=True):
        assert ours is not None
        assert torch.equal(ours, theirs)
    assert not torch.equal(alone[0], alone[1])


def test_a_layer_that_never_ran_and_one_that_does_not_exist_are_named(model: LoadedModel) -> None:
    with record(model.vision) as recording:
        pass
    with pytest.raises(RecordingError, match="Layer 1 of the vision tower did not run"):
        recording[1]
    with pytest.raises(RecordingError, match="choose 0-2"):
        recording[3]


def test_two_forward_passes_in_one_recording_are_refused(model: LoadedModel, pixels: torch.Tensor) -> None:
    with record(model.vision):
        model.encode_image(pixels)
        with pytest.raises(RecordingError, match="ran twice"):
            model.encode_image(pixels)
    assert hooks_of(model.module) == 0


def test_a_recording_is_refused_once_the_weights_changed(diffclip: LoadedModel, pixels: torch.Tensor) -> None:
    with record(diffclip.vision) as recording:
        diffclip.encode_image(pixels)
    with torch.no_grad():
        diffclip.vision.attention[1].get_parameter("lambda_q1").add_(0.0)
    assert recording[0] is recording[0]
    with pytest.raises(RecordingError, match="weights of layer 1"):
        recording[1]


def test_an_output_that_the_maps_do_not_explain_is_refused(clip: LoadedModel, pixels: torch.Tensor) -> None:
    with record(clip.vision) as recording:
        clip.encode_image(pixels)
    layer = recording._layers[2]
    recording._layers[2] = replace(layer, output=layer.output + 0.01 * layer.output.abs().max())
    with pytest.raises(RecordingError, match="Layer 2 of the vision tower: weights @ V misses"):
        recording[2]


def test_an_unknown_attention_module_is_named_with_its_layer(clip: LoadedModel, pixels: torch.Tensor) -> None:
    strange = replace(clip.vision, attention=(clip.vision.attention[0], nn.Linear(32, 128), clip.vision.attention[2]))
    with record(strange) as recording:
        clip.encode_image(pixels)
        strange.attention[1](torch.randn(1, 5, 32))
    with pytest.raises(UnsupportedAttentionError, match=r"Layer 1 of the vision tower: torch.*Linear"):
        recording[1]


def test_a_tower_without_attention_is_refused_with_its_own_reason(clip: LoadedModel) -> None:
    bare = replace(clip.vision, attention=(), blocks=(), reason="The vision tower is a ResNet: choose a ViT.")
    with pytest.raises(RecordingError, match="is a ResNet: choose a ViT"), record(bare):
        pass
    with pytest.raises(RecordingError, match="no attention to record"), record(replace(bare, reason="")):
        pass


def test_a_call_that_is_not_covered_lets_the_model_run_and_refuses_its_layer(clip: LoadedModel) -> None:
    module = clip.vision.attention[0]
    x = torch.randn(1, 5, 32)
    with record(clip.vision) as recording:
        output = module(x, x, x, key_padding_mask=torch.zeros(1, 5, dtype=torch.bool), need_weights=False)[0]
        clip.vision.attention[1](x, x, x, need_weights=False)
    assert output.shape == (1, 5, 32)
    with pytest.raises(UnsupportedAttentionError, match=r"Layer 0 of the vision tower: .* key_padding_mask"):
        recording[0]
    assert recording[1].q.shape == (1, 4, 1, 5, 8)


def test_a_run_that_is_changed_is_recorded_as_each_module_answers(model: LoadedModel, pixels: torch.Tensor) -> None:
    """The order of the contexts does not matter, and layers behind a change see changed inputs."""

    def halved(projections: Projections) -> torch.Tensor:
        return 0.5 * reconstruct(projections, attention_maps(projections).weights)

    with record(model.vision) as plain:
        model.encode_image(pixels)
    with model.lock, replacing(model.vision, {0: halved}), record(model.vision) as inside:
        model.encode_image(pixels)
    with model.lock, record(model.vision) as outside, replacing(model.vision, {0: halved}):
        model.encode_image(pixels)
    assert torch.equal(inside[0].q, plain[0].q)
    assert not torch.allclose(inside[1].q, plain[1].q, rtol=1e-3)
    assert torch.equal(inside[1].q, outside[1].q)


def test_the_layers_of_a_recording_come_in_order(model: LoadedModel, pixels: torch.Tensor) -> None:
    with record(model.vision) as recording:
        model.encode_image(pixels)
    walked = list(recording)
    assert len(walked) == len(recording) == 3
    assert all(projections is recording[layer] for layer, projections in enumerate(walked))


def test_recording_keeps_the_input_and_the_output_of_each_layer_and_nothing_else(
    model: LoadedModel, pixels: torch.Tensor
) -> None:
    with record(model.vision) as recording:
        model.encode_image(pixels)
    assert recording.nbytes == 3 * 2 * (2 * 17 * 32 * 4)


def test_half_precision_has_a_tolerance_of_its_own_that_a_wrong_map_misses(clip: LoadedModel) -> None:
    module, x = copy.deepcopy(clip.vision.attention[0]).bfloat16(), torch.randn(1, 9, 32).bfloat16()
    tower = replace(clip.vision, attention=(module,))
    with record(tower) as recording:
        module(x, x, x, need_weights=False)
    again = reconstruct(recording[0], attention_maps(recording[0]).weights)
    output = recording._layers[0].output
    assert float((again - output).abs().max() / output.abs().max()) > TOLERANCE[torch.float32]
    recording._projections.clear()
    recording._layers[0] = replace(recording._layers[0], output=output.roll(1, 1))
    with pytest.raises(RecordingError, match="6e-02 is allowed"):
        recording[0]


def test_two_threads_with_two_models_each_get_their_own_maps(clip: LoadedModel, diffclip: LoadedModel) -> None:
    picture, gate = torch.full((1, 3, 32, 32), 0.4), threading.Barrier(2)
    alone, together = [], {}
    for each in (clip, diffclip):
        with record(each.vision) as recording:
            each.encode_image(picture)
        alone.append(attention_maps(recording[2]).weights)

    def look(each: LoadedModel) -> None:
        gate.wait()
        for _ in range(5):
            with record(each.vision) as recording:
                each.encode_image(picture)
        together[each.name] = attention_maps(recording[2]).weights

    threads = [threading.Thread(target=look, args=(each,)) for each in (clip, diffclip)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.equal(together[clip.name], alone[0])
    assert torch.equal(together[diffclip.name], alone[1])
