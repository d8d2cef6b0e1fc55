"""Recording: exact, gone afterwards, private to a thread, honest when something does not fit."""

import threading
from dataclasses import replace

import pytest
import torch
from torch import nn

from models import LoadedModel, attention_maps, record
from models.errors import RecordingError, UnsupportedAttentionError
from models.projections import reconstruct


def hooks_of(module: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) + len(m._backward_hooks) for m in module.modules())


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
