"""Maps: row sums, sources, causality, and what does not exist."""

import pytest
import torch

from models import LoadedModel, Normalizer, attention_maps, record
from models.errors import UndefinedMapError
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
    from models.maps import attention_scores

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
