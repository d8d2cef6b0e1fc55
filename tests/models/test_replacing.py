"""Replacing what attention answers: exact with the model's own maps, private to a thread, gone afterwards."""

import threading

import pytest
import torch
from families import FAMILIES, Family, family_of
from hooked import hooks_of
from torch import Tensor

from models import LoadedModel, attention_maps
from models.errors import RecordingError, UnsupportedAttentionError
from models.projections import Projections, reconstruct
from models.replacing import replacing


def itself(projections: Projections) -> Tensor:
    return reconstruct(projections, attention_maps(projections).weights)


def nothing(projections: Projections) -> Tensor:
    return torch.zeros_like(itself(projections))


def run(family: Family, functions: dict) -> Tensor:
    with replacing(family.tower, functions):
        return family.run()


@pytest.mark.parametrize("name", FAMILIES)
def test_the_models_own_maps_give_the_models_own_output(name: str) -> None:
    family = family_of(name)
    plain = family.run()
    changed = run(family, dict.fromkeys(range(family.tower.layers), itself))
    torch.testing.assert_close(changed, plain, rtol=1e-4, atol=1e-5)
    assert torch.equal(family.run(), plain)


@pytest.mark.parametrize("name", FAMILIES)
def test_another_answer_of_any_single_layer_changes_the_output(name: str) -> None:
    family = family_of(name)
    plain = family.run()
    for layer in range(family.tower.layers):
        assert not torch.allclose(run(family, {layer: nothing}), plain, rtol=1e-2)


@pytest.mark.parametrize("name", FAMILIES)
def test_gradients_reach_a_change_of_every_layer(name: str) -> None:
    family = family_of(name)
    leaves: dict[int, Tensor] = {}

    def shifted(layer: int):
        def attend(projections: Projections) -> Tensor:
            weights = attention_maps(projections).weights
            leaves[layer] = torch.zeros_like(weights, requires_grad=True)
            return reconstruct(projections, weights + leaves[layer])

        return attend

    output = run(family, {layer: shifted(layer) for layer in range(family.tower.layers)})
    for gradient in torch.autograd.grad(output.square().sum(), list(leaves.values())):
        assert bool((gradient != 0).any())


def test_no_function_is_no_hook(model: LoadedModel, pixels: Tensor) -> None:
    plain = model.encode_image(pixels)
    with model.lock, replacing(model.vision, {}):
        assert hooks_of(model.module) == 0
        assert torch.equal(model.encode_image(pixels), plain)


def test_a_function_is_given_what_the_layers_before_it_left(model: LoadedModel, pixels: Tensor) -> None:
    seen: list[Tensor] = []

    def look(projections: Projections) -> Tensor:
        seen.append(projections.q)
        return itself(projections)

    for first in (itself, nothing):
        with model.lock, replacing(model.vision, {0: first, 2: look}):
            model.encode_image(pixels)
    assert not torch.allclose(seen[0], seen[1], rtol=1e-2)


def test_hooks_are_gone_when_a_function_raises(model: LoadedModel, pixels: Tensor) -> None:
    def broken(projections: Projections) -> Tensor:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), model.lock, replacing(model.vision, {0: itself, 1: broken}):
        model.encode_image(pixels)
    assert hooks_of(model.module) == 0


def test_hooks_are_gone_when_a_generator_is_abandoned(model: LoadedModel) -> None:
    def walk():
        with replacing(model.vision, {0: itself}):
            yield

    generator = walk()
    next(generator)
    assert hooks_of(model.module) == 1
    generator.close()
    assert hooks_of(model.module) == 0


def test_another_thread_runs_the_model_as_it_is(model: LoadedModel, pixels: Tensor) -> None:
    plain, found = model.encode_image(pixels), []
    with replacing(model.vision, {1: nothing}):
        thread = threading.Thread(target=lambda: found.append(model.encode_image(pixels)))
        thread.start()
        thread.join()
        changed = model.encode_image(pixels)
    assert torch.equal(found[0], plain)
    assert not torch.allclose(changed, plain, rtol=1e-2)


def test_a_layer_that_does_not_exist_and_attention_that_is_not_known_are_named(
    model: LoadedModel, pixels: Tensor
) -> None:
    for layer in (-1, 3):
        said = f"Layer {layer} does not exist in the vision tower: choose 0-2"
        with pytest.raises(RecordingError, match=said), replacing(model.vision, {layer: itself}):
            pass
    assert hooks_of(model.module) == 0
    family = family_of("open_clip ViT")
    module = family.tower.attention[1]
    module.add_zero_attn = True  # type: ignore[assignment]
    with pytest.raises(UnsupportedAttentionError, match=r"Layer 1 of the vision tower: .*zero attention"):
        run(family, {1: itself})
    assert hooks_of(family.module) == 0
