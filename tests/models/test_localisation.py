"""Numbers against a mask: hand-worked rows, a slow count as the oracle, and what an object's size must not do."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from models.errors import StudioError
from models.geometry import ImageGeometry
from models.layout import TokenGrid
from models.localisation import (
    auroc,
    average_precision,
    lift,
    mass_inside,
    negative_mass_inside,
    patch_coverage,
)


def tied_rows() -> Tensor:
    """Signed rows (6, 30) with many equal weights."""
    return torch.randint(-3, 4, (6, 30), generator=torch.Generator().manual_seed(2)).float() / 4


def masks() -> tuple[Tensor, Tensor]:
    """Nine keys inside, sixteen outside, five neither."""
    order = torch.randperm(30, generator=torch.Generator().manual_seed(3))
    inside, outside = torch.zeros(30, dtype=torch.bool), torch.zeros(30, dtype=torch.bool)
    inside[order[:9]], outside[order[9:25]] = True, True
    return inside, outside


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


def test_auroc_equals_a_count_of_all_pairs() -> None:
    inside, outside = masks()
    for row, found in zip(tied_rows(), auroc(tied_rows(), inside, outside), strict=True):
        pairs = [(a > b) + (a == b) / 2 for a in row[inside].tolist() for b in row[outside].tolist()]
        assert float(found) == pytest.approx(sum(pairs) / len(pairs))


def test_average_precision_equals_a_walk_down_the_thresholds() -> None:
    inside, outside = masks()
    for row, found in zip(tied_rows(), average_precision(tied_rows(), inside, outside), strict=True):
        total, recall = 0.0, 0.0
        for threshold in sorted(set(row[inside | outside].tolist()), reverse=True):
            hits, misses = int((row[inside] >= threshold).sum()), int((row[outside] >= threshold).sum())
            total += (hits / 9 - recall) * hits / (hits + misses)
            recall = hits / 9
        assert float(found) == pytest.approx(total)


def test_average_precision_of_a_hand_worked_row() -> None:
    row = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5])
    inside = torch.tensor([True, False, True, False, False])
    assert float(average_precision(row, inside, ~inside)) == pytest.approx((1 + 2 / 3) / 2)
    assert float(average_precision(-row, inside, ~inside)) == pytest.approx((1 / 3 + 2 / 5) / 2)
    assert float(average_precision(torch.ones(5), inside, ~inside)) == pytest.approx(2 / 5)


@pytest.mark.parametrize("number", [auroc, average_precision])
def test_ranking_depends_on_ranks_alone(number) -> None:
    inside, outside = masks()
    weights = tied_rows()
    wanted = number(weights, inside, outside)
    order = torch.randperm(30, generator=torch.Generator().manual_seed(4))
    assert torch.equal(number(weights[:, order], inside[order], outside[order]), wanted)
    assert torch.equal(number(weights.exp() * 5, inside, outside), wanted)
    assert torch.equal(number(weights.reshape(2, 3, 30), inside, outside), wanted.reshape(2, 3))
    perfect = inside.float() - outside.float()
    assert float(number(perfect, inside, outside)) == 1


@pytest.mark.parametrize("number", [auroc, average_precision])
def test_ranking_is_undefined_without_keys_and_for_rows_with_nan(number) -> None:
    inside, outside = masks()
    nothing = torch.zeros(30, dtype=torch.bool)
    assert bool(number(tied_rows(), nothing, outside).isnan().all())
    assert bool(number(tied_rows(), inside, nothing).isnan().all())
    broken = tied_rows()
    broken[2, 5] = math.nan
    assert number(broken, inside, outside).isnan().tolist() == [False, False, True, False, False, False]


def test_lift_is_one_for_a_uniform_row_whatever_the_size_of_the_object() -> None:
    for size in (1, 7, 20):
        inside = torch.arange(20) < size
        assert float(lift(torch.full((20,), 0.05), inside)) == pytest.approx(1)
    inside = torch.arange(20) < 5
    row = torch.cat([torch.full((5,), 0.1), torch.full((15,), 0.5 / 15)])
    assert float(mass_inside(row, inside)) == pytest.approx(0.5)
    assert float(lift(row, inside)) == pytest.approx(2)
    assert bool(lift(row, torch.zeros(20, dtype=torch.bool)).isnan())
    assert bool(lift(torch.zeros(20), inside).isnan())


def test_negative_mass_lies_where_a2_took_more_than_there_was() -> None:
    row = torch.tensor([0.5, -0.1, -0.2, -0.1])
    assert float(negative_mass_inside(row, torch.tensor([True, True, False, False]))) == pytest.approx(0.25)
    assert bool(negative_mass_inside(row.abs(), torch.tensor([True, True, False, False])).isnan())
    assert bool(negative_mass_inside(row, torch.zeros(4, dtype=torch.bool)).isnan())
