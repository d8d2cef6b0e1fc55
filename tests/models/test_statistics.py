"""Statistics with answers that were worked out by hand, and the control that tells a trick from a finding."""

import numpy as np
import pytest
import torch

from models.errors import StudioError
from models.geometry import ImageGeometry
from models.layout import TokenGrid
from models.statistics import (
    auroc,
    entropy,
    mass_inside,
    negative_mass,
    patch_coverage,
    positive_part,
    prefix_share,
    row_sum,
    shuffled_differences,
    support,
)


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


def test_entropy_of_negative_weights_is_refused() -> None:
    with pytest.raises(StudioError, match="undefined for negative"):
        entropy(torch.tensor([0.5, -0.5]))


def test_auroc_counts_pairs_and_ties_half() -> None:
    row = torch.tensor([0.9, 0.1, 0.5, 0.5, -1.0])
    inside = torch.tensor([True, False, True, False, False])
    # pairs: 0.9 beats all three; 0.5 beats 0.1 and -1.0, ties with 0.5
    assert float(auroc(row, inside, ~inside)) == pytest.approx((3 + 2.5) / 6)
    assert float(auroc(-row, inside, ~inside)) == pytest.approx(1 - 5.5 / 6)


def test_auroc_is_undefined_without_an_object_or_without_ground() -> None:
    row, nothing = torch.rand(2, 4), torch.zeros(4, dtype=torch.bool)
    assert bool(torch.isnan(auroc(row, nothing, ~nothing)).all())
    assert bool(torch.isnan(auroc(row, ~nothing, nothing)).all())


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


def test_coverage_is_the_share_of_each_patch_that_the_mask_covers() -> None:
    mask = np.zeros((40, 40), np.uint8)
    mask[0:10, 0:20] = 1
    mask[20:25, 30:40] = 2
    coverage = patch_coverage(mask, ImageGeometry((40, 40), (40, 40), (0, 0), (40, 40)), TokenGrid(1, 4, 4))
    wanted = np.zeros((4, 4))
    wanted[0, :2] = 1
    wanted[2, 3] = 0.5
    assert np.allclose(coverage, wanted, atol=0.04)


def test_coverage_follows_the_crop() -> None:
    mask = np.zeros((20, 60), bool)
    mask[:, :20] = True
    cropped = ImageGeometry((20, 60), (20, 60), (0, 20), (20, 20))
    squashed = ImageGeometry((20, 60), (20, 20), (0, 0), (20, 20))
    assert patch_coverage(mask, cropped, TokenGrid(1, 2, 2)).sum() == 0
    assert patch_coverage(mask, squashed, TokenGrid(1, 3, 3))[:, 0].tolist() == [1, 1, 1]
    with pytest.raises(StudioError, match="must agree"):
        patch_coverage(mask.T, cropped, TokenGrid(1, 2, 2))


def test_mass_is_undefined_where_there_is_no_object() -> None:
    nothing = torch.zeros(4, dtype=torch.bool)
    assert bool(torch.isnan(mass_inside(torch.rand(3, 4), nothing)).all())
