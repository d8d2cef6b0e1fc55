"""Maps: row sums, sources, causality, and what does not exist."""

import pytest
import torch
from families import FAMILIES, family_of

from models import LoadedModel, Normalizer, attention_maps, record
from models.errors import UndefinedMapError
from models.maps import attention_scores
from models.projections import Projections


def vision_projections(model: LoadedModel, pixels: torch.Tensor, layer: int = 1) -> Projections:
    with record(model.vision) as recording:
        model.encode_image(pixels)
    return recording[layer]


@pytest.mark.parametrize("alpha", [1.0, 1.3, 1.5, 2.0])
def test_rows_sum_to_one_and_those_of_a_difference_to_one_minus_lambda(
    model: LoadedModel, pixels: torch.Tensor, alpha: float
) -> None:
    maps = attention_maps(vision_projections(model, pixels), normalizer=Normalizer(alpha))
    torch.testing.assert_close(maps.a1.sum(-1), torch.ones_like(maps.a1.sum(-1)))
    if maps.a2 is None:
        assert maps.subtracted is None
        assert maps.weights is maps.a1
    else:
        assert maps.lam is not None
        assert maps.subtracted is not None
        torch.testing.assert_close(maps.a2.sum(-1), torch.ones_like(maps.a2.sum(-1)))
        torch.testing.assert_close(maps.weights.sum(-1), (1 - maps.lam).expand((*maps.weights.shape[:-1], 1))[..., 0])
        torch.testing.assert_close(maps.subtracted, maps.lam * maps.a2)


def test_there_is_one_head_a_pair_in_a_differential_tower(clip: LoadedModel, diffclip: LoadedModel) -> None:
    assert (clip.vision.heads, diffclip.vision.heads) == (4, 2)
    pixels = torch.zeros(1, 3, 32, 32)
    assert attention_maps(vision_projections(diffclip, pixels)).weights.shape == (1, 2, 17, 17)
    assert attention_maps(vision_projections(clip, pixels)).weights.shape == (1, 4, 17, 17)


def test_text_maps_are_causal_with_the_diagonal(model: LoadedModel) -> None:
    with record(model.text) as recording:
        model.encode_text(model.tokenize("a cat"))
    for layer in range(len(recording)):
        maps = attention_maps(recording[layer])
        for part in (maps.a1, maps.a2):
            if part is not None:
                assert torch.equal(part, part.tril())
                assert bool((part.diagonal(dim1=-2, dim2=-1) > 0).all())


def test_self_correlations_are_symmetric_scores(clip: LoadedModel, pixels: torch.Tensor) -> None:
    projections = vision_projections(clip, pixels)
    for source in ("qq", "kk", "vv"):
        scores = attention_scores(projections, source)
        torch.testing.assert_close(scores, scores.transpose(-1, -2))
    assert not torch.allclose(attention_scores(projections), attention_scores(projections).transpose(-1, -2))


def test_a_sum_of_two_sources_has_rows_of_two_and_their_mean_rows_of_one(
    clip: LoadedModel, pixels: torch.Tensor
) -> None:
    projections = vision_projections(clip, pixels)
    both = attention_maps(projections, ("qq", "kk"))
    torch.testing.assert_close(both.a1.sum(-1), torch.full_like(both.a1.sum(-1), 2.0))
    separate = attention_maps(projections, "qq").a1 + attention_maps(projections, "kk").a1
    torch.testing.assert_close(both.a1, separate)
    mean = attention_maps(projections, ("qq", "kk"), combine="mean")
    torch.testing.assert_close(mean.a1 * 2, both.a1)


def test_vv_of_a_differential_head_is_refused_alone_and_in_a_sum(diffclip: LoadedModel, pixels: torch.Tensor) -> None:
    projections = vision_projections(diffclip, pixels)
    for source in ("vv", ("qq", "vv")):
        with pytest.raises(UndefinedMapError, match="shared by A1 and A2"):
            attention_maps(projections, source)


def test_an_unknown_source_and_no_source_are_refused(clip: LoadedModel, pixels: torch.Tensor) -> None:
    projections = vision_projections(clip, pixels)
    with pytest.raises(UndefinedMapError, match="choose among qk, qq, kk, vv"):
        attention_maps(projections, "kq")
    with pytest.raises(UndefinedMapError, match="one source or more"):
        attention_maps(projections, ())


def test_alpha_may_differ_from_head_to_head(model: LoadedModel, pixels: torch.Tensor) -> None:
    projections = vision_projections(model, pixels)
    alphas = torch.linspace(1.0, 2.0, model.vision.heads)
    maps = attention_maps(projections, normalizer=Normalizer(alphas.view(-1, 1, 1)))
    assert isinstance(maps.alpha, torch.Tensor)
    assert torch.equal(maps.alpha.flatten(), alphas)
    for head, alpha in enumerate(alphas.tolist()):
        alone = attention_maps(projections, normalizer=Normalizer(alpha))
        for ours, theirs in ((maps.a1, alone.a1), (maps.a2, alone.a2)):
            if ours is not None and theirs is not None:
                torch.testing.assert_close(ours[:, head], theirs[:, head], rtol=1e-4, atol=1e-6)


def test_alpha_near_one_nears_softmax(model: LoadedModel, pixels: torch.Tensor) -> None:
    projections = vision_projections(model, pixels)
    soft = attention_maps(projections).weights
    torch.testing.assert_close(
        attention_maps(projections, normalizer=Normalizer(1.001)).weights, soft, rtol=0, atol=5e-3
    )


def test_maps_are_told_apart_by_name(model: LoadedModel, pixels: torch.Tensor) -> None:
    maps = attention_maps(vision_projections(model, pixels))
    assert maps.part("a1") is maps.a1
    torch.testing.assert_close(maps.part("weights"), maps.weights)
    with pytest.raises(UndefinedMapError, match="choose weights, a1, a2 or subtracted"):
        maps.part("a3")  # type: ignore[arg-type]
    if maps.a2 is None:
        for name in ("a2", "subtracted"):
            with pytest.raises(UndefinedMapError, match=f"one map and no '{name}'"):
                maps.part(name)
    else:
        assert maps.part("a2") is maps.a2
        torch.testing.assert_close(maps.part("subtracted"), maps.a1 - maps.weights)


@pytest.mark.parametrize("source", ["qk", "qq", "kk"])
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_has_maps_of_every_source_that_it_can_have(name: str, source: str) -> None:
    family = family_of(name)
    with record(family.tower) as recording:
        family.run()
    for projections in recording:
        if projections.pooling and source != "qk":
            with pytest.raises(UndefinedMapError, match="of a pooling head are learned"):
                attention_maps(projections, source)
            continue
        maps = attention_maps(projections, source, Normalizer(1.5))
        torch.testing.assert_close(maps.a1.sum(-1), torch.ones_like(maps.a1.sum(-1)))
        assert bool((maps.a1 >= 0).all())
        assert maps.pooling == projections.pooling


def test_the_mask_holds_for_every_source(model: LoadedModel) -> None:
    with record(model.text) as recording:
        model.encode_text(model.tokenize("a cat"))
    for source in ("qk", "qq", "kk"):
        weights = attention_maps(recording[0], source, Normalizer(1.5)).weights
        assert torch.equal(weights, weights.tril())
