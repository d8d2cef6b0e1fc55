"""The normaliser against the entmax package, bisection in float64, and its limits."""

import entmax
import pytest
import torch

from models import Normalizer, StudioError


def scores(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return (torch.randn(4, 3, 50, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 3).to(dtype)


def bisected(row: torch.Tensor, alpha: float) -> torch.Tensor:
    """alpha-entmax by 200 halvings of the interval that holds tau, in float64."""
    z = row.double() * (alpha - 1)
    low, high = z.amax(-1, keepdim=True) - 1, z.amax(-1, keepdim=True)
    for _ in range(200):
        middle = (low + high) / 2
        total = (z - middle).clamp(min=0).pow(1 / (alpha - 1)).sum(-1, keepdim=True)
        low, high = torch.where(total > 1, middle, low), torch.where(total > 1, high, middle)
    return (z - low).clamp(min=0).pow(1 / (alpha - 1))


@pytest.mark.parametrize("alpha", [1.01, 1.1, 1.25, 1.5, 1.75, 2.0])
def test_weights_equal_bisection_in_float64(alpha: float) -> None:
    torch.testing.assert_close(Normalizer(alpha)(scores()), bisected(scores(), alpha), rtol=1e-8, atol=1e-10)


def test_one_half_and_two_equal_the_entmax_package() -> None:
    torch.testing.assert_close(Normalizer(1.5)(scores()), entmax.entmax15(scores(), dim=-1), rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(Normalizer(2.0)(scores()), entmax.sparsemax(scores(), dim=-1), rtol=1e-8, atol=1e-10)


def test_alpha_just_above_one_approaches_softmax() -> None:
    soft = Normalizer(1.0)(scores())
    gaps = [float((Normalizer(alpha)(scores()) - soft).abs().max()) for alpha in (1.1, 1.01, 1.001)]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 2e-3
    assert not torch.isnan(Normalizer(1.0001)(scores())).any()


@pytest.mark.parametrize("alpha", [1.05, 1.2, 1.5, 2.0])
def test_gradient_equals_finite_differences(alpha: float) -> None:
    x = (torch.randn(3, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(4))).requires_grad_()
    assert torch.autograd.gradcheck(Normalizer(alpha), (x,), eps=1e-7, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("alpha", [1.0, 1.05, 1.5, 2.0])
def test_half_precision_scores_are_normalised_in_float32(dtype: torch.dtype, alpha: float) -> None:
    weights = Normalizer(alpha)(scores(dtype))
    assert weights.dtype == torch.float32
    torch.testing.assert_close(weights.sum(-1), torch.ones(4, 3), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("alpha", [1.0, 1.1, 1.5, 2.0])
def test_masked_keys_get_exactly_zero_and_a_row_without_keys_is_all_zero(alpha: float) -> None:
    masked = scores(torch.float32)
    masked[..., 10:] = float("-inf")
    masked[0, 0] = float("-inf")
    masked[1, 1, 1:] = float("-inf")
    masked.requires_grad_()
    weights = Normalizer(alpha)(masked)
    assert bool((weights[..., 10:] == 0).all())
    assert bool((weights[0, 0] == 0).all())
    assert float(weights[1, 1, 0]) == 1.0
    (weights * torch.arange(50.0)).sum().backward()
    assert masked.grad is not None
    assert not torch.isnan(masked.grad).any()


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
def test_equal_scores_give_uniform_weights(alpha: float) -> None:
    torch.testing.assert_close(Normalizer(alpha)(torch.full((2, 8), 3.0)), torch.full((2, 8), 0.125))


def test_support_shrinks_as_alpha_grows() -> None:
    sizes = [int((Normalizer(alpha)(scores()) > 0).sum()) for alpha in (1.0, 1.25, 1.5, 2.0)]
    assert sizes[0] == 600
    assert sizes[0] > sizes[1] > sizes[2] > sizes[3]


@pytest.mark.parametrize("alpha", [0.5, 2.5, float("nan")])
def test_alpha_outside_its_range_is_refused(alpha: float) -> None:
    with pytest.raises(StudioError, match="1 is softmax"):
        Normalizer(alpha)
