"""Which statistics stand under which map; the statistics themselves are in `models.statistics`.

Maps are (H, Nq, Nk) and every statistic is (H, Nq) in float32. Mass in the object and AUROC look at patch keys only,
since the prefix tokens have no place on the picture.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from models import localisation, statistics

SHUFFLES = 20


@dataclass(frozen=True)
class Objects:
    """Which patch keys lie on an object and which on the ground; patches in between count as neither.

    Attributes:
        inside: True (R * C) where at least half of the patch is object.
        outside: True (R * C) where at most a tenth is.
    """

    inside: Tensor
    outside: Tensor


def objects_of(coverage: np.ndarray) -> Objects:
    """The object and ground patches for each patch's share of object (R, C)."""
    flat = torch.from_numpy(coverage.reshape(-1))
    return Objects(flat >= localisation.OBJECT_COVERAGE, flat < localisation.GROUND_COVERAGE)


def plain_measures(maps: Tensor, prefix: int, objects: Objects | None) -> dict[str, Tensor]:
    """Of A, A1 or lambda A2: sum, entropy, support, share of the prefix tokens, mass in the object, AUROC.

    All but the sum are of magnitudes, which are the weights themselves unless lambda is negative.
    """
    size = maps.abs()
    found = {
        "sum": statistics.row_sum(maps),
        "entropy": statistics.entropy(size),
        "support": statistics.support(maps).float(),
        "cls": statistics.prefix_share(maps, prefix),
    }
    return found | _object_measures(size, size, prefix, objects)


def difference_measures(maps: Tensor, prefix: int, objects: Objects | None) -> dict[str, Tensor]:
    """Of A1 - lambda A2: the same, of the positive part where signs matter, with the negative mass; AUROC is signed."""
    positive = statistics.positive_part(maps)
    found = {
        "sum": statistics.row_sum(maps),
        "negative": statistics.negative_mass(maps),
        "entropy": statistics.entropy(positive),
        "cls": statistics.prefix_share(maps, prefix),
    }
    return found | _object_measures(positive, maps, prefix, objects)


def shuffled_measures(
    first: Tensor, subtracted: Tensor, prefix: int, objects: Objects | None, count: int = SHUFFLES
) -> dict[str, Tensor]:
    """The same of A1 - lambda A2 with A2 shuffled over the patch keys: the mean over `count` fixed shuffles."""
    shuffled = statistics.shuffled_differences(first, subtracted, prefix, count)
    runs = [difference_measures(maps, prefix, objects) for maps in shuffled]
    return {name: torch.stack([run[name] for run in runs]).mean(0) for name in runs[0]}


def _object_measures(mass: Tensor, ranked: Tensor, prefix: int, objects: Objects | None) -> dict[str, Tensor]:
    if objects is None:
        return {}
    return {
        "inside": localisation.mass_inside(mass[..., prefix:], objects.inside),
        "auroc": localisation.auroc(ranked[..., prefix:], objects.inside, objects.outside),
    }
