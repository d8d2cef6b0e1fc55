"""Rollout: the published recipe, for non-negative maps only."""

import pytest
import torch
from families import family_of
from torch import Tensor

from models import LoadedModel, Normalizer, attention_maps, record
from models.errors import StudioError, UndefinedMapError
from models.maps import AttentionMaps
from models.rollout import Fusion, rollout


def maps_of(name: str, alpha: float = 1.0) -> list[AttentionMaps]:
    family = family_of(name)
    with record(family.tower) as recording:
        family.run()
    return [attention_maps(projections, normalizer=Normalizer(alpha)) for projections in recording]


def literal(layers: list[Tensor], heads: Fusion) -> Tensor:
    """Entry by entry, one picture at a time: fuse, half identity, each row by its own sum, later layers on the left."""
    results = []
    for picture in range(layers[0].shape[0]):
        total = None
        for layer in layers:
            count, tokens = layer.shape[1], layer.shape[2]
            step = torch.zeros(tokens, tokens, dtype=torch.float64)
            for q in range(tokens):
                for k in range(tokens):
                    entries = [float(layer[picture, head, q, k]) for head in range(count)]
                    fused = {"mean": sum(entries) / count, "max": max(entries), "min": min(entries)}[heads]
                    step[q, k] = 0.5 * fused + (0.5 if q == k else 0.0)
                step[q] /= step[q].sum()
            total = step if total is None else step @ total
        assert total is not None
        results.append(total)
    return torch.stack(results)


@pytest.mark.parametrize("heads", ["mean", "max", "min"])
def test_rollout_is_the_recipe_written_out(heads: Fusion) -> None:
    layers = maps_of("open_clip ViT")
    expected = literal([maps.weights for maps in layers], heads)
    torch.testing.assert_close(rollout(layers, heads=heads).double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("heads", ["mean", "max", "min"])
@pytest.mark.parametrize("name", ["open_clip ViT", "open_clip text", "timm ViT with registers", "timm SigLIP"])
def test_rows_sum_to_one_and_no_column_is_normalised(name: str, heads: Fusion) -> None:
    total = rollout(maps_of(name), heads=heads)
    torch.testing.assert_close(total.sum(-1), torch.ones_like(total.sum(-1)))
    assert not torch.allclose(total.sum(-2), torch.ones_like(total.sum(-2)), atol=1e-3)


def test_every_picture_of_a_batch_has_its_own_rollout() -> None:
    layers = maps_of("open_clip ViT")
    both = rollout(layers)
    for picture in (0, 1):
        alone = [AttentionMaps(m.a1[picture : picture + 1], None, None, "qk", 1.0) for m in layers]
        torch.testing.assert_close(rollout(alone)[0], both[picture])


def test_the_rollout_of_a_causal_tower_is_causal() -> None:
    total = rollout(maps_of("open_clip text"))
    assert torch.equal(total, total.tril())


def test_the_start_layer_leaves_the_layers_before_it_out() -> None:
    layers = maps_of("timm SigLIP")
    assert torch.equal(rollout(layers, start=1), rollout(layers[1:]))
    assert torch.equal(rollout(iter(layers), start=2), rollout(layers[2:]))
    assert not torch.allclose(rollout(layers, start=1), rollout(layers))


def test_the_sum_of_two_sources_keeps_rows_of_one() -> None:
    family = family_of("open_clip ViT")
    with record(family.tower) as recording:
        family.run()
    total = rollout([attention_maps(projections, ("qq", "kk")) for projections in recording])
    torch.testing.assert_close(total.sum(-1), torch.ones_like(total.sum(-1)))


@pytest.mark.parametrize("heads", ["mean", "max", "min"])
def test_the_residual_is_half_of_a_sum_of_sources_as_of_their_mean(heads: Fusion) -> None:
    family = family_of("open_clip ViT")
    with record(family.tower) as recording:
        family.run()
    summed, averaged = (
        [attention_maps(projections, ("qq", "kk"), combine=combine) for projections in recording]
        for combine in ("sum", "mean")
    )
    torch.testing.assert_close(rollout(summed, heads=heads), rollout(averaged, heads=heads))
    one = rollout(summed[:1])
    torch.testing.assert_close(2 * one - torch.eye(one.shape[-1]), summed[0].weights.mean(1) / 2)


def test_a_head_without_weights_leaves_the_residual_a_larger_share() -> None:
    maps = torch.stack([torch.full((3, 3), 1 / 3), torch.zeros(3, 3)])[None]
    total = rollout([AttentionMaps(maps, None, None, "qk", 1.0)])
    torch.testing.assert_close(total[0], (torch.full((3, 3), 1 / 6) + torch.eye(3)) / 1.5)


def test_a_pooling_head_ends_the_product_without_a_residual() -> None:
    layers = maps_of("timm SigLIP")
    before = rollout(layers[:-1])
    torch.testing.assert_close(rollout(layers), layers[-1].weights.mean(1) @ before)
    assert rollout(layers).shape == (2, 1, 16)


def test_a_pooling_head_over_patches_alone_reaches_the_prefix_through_the_patches() -> None:
    layers = maps_of("timm pooling of patches alone")
    assert layers[-1].weights.shape[-1] == 16
    total = rollout(layers)
    assert total.shape == (2, 1, 17)
    torch.testing.assert_close(total, layers[-1].weights.mean(1) @ rollout(layers[:-1])[:, 1:])


def test_nothing_comes_behind_a_pooling_head() -> None:
    layers = maps_of("timm SigLIP")
    with pytest.raises(UndefinedMapError, match="ends with a pooling head"):
        rollout([layers[-1], layers[0]])


def test_a_difference_is_refused_and_either_of_its_maps_is_followed(diffclip: LoadedModel, pixels: Tensor) -> None:
    with record(diffclip.vision) as recording:
        diffclip.encode_image(pixels)
    layers = [attention_maps(projections) for projections in recording]
    with pytest.raises(UndefinedMapError, match=r"negative entries.*choose a1 or a2"):
        rollout(layers)
    for part in ("a1", "a2"):
        total = rollout(layers, part=part)
        torch.testing.assert_close(total.double(), literal([m.part(part) for m in layers], "mean"))


def test_a_difference_without_negative_entries_is_refused_all_the_same() -> None:
    a1, a2 = torch.full((1, 1, 3, 3), 1 / 3), torch.full((1, 1, 3, 3), 1 / 3)
    with pytest.raises(UndefinedMapError, match="do not sum to 1"):
        rollout([AttentionMaps(a1, a2, torch.tensor(0.5), "qk", 1.0)])


def test_clip_has_no_second_map_to_follow() -> None:
    with pytest.raises(UndefinedMapError, match="no 'a2'"):
        rollout(maps_of("open_clip ViT"), part="a2")


def test_nothing_to_follow_and_unknown_ways_are_refused() -> None:
    layers = maps_of("open_clip ViT")
    with pytest.raises(StudioError, match="no layer to follow"):
        rollout(layers, start=2)
    with pytest.raises(StudioError, match="choose 0 or a later one"):
        rollout(layers, start=-1)
    with pytest.raises(StudioError, match="choose mean, max or min"):
        rollout(layers, heads="median")  # type: ignore[arg-type]
    with pytest.raises(UndefinedMapError, match="choose weights, a1 or a2"):
        rollout(layers, part="subtracted")  # type: ignore[arg-type]
