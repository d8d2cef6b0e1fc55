"""Edited maps: controls of A2 and of sparsity are what they say, layer by layer and head by head."""

import pytest
import torch
from torch import Tensor

from models import LoadedModel, Normalizer, attention_maps, record
from models.intervention.edits import (
    Edit,
    Identity,
    MatchedEntropy,
    OtherA2,
    RandomMask,
    ShuffledA2,
    SupportOf,
    TopK,
    UniformA2,
    UseNormalizer,
    UseSource,
)
from models.intervention.run import edited_maps, intervene

ENTMAX = Normalizer(1.5)
TEXTS = ["a photo of a cat and two dogs", "keys"]


@pytest.fixture
def other() -> Tensor:
    return torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(77))


def test_another_pictures_a2_is_that_pictures_and_a1_stays(
    diffclip: LoadedModel, pixels: Tensor, other: Tensor
) -> None:
    with record(diffclip.vision) as theirs:
        diffclip.encode_image(other)
    edits = [OtherA2(theirs, layers=(0, 1))]
    with record(diffclip.vision) as ours, intervene(diffclip.vision, edits):
        diffclip.encode_image(pixels)
    for layer in (0, 1):
        used = edited_maps(diffclip.vision, edits, layer, ours[layer])
        assert used.a2 is not None
        assert torch.equal(used.a2, attention_maps(theirs[layer]).a2.expand(2, -1, -1, -1))  # type: ignore[union-attr]
        assert torch.equal(used.a1, attention_maps(ours[layer]).a1)


def test_another_pictures_a2_is_made_by_the_runs_source_and_normaliser(
    diffclip: LoadedModel, pixels: Tensor, other: Tensor
) -> None:
    with record(diffclip.vision) as theirs:
        diffclip.encode_image(other)
    edits = [OtherA2(theirs, 0), UseSource("kk", layers=0), UseNormalizer(ENTMAX, 0)]
    used = edited_maps(diffclip.vision, edits, 0, theirs[0])
    assert torch.equal(used.weights, attention_maps(theirs[0], "kk", ENTMAX).weights)
    assert (used.source, used.alpha) == ("kk", 1.5)


def test_shuffled_a2_keeps_its_prefix_and_its_values_and_uniform_a2_its_sums(
    diffclip: LoadedModel, pixels: Tensor
) -> None:
    with record(diffclip.vision) as recording:
        diffclip.encode_image(pixels)
    own = attention_maps(recording[1]).a2
    shuffled = edited_maps(diffclip.vision, [ShuffledA2(3)], 1, recording[1]).a2
    again = edited_maps(diffclip.vision, [ShuffledA2(3)], 1, recording[1]).a2
    uniform = edited_maps(diffclip.vision, [UniformA2(), UseSource(("qq", "kk"))], 1, recording[1]).a2
    assert own is not None
    assert shuffled is not None
    assert again is not None
    assert uniform is not None
    assert torch.equal(shuffled, again)
    assert torch.equal(shuffled[..., 0], own[..., 0])
    assert not torch.allclose(shuffled, own, atol=1e-4)
    assert torch.equal(shuffled.sort(-1).values, own.sort(-1).values)
    torch.testing.assert_close(uniform, torch.full_like(uniform, 2 / 17))


def test_sparsity_controls_have_the_support_of_entmax_and_the_entropy_of_entmax(
    model: LoadedModel, pixels: Tensor
) -> None:
    with record(model.vision) as recording:
        model.encode_image(pixels)
    wanted = attention_maps(recording[2], normalizer=ENTMAX)

    def made(edit: Edit) -> Tensor:
        return edited_maps(model.vision, [edit], 2, recording[2]).a1

    def entropy(weights: Tensor) -> Tensor:
        return -torch.xlogy(weights, weights).sum(-1)

    support = (wanted.a1 > 0).sum(-1)
    assert torch.equal((made(TopK(SupportOf(ENTMAX))) > 0).sum(-1), support)
    assert torch.equal((made(RandomMask(SupportOf(ENTMAX))) > 0).sum(-1), support)
    assert torch.equal(made(TopK(SupportOf(ENTMAX))) > 0, wanted.a1 > 0)
    assert not torch.equal(made(RandomMask(SupportOf(ENTMAX))) > 0, wanted.a1 > 0)
    matched = made(MatchedEntropy(ENTMAX))
    assert float((entropy(matched) - entropy(wanted.a1)).abs().max()) < 1e-4
    assert bool((matched > 0).all())


def test_the_random_mask_differs_by_layer_and_by_seed_and_is_the_same_again(clip: LoadedModel, pixels: Tensor) -> None:
    with record(clip.vision) as recording:
        clip.encode_image(pixels)
    draws = [
        edited_maps(clip.vision, [RandomMask(4, seed)], layer, recording[0]).a1 > 0
        for seed, layer in ((0, 0), (0, 1), (1, 0), (0, 0))
    ]
    assert torch.equal(draws[0], draws[3])
    assert not torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_alpha_may_differ_by_head(clip: LoadedModel, pixels: Tensor) -> None:
    alphas = torch.tensor([1.0, 1.3, 1.5, 2.0]).view(4, 1, 1)
    with record(clip.vision) as recording:
        clip.encode_image(pixels)
    used = edited_maps(clip.vision, [UseNormalizer(Normalizer(alphas))], 0, recording[0]).a1
    for head, alpha in enumerate(alphas.flatten().tolist()):
        wanted = attention_maps(recording[0], normalizer=Normalizer(alpha)).a1
        torch.testing.assert_close(used[:, head], wanted[:, head], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    "edit",
    [TopK(3), RandomMask(3), MatchedEntropy(ENTMAX), Identity(), UseNormalizer(ENTMAX), UseSource("qq")],
    ids=lambda edit: repr(edit)[:30],
)
def test_no_edit_of_a_text_tower_looks_ahead(model: LoadedModel, edit: Edit) -> None:
    check_causal(model, edit)


def test_a_uniform_a2_of_a_text_tower_does_not_look_ahead(diffclip: LoadedModel) -> None:
    check_causal(diffclip, UniformA2())


def check_causal(model: LoadedModel, edit: Edit) -> None:
    with record(model.text) as recording, intervene(model.text, [edit]):
        model.encode_text(model.tokenize(TEXTS))
    for layer in range(model.text.layers):
        used = edited_maps(model.text, [edit], layer, recording[layer])
        for part in (used.a1, used.a2):
            assert part is None or torch.equal(part, part.tril())
    # Nothing behind the end token may reach it.
    tokens = model.tokenize("a cat")
    end = int(tokens.argmax())
    changed = tokens.clone()
    changed[:, end + 1 :] = 5
    with intervene(model.text, [edit]):
        torch.testing.assert_close(model.encode_text(tokens), model.encode_text(changed), rtol=0, atol=1e-6)
