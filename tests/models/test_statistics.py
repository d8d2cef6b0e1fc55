"""Statistics with answers that were worked out by hand, and the control that tells a trick from a finding."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from models.errors import StudioError
from models.localisation import mass_inside
from models.statistics import (
    by_mass,
    cancelled_share,
    cosine,
    effective_support,
    entropy,
    entropy_nats,
    epsilon_support,
    gini,
    hoyer,
    keys_for_mass,
    mean_distance,
    negative_mass,
    norm_outliers,
    participation_ratio,
    patch_distances,
    positive_part,
    prefix_share,
    received,
    row_sum,
    self_mass,
    shuffled_differences,
    sink_share,
    sinks,
    support,
    top_mass,
    zero_fraction,
)

OF_ONE_ROW = {
    "entropy": entropy,
    "entropy_nats": entropy_nats,
    "effective_support": effective_support,
    "participation_ratio": participation_ratio,
    "epsilon_support": epsilon_support,
    "top_mass": lambda weights: top_mass(weights, 3),
    "keys_for_mass": keys_for_mass,
    "gini": gini,
    "hoyer": hoyer,
    "negative_mass": negative_mass,
}


def rows(signed: bool = False) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    weights = (torch.randn(4, 5, 40, generator=generator) * 2).softmax(-1)
    return weights - 0.7 * (torch.randn(4, 5, 40, generator=generator) * 2).softmax(-1) if signed else weights


def test_hand_worked_numbers_of_one_signed_row() -> None:
    row = torch.tensor([0.5, -0.25, 0.0, 0.25])
    assert float(row_sum(row)) == 0.5
    assert float(negative_mass(row)) == 0.25
    assert int(support(row)) == 3
    assert float(prefix_share(row, 1)) == 0.5
    assert positive_part(row).tolist() == [0.5, 0, 0, 0.25]
    assert float(mass_inside(positive_part(row), torch.tensor([False, False, False, True]))) == pytest.approx(1 / 3)


def test_entropy_is_zero_on_one_key_and_one_when_uniform() -> None:
    rows = torch.tensor([[1.0, 0, 0, 0], [0.25, 0.25, 0.25, 0.25], [2.0, 2.0, 0, 0]])
    assert entropy(rows).tolist() == pytest.approx([0.0, 1.0, 0.5])
    assert str(float(entropy(rows)[0])) == "0.0", "a table would say -0"


def test_entropy_of_negative_weights_is_refused() -> None:
    with pytest.raises(StudioError, match="undefined for negative"):
        entropy(torch.tensor([0.5, -0.5]))


def test_shuffling_keeps_the_prefix_row_sums_and_values_and_is_the_same_every_time() -> None:
    a1, subtracted = torch.rand(2, 3, 10).softmax(-1), 0.8 * torch.rand(2, 3, 10).softmax(-1)
    shuffled = list(shuffled_differences(a1, subtracted, prefix=1, count=4))
    again = list(shuffled_differences(a1, subtracted, prefix=1, count=4))
    assert len(shuffled) == 4
    for one, other in zip(shuffled, again, strict=True):
        assert torch.equal(one, other)
        torch.testing.assert_close(one.sum(-1), (a1 - subtracted).sum(-1))
        assert torch.equal(one[..., 0], (a1 - subtracted)[..., 0])
        torch.testing.assert_close((a1 - one).sort(-1).values, subtracted.sort(-1).values)
    assert not torch.equal(shuffled[0], shuffled[1])


def test_a_spread_out_a2_that_knows_nothing_cleans_as_well_as_the_real_one() -> None:
    """The reason for the control: a noisy A1 minus *any* flat map gains in-object mass."""
    inside = torch.zeros(100, dtype=torch.bool)
    inside[:10] = True
    generator = torch.Generator().manual_seed(0)
    a1 = (torch.rand(100, generator=generator) * 0.2 + inside.float()).unsqueeze(0)
    a1 = a1 / a1.sum()
    subtracted = 0.6 * torch.full((1, 100), 0.01)
    before = float(mass_inside(a1, inside))
    after = float(mass_inside(positive_part(a1 - subtracted), inside))
    control = [float(mass_inside(positive_part(x), inside)) for x in shuffled_differences(a1, subtracted, 0)]
    assert after > before + 0.1
    assert np.mean(control) == pytest.approx(after, abs=0.02)


def test_hand_worked_numbers_of_one_spread_out_row() -> None:
    row = torch.tensor([0.5, 0.25, 0.125, 0.125, 0.0])
    nats = 1.75 * math.log(2)
    assert float(entropy_nats(row)) == pytest.approx(nats)
    assert float(entropy(row)) == pytest.approx(nats / math.log(5))
    assert float(effective_support(row)) == pytest.approx(2**1.75)
    assert float(participation_ratio(row)) == pytest.approx(1 / (0.25 + 0.0625 + 2 * 0.015625))
    assert float(zero_fraction(row)) == pytest.approx(0.2)
    assert [float(top_mass(row, k)) for k in (1, 2, 5)] == pytest.approx([0.5, 0.75, 1.0])
    assert [int(keys_for_mass(row, share)) for share in (0.5, 0.51, 0.75, 0.95, 1.0)] == [1, 2, 2, 4, 4]
    # rising: 0, 1/8, 1/8, 1/4, 1/2 with factors -4, -2, 0, 2, 4
    assert float(gini(row)) == pytest.approx((-2 / 8 + 2 / 4 + 4 / 2) / 5)
    assert float(hoyer(row)) == pytest.approx((5**0.5 - 1 / (11 / 32) ** 0.5) / (5**0.5 - 1))


def test_a_key_counts_as_support_above_a_tenth_of_a_uniform_share() -> None:
    row = torch.tensor([0.97, 0.02, 0.0075, 0.0025]) * 3
    assert int(epsilon_support(row)) == 1
    assert int(epsilon_support(torch.tensor([0.9, 0.026, 0.05, 0.024]))) == 3
    assert int(epsilon_support(torch.tensor([0.9, -0.026, -0.05, 0.024]))) == 3


def test_extremes_of_one_key_and_of_uniform_rows() -> None:
    one, uniform = torch.zeros(20), torch.full((20,), 1 / 20)
    one[7] = 1
    assert [float(f(one)) for f in (effective_support, participation_ratio, keys_for_mass, hoyer)] == [1, 1, 1, 1]
    assert float(gini(one)) == pytest.approx(0.95)
    assert float(effective_support(uniform)) == pytest.approx(20)
    assert float(participation_ratio(uniform)) == pytest.approx(20)
    assert int(keys_for_mass(uniform)) == 19
    assert float(gini(uniform)) == pytest.approx(0, abs=1e-6)
    assert float(hoyer(uniform)) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("name", sorted(OF_ONE_ROW))
def test_numbers_of_a_row_do_not_depend_on_the_order_of_keys_or_on_scale(name: str) -> None:
    number = OF_ONE_ROW[name]
    for weights in (rows(), rows(signed=True)):
        if "entropy" in name or name == "effective_support":
            weights = weights.abs()
        order = torch.randperm(40, generator=torch.Generator().manual_seed(1))
        assert number(weights).shape == (4, 5)
        torch.testing.assert_close(number(weights[..., order]), number(weights), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(number(weights * 7), number(weights), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", sorted(OF_ONE_ROW))
def test_a_row_without_mass_has_no_number_and_not_zero(name: str) -> None:
    weights = rows()
    weights[1, 2] = 0
    found = OF_ONE_ROW[name](weights)
    assert bool(found[1, 2].isnan())
    assert int(found.isnan().sum()) == 1


def test_numbers_that_need_two_keys_are_undefined_for_one() -> None:
    assert bool(entropy(torch.ones(3, 1)).isnan().all())
    assert bool(hoyer(torch.ones(3, 1)).isnan().all())


def test_a_count_or_share_that_cannot_be_is_refused() -> None:
    for count in (0, 41):
        with pytest.raises(StudioError, match="from 1 to 40"):
            top_mass(rows(), count)
    for share in (0.0, 1.1, math.nan):
        with pytest.raises(StudioError, match="at most 1"):
            keys_for_mass(rows(), share)


def test_spread_is_ordered_alike_by_every_measure() -> None:
    sharper = torch.stack([(rows().log() * power).softmax(-1) for power in (0.5, 1.0, 2.0)])
    for falling in (entropy, effective_support, participation_ratio, keys_for_mass):
        means = falling(sharper).flatten(1).mean(1)
        assert means[0] > means[1] > means[2]
    for rising in (gini, hoyer, lambda weights: top_mass(weights, 1)):
        means = rising(sharper).flatten(1).mean(1)
        assert means[0] < means[1] < means[2]


def test_division_by_mass_keeps_signs_and_does_not_blow_up_where_the_sum_is_near_zero() -> None:
    row = torch.tensor([0.5, -0.25, -0.25])
    assert by_mass(row).tolist() == [0.5, -0.25, -0.25]
    assert float(by_mass(rows(signed=True)).abs().sum(-1).sub(1).abs().max()) < 1e-6


def test_self_mass_is_the_share_of_the_diagonal() -> None:
    weights = torch.tensor([[[0.6, 0.2, 0.2], [1.0, 1.0, 2.0], [0.0, -0.5, 0.5]]])
    assert self_mass(weights)[0].tolist() == pytest.approx([0.6, 0.25, 0.5])
    assert self_mass(torch.eye(4)).tolist() == [1, 1, 1, 1]
    with pytest.raises(StudioError, match="all queries and keys"):
        self_mass(rows())


def test_mean_distance_on_a_grid_is_in_patch_sides() -> None:
    distances = patch_distances(2, 3)
    assert distances.shape == (6, 6)
    assert float(distances[0, 5]) == pytest.approx(5**0.5)
    assert torch.equal(distances, distances.T)
    weights = torch.zeros(6, 6)
    weights[:, 0] = 3
    weights[:, 2] = 1
    assert float(mean_distance(weights, distances)[0]) == pytest.approx(0.5)
    assert float(mean_distance(weights, distances)[3]) == pytest.approx((3 * 1 + 5**0.5) / 4)
    assert mean_distance(torch.eye(6), distances).tolist() == [0] * 6


def test_a_sink_receives_more_than_three_times_the_uniform_share() -> None:
    weights = torch.full((2, 10, 10), 0.6 / 9)
    weights[0, :, 4] = 0.4
    weights[1] = 0.1
    assert received(weights)[0].sum() == pytest.approx(1)
    assert sinks(weights)[0].nonzero().flatten().tolist() == [4]
    assert sink_share(weights).tolist() == pytest.approx([0.4, 0.0])
    assert sink_share(weights, times=5).tolist() == [0, 0]
    weights[0, 3] = 0
    assert float(sink_share(weights)[0]) == pytest.approx(0.4)
    assert bool(sink_share(torch.zeros(10, 10)).isnan())


def test_tokens_far_above_the_median_norm_are_outliers_whatever_the_unit() -> None:
    norms = 10 + torch.randn(3, 200, generator=torch.Generator().manual_seed(0))
    assert int(norm_outliers(norms).sum()) == 0
    norms[1, 50] = 40
    for scale in (1, 150):
        assert norm_outliers(norms * scale).nonzero().tolist() == [[1, 50]]


def test_cosine_of_two_maps_is_one_for_proportional_rows_and_undefined_for_empty_ones() -> None:
    first, second = rows(), rows(signed=True)
    torch.testing.assert_close(cosine(first, 3 * first), torch.ones(4, 5))
    assert float(cosine(torch.tensor([1.0, 0, 0]), torch.tensor([1.0, 1.0, 0]))) == pytest.approx(0.5**0.5)
    torch.testing.assert_close(cosine(first, second), torch.nn.functional.cosine_similarity(first, second, dim=-1))
    assert bool(cosine(torch.zeros(3), torch.ones(3)).isnan())


def test_cancelled_share_is_what_lambda_a2_takes_from_a1() -> None:
    a1, a2 = torch.tensor([0.5, 0.3, 0.2, 0.0]), torch.tensor([0.0, 0.5, 0.25, 0.25])
    assert float(cancelled_share(a1, 0.8 * a2)) == pytest.approx(0.3 + 0.2)
    assert float(cancelled_share(a1, 0.4 * a2)) == pytest.approx(0.2 + 0.1)
    assert float(cancelled_share(a1, a1)) == 1
    assert float(cancelled_share(a1, -0.2 * a2)) == 0
    # what is left of A1 is the positive part of the difference
    left = positive_part(a1 - 0.8 * a2).sum() / a1.sum()
    assert float(cancelled_share(a1, 0.8 * a2) + left) == pytest.approx(1)
