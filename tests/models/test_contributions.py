"""Value-weighted maps: contributions add up to the output, and their norms are the map."""

import pytest
import torch
from families import FAMILIES, family_of
from torch import nn

from models import attention_maps, record
from models.contributions import key_contributions, value_weighted
from models.errors import StudioError, UndefinedMapError
from models.head_outputs import head_outputs
from models.projections import Projections, mix, reconstruct
from models.projectors import project


def layers_of(name: str) -> list[tuple[nn.Module, Projections]]:
    family = family_of(name)
    with record(family.tower) as recording:
        family.run()
    return list(zip(family.tower.attention, recording, strict=True))


def before_mlp(module: nn.Module, projections: Projections, weights: torch.Tensor) -> torch.Tensor:
    """The module's output; of a pooling head with an MLP, what enters it."""
    if getattr(module, "mlp", None) is None:
        return reconstruct(projections, weights)
    return module.proj(mix(projections, weights).transpose(1, 2).flatten(2))  # type: ignore[operator]


@pytest.mark.parametrize("name", FAMILIES)
def test_contributions_over_heads_and_keys_and_the_bias_sum_to_the_output(name: str) -> None:
    for module, projections in layers_of(name):
        weights = attention_maps(projections).weights
        output = before_mlp(module, projections, weights)
        for query in (0, weights.shape[-2] - 1):
            parts, bias = key_contributions(projections, weights, query)
            assert bias is not None
            total = parts.sum((1, 2)) + bias
            torch.testing.assert_close(total, output[:, query], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_map_is_the_norm_of_every_contribution(name: str) -> None:
    for _, projections in layers_of(name):
        weights = attention_maps(projections).weights
        sizes = value_weighted(projections, weights)
        assert sizes.shape == weights.shape
        assert bool((sizes >= 0).all())
        for query in (0, weights.shape[-2] - 1):
            parts, _ = key_contributions(projections, weights, query)
            torch.testing.assert_close(sizes[:, :, query], parts.norm(dim=-1), rtol=1e-4, atol=1e-6)


def test_a_key_whose_value_is_zero_contributes_nothing_whatever_its_weight() -> None:
    module = nn.MultiheadAttention(8, 2, batch_first=True).requires_grad_(False)
    projections = project(module, torch.randn(1, 5, 8))
    projections.v[:, :, 3] = 0
    sizes = value_weighted(projections, attention_maps(projections).weights)
    assert torch.equal(sizes[..., 3], torch.zeros_like(sizes[..., 3]))
    assert bool((sizes[..., :3] > 0).all())


def test_a_positive_factor_on_a_differential_row_changes_nothing_behind_its_norm() -> None:
    _, projections = layers_of("ours")[0]
    weights = attention_maps(projections).weights
    torch.testing.assert_close(
        value_weighted(projections, weights), value_weighted(projections, 7.3 * weights), rtol=2e-3, atol=1e-5
    )


def test_a_query_that_does_not_exist_is_refused() -> None:
    _, projections = layers_of("timm SigLIP")[-1]
    weights = attention_maps(projections).weights
    for query in (-1, 1):
        with pytest.raises(StudioError, match="choose 0-0"):
            key_contributions(projections, weights, query)


def test_a_norm_that_is_not_known_is_refused_by_name() -> None:
    with pytest.raises(UndefinedMapError, match="behind a GroupNorm"):
        head_outputs(torch.randn(1, 2, 3, 4), nn.Linear(8, 8), joint_norm=nn.GroupNorm(2, 8))


@pytest.mark.parametrize(
    "norm",
    [nn.LayerNorm(8), nn.LayerNorm(8, elementwise_affine=False), nn.RMSNorm(8), nn.RMSNorm(8, eps=1e-3)],
    ids=["LayerNorm", "plain LayerNorm", "RMSNorm without eps", "RMSNorm"],
)
@pytest.mark.parametrize("bias", [True, False])
def test_every_known_norm_is_folded_exactly(norm: nn.Module, bias: bool) -> None:
    torch.manual_seed(0)
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    linear, mixed = nn.Linear(8, 6, bias=bias), torch.randn(2, 2, 5, 4)
    outputs = head_outputs(mixed, linear, joint_norm=norm)
    total = (mixed * outputs.row_scale @ outputs.weight).sum(1)
    total = total if outputs.bias is None else total + outputs.bias
    torch.testing.assert_close(total, linear(norm(mixed.transpose(1, 2).flatten(2))))
