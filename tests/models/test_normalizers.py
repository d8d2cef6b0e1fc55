"""The normaliser against the entmax package, bisection in float64, and its limits."""

import entmax
import pytest
import torch

from models import Normalizer, StudioError
from models.normalizers import LOWEST_LEARNABLE_ALPHA, bounded_alpha
from models.normalizers import entmax as alpha_entmax

EVERY_ALPHA = [1.0, 1.0001, 1.05, 1.5, 1.9, 2.0]


def scores(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return (torch.randn(4, 3, 50, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 3).to(dtype)


def bisected(row: torch.Tensor, alpha: float) -> torch.Tensor:
    """alpha-entmax by 64 halvings of the interval that holds tau, in float64."""
    z = row.double() * (alpha - 1)
    low, high = z.amax(-1, keepdim=True) - 1, z.amax(-1, keepdim=True)
    for _ in range(64):
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


@pytest.mark.parametrize("alpha", EVERY_ALPHA)
def test_masked_keys_get_exactly_zero_and_a_row_without_keys_is_all_zero(alpha: float) -> None:
    masked = scores(torch.float32)
    masked[..., 10:] = float("-inf")
    masked[0, 0] = float("-inf")
    masked[1, 1, 1:] = float("-inf")
    masked.requires_grad_()
    weights = Normalizer(alpha)(masked)
    assert bool((weights[..., 10:] == 0).all())
    assert bool((weights[0, 0] == 0).all())
    assert float(weights[1, 1, 0].detach()) == 1.0
    (weights * torch.arange(50.0)).sum().backward()
    assert masked.grad is not None
    assert not torch.isnan(masked.grad).any()


@pytest.mark.parametrize("alpha", EVERY_ALPHA)
def test_equal_scores_give_uniform_weights(alpha: float) -> None:
    torch.testing.assert_close(Normalizer(alpha)(torch.full((2, 8), 3.0)), torch.full((2, 8), 0.125))


def test_support_shrinks_as_alpha_grows() -> None:
    sizes = [int((Normalizer(alpha)(scores()) > 0).sum()) for alpha in (1.0, 1.25, 1.5, 2.0)]
    assert sizes[0] == 600
    assert sizes[0] > sizes[1] > sizes[2] > sizes[3]


@pytest.mark.parametrize("alpha", [0.5, 2.5, 3.0, float("nan")])
def test_alpha_outside_its_range_is_refused_as_a_number_and_in_a_tensor(alpha: float) -> None:
    with pytest.raises(StudioError, match="1 is softmax"):
        Normalizer(alpha)
    with pytest.raises(StudioError, match="1 is softmax"):
        Normalizer(torch.tensor([1.5, alpha]))


def test_alpha_that_is_no_number_is_refused() -> None:
    for wrong in ("1.5", None, torch.zeros(0)):
        with pytest.raises(StudioError, match="is not a number"):
            Normalizer(wrong)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("spread", [0.1, 1.0, 4.0, 16.0])
@pytest.mark.parametrize("alpha", [1.001, 1.05, 1.25, 1.5, 1.9, 2.0])
def test_float32_weights_are_within_a_millionth_of_float64(alpha: float, spread: float) -> None:
    """Wide and narrow rows together, so that some finish at other steps than most."""
    rows = torch.randn(150, 197, generator=torch.Generator().manual_seed(2)) * spread
    rows[::3] *= 0.1
    oracle = bisected(rows, alpha)
    assert float((Normalizer(alpha)(rows).double() - oracle / oracle.sum(-1, keepdim=True)).abs().max()) < 1e-6


@pytest.mark.parametrize("offset", [-31.3, 0.7, 31.3, 1000.7, 1e6])
@pytest.mark.parametrize("alpha", [1.2, 1.5, 2.0])
def test_rows_far_from_zero_and_rows_at_the_edge_of_one_key_are_as_exact(alpha: float, offset: float) -> None:
    """At the edge, 1 / (alpha - 1) below the maximum, a key has just no weight, and t must not start too far."""
    edge = -1 / (alpha - 1) + torch.linspace(-1e-5, 1e-5, 40).reshape(40, 1).expand(40, 50)
    near = torch.cat([torch.zeros(40, 1), edge], dim=1)
    rows = torch.cat([near, torch.randn(40, 51, generator=torch.Generator().manual_seed(2)) * 2]) + offset
    oracle = bisected(rows, alpha)
    assert float((Normalizer(alpha)(rows).double() - oracle / oracle.sum(-1, keepdim=True)).abs().max()) < 1e-6


@pytest.mark.parametrize("alpha", [1.0, 1.3, 1.5, 2.0])
def test_more_rows_than_are_solved_at_a_time_equal_the_same_rows_apart(alpha: float) -> None:
    rows = torch.randn(3, 2000, 197, generator=torch.Generator().manual_seed(2)) * 2
    assert rows.numel() > 2 * 2**19
    apart = torch.stack([Normalizer(alpha)(part) for part in rows])
    torch.testing.assert_close(Normalizer(alpha)(rows), apart, rtol=0, atol=1e-6)
    torch.testing.assert_close(Normalizer(torch.full((3, 1, 1), alpha))(rows), apart, rtol=0, atol=1e-6)


@pytest.mark.parametrize("alpha", [1.2, 1.5, 2.0])
def test_a_shift_of_all_scores_changes_nothing_even_if_it_is_large(alpha: float) -> None:
    whole = torch.randint(-8, 8, (50, 30), generator=torch.Generator().manual_seed(3)).float()
    assert torch.equal(Normalizer(alpha)(whole), Normalizer(alpha)(whole + 2.0**20))
    assert torch.equal(Normalizer(alpha)(whole * 2.0**90).sum(-1), torch.ones(50))


@pytest.mark.parametrize("alpha", [1.1, 1.5, 2.0])
def test_rows_that_newton_finds_hard_are_solved(alpha: float) -> None:
    """Sums that lose one key a step: geometric and harmonic falls, one key above a plateau, many keys."""
    index = torch.arange(1, 401, dtype=torch.float64)
    rows = torch.stack([-(1.05**index), -1 / index, 0.999**index, -index / 400, (index == 7) * 0.5, -(index**0.5)])
    oracle = bisected(rows, alpha)
    torch.testing.assert_close(Normalizer(alpha)(rows), oracle, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(Normalizer(alpha)(rows.float()).double(), oracle, rtol=0, atol=1e-6)


@pytest.mark.parametrize("alpha", EVERY_ALPHA)
@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_a_row_with_nan_or_infinity_is_all_nan_and_the_others_are_not_touched(alpha: float, poison: float) -> None:
    rows = scores(torch.float32)
    clean = Normalizer(alpha)(rows)
    rows[2, 1, 7] = poison
    weights = Normalizer(alpha)(rows)
    assert bool(weights[2, 1].isnan().all())
    torch.testing.assert_close(weights[:2], clean[:2], rtol=0, atol=1e-6)


@pytest.mark.parametrize("alpha", [1.0, 1.5])
def test_scores_without_rows_or_keys_give_weights_without_any(alpha: float) -> None:
    assert Normalizer(alpha)(torch.zeros(2, 0, 5)).shape == (2, 0, 5)
    assert Normalizer(alpha)(torch.zeros(2, 5, 0)).shape == (2, 5, 0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("alpha", [1.0, 1.05, 1.5, 2.0])
def test_half_precision_loses_what_the_scores_lose_and_no_more(dtype: torch.dtype, alpha: float) -> None:
    """Equal to float32 on the same rounded scores; computed in bfloat16 rows would miss 1 by a hundredth."""
    half = (torch.randn(64, 197, generator=torch.Generator().manual_seed(5)) * 4).to(dtype).requires_grad_()
    weights = Normalizer(alpha)(half)
    assert torch.equal(weights, Normalizer(alpha)(half.float()))
    (weights**2).sum().backward()
    assert half.grad is not None
    assert half.grad.dtype == dtype


def test_an_alpha_a_head_equals_each_head_alone_with_softmax_among_them() -> None:
    x = scores(torch.float32).transpose(0, 1)
    alpha = torch.tensor([1.0, 1.0005, 1.5, 2.0])
    together = Normalizer(alpha.reshape(4, 1))(x)
    for head, value in enumerate(alpha.tolist()):
        torch.testing.assert_close(together[:, head], Normalizer(value)(x[:, head]), rtol=1e-5, atol=1e-6)
    blocked = x.clone()
    blocked[0] = float("-inf")
    assert bool((Normalizer(alpha.reshape(4, 1))(blocked)[0] == 0).all())
    torch.testing.assert_close(Normalizer(torch.tensor(1.5))(x), Normalizer(1.5)(x), rtol=0, atol=0)


def test_gradients_with_an_alpha_a_head_equal_finite_differences_and_those_of_each_head() -> None:
    x = torch.randn(2, 3, 4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(6)).requires_grad_()
    alpha = torch.tensor([1.2, 1.5, 1.8], dtype=torch.float64).reshape(3, 1, 1).requires_grad_()
    assert torch.autograd.gradcheck(alpha_entmax, (x, alpha), eps=1e-7, atol=1e-5)
    mixed = torch.tensor([1.0, 1.5, 2.0], dtype=torch.float64).reshape(3, 1, 1)
    assert torch.autograd.gradcheck(Normalizer(mixed), (x,), eps=1e-7, atol=1e-5)


@pytest.mark.parametrize("alpha", [1.001, 1.01, 1.1, 1.5, 1.9])
def test_the_gradient_with_respect_to_alpha_equals_finite_differences(alpha: float) -> None:
    x = torch.randn(5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(7)) * 2
    pull = torch.randn(5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(8))
    step = 1e-5
    wanted = (pull * (alpha_entmax(x, alpha + step) - alpha_entmax(x, alpha - step))).sum() / (2 * step)
    for dtype, tolerance in ((torch.float64, 1e-6), (torch.float32, 2e-4)):
        learned = torch.tensor(alpha, dtype=torch.float64, requires_grad=True)
        (pull.to(dtype) * alpha_entmax(x.to(dtype), learned)).sum().backward()
        assert learned.grad is not None
        assert float(learned.grad) == pytest.approx(float(wanted), rel=tolerance)


def test_the_gradient_with_respect_to_alpha_equals_the_entmax_package() -> None:
    x = scores()[0]
    ours = torch.tensor([[1.3], [1.5], [1.7]], dtype=torch.float64, requires_grad=True)
    theirs = ours.detach().clone().requires_grad_()
    pull = torch.randn(3, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(9))
    (pull * alpha_entmax(x, ours)).sum().backward()
    (pull * entmax.entmax_bisect(x, theirs, dim=-1, n_iter=100)).sum().backward()
    assert ours.grad is not None
    assert theirs.grad is not None
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-6, atol=1e-9)


def test_gradients_equal_the_entmax_package_at_one_half_and_two() -> None:
    for alpha, reference in ((1.5, entmax.entmax15), (2.0, entmax.sparsemax)):
        ours, theirs = scores().requires_grad_(), scores().requires_grad_()
        pull = scores().flip(-1)
        (pull * Normalizer(alpha)(ours)).sum().backward()
        (pull * reference(theirs, dim=-1)).sum().backward()
        assert ours.grad is not None
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-6, atol=1e-9)


def test_softmax_has_no_alpha_to_learn() -> None:
    learned = torch.tensor([1.5, 1.0], requires_grad=True)
    with pytest.raises(StudioError, match="cannot be learned"):
        alpha_entmax(scores()[0, :2], learned.unsqueeze(-1))
    assert alpha_entmax(scores()[0, :2], learned.detach().unsqueeze(-1)).shape == (2, 50)


def test_an_alpha_that_does_not_fit_the_rows_is_refused() -> None:
    for shape in ((3,), (50,), (1, 4, 3, 1), (2, 1, 1)):
        with pytest.raises(StudioError, match="one number a row"):
            Normalizer(torch.full(shape, 1.5))(scores())


def test_alpha_stays_in_its_range_while_a_loss_pushes_it_down() -> None:
    """A loss that rewards spread-out rows pushes alpha to softmax; without a bound it would drift below 1."""
    free = torch.zeros(3, 1, requires_grad=True)
    optimizer = torch.optim.Adam([free], lr=0.3)
    x = scores(torch.float32)
    for _ in range(200):
        optimizer.zero_grad()
        weights = Normalizer(bounded_alpha(free).unsqueeze(0))(x)
        (weights**2).sum().backward()
        assert free.grad is not None
        assert bool(free.grad.isfinite().all())
        optimizer.step()
    found = bounded_alpha(free).detach()
    assert bool((found < 1.01).all())
    assert bool((found >= LOWEST_LEARNABLE_ALPHA).all())
    assert float(bounded_alpha(torch.tensor(1e4))) == 2.0


def test_normalizers_of_one_number_are_equal_and_hash_alike_and_those_of_tensors_are_themselves() -> None:
    assert Normalizer(1.5) == Normalizer(1.5)
    assert len({Normalizer(1.5), Normalizer(1.5), Normalizer(2), Normalizer(2.0), Normalizer()}) == 3
    alpha = torch.tensor([1.5, 2.0])
    assert Normalizer(alpha) == Normalizer(alpha)
    assert Normalizer(alpha) != Normalizer(alpha.clone())
    assert Normalizer(alpha) != Normalizer(1.5)
