"""Which statistics stand under which panel; the statistics themselves are in `models.statistics`.

Every function takes rows (..., N) in float32, what one token reads or the column of who reads it, with `prefix` tokens
before the patches, and gives one number a row. Mass in the object and AUROC look at patches only, since the prefix
tokens have no place on the picture.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from models import localisation, statistics
from studio.panels import Direction, Kind, part_of

SHUFFLES = 20


@dataclass(frozen=True)
class Objects:
    """Which patches lie on an object and which on the ground; patches in between count as neither.

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


def plain_measures(rows: Tensor, prefix: int, objects: Objects | None) -> dict[str, Tensor]:
    """Of one map without signs: sum, entropy, support, share of the prefix tokens, mass in the object, AUROC.

    All but the sum are of magnitudes, which are the weights themselves unless lambda is negative.
    """
    size = rows.abs()
    found = {
        "sum": statistics.row_sum(rows),
        "entropy": statistics.entropy(size),
        "support": statistics.support(rows).float(),
        "cls": statistics.prefix_share(rows, prefix),
    }
    return found | _object_measures(size, size, prefix, objects)


def difference_measures(rows: Tensor, prefix: int, objects: Objects | None) -> dict[str, Tensor]:
    """Of A1 - lambda A2: the same, of the positive part where signs matter, with the negative mass; AUROC is signed."""
    positive = statistics.positive_part(rows)
    found = {
        "sum": statistics.row_sum(rows),
        "negative": statistics.negative_mass(rows),
        "entropy": statistics.entropy(positive),
        "cls": statistics.prefix_share(rows, prefix),
    }
    return found | _object_measures(positive, rows, prefix, objects)


def pair_measures(first: Tensor, subtracted: Tensor) -> dict[str, Tensor]:
    """Of A1 and lambda A2 together: their cosine, and how much of A1 is cancelled."""
    return {
        "cosine": statistics.cosine(first, subtracted),
        "cancelled": statistics.cancelled_share(first, subtracted),
    }


def panel_measures(
    kind: Kind, first: Tensor, subtracted: Tensor | None, prefix: int, objects: Objects | None
) -> dict[str, Tensor]:
    """The numbers under a panel of a kind that is made of A1 and lambda A2.

    Args:
        kind: "weights", "positive", "negative", "a1" or "subtracted".
        first: rows of A or A1.
        subtracted: rows of lambda A2, or None for a model with one map.
        prefix: tokens before the patches.
        objects: which patches lie on an object, or None where that is not known.
    """
    if subtracted is None or kind == "a1":
        return plain_measures(first, prefix, objects)
    if kind == "subtracted":
        return plain_measures(subtracted, prefix, objects)
    if kind == "weights":
        return difference_measures(first - subtracted, prefix, objects) | pair_measures(first, subtracted)
    return plain_measures(part_of(first - subtracted, kind), prefix, objects)


def control_measures(
    kind: Kind, first: Tensor, shuffled: Tensor, prefix: int, objects: Objects | None
) -> dict[str, Tensor]:
    """The same with A2 shuffled over the patches, the mean over shuffles; without what shuffling cannot change.

    Args:
        kind: "weights", "positive" or "negative".
        first: row of A1 (N,).
        shuffled: rows of lambda A2 (K, N), one a shuffle.
        prefix: tokens before the patches.
        objects: as `panel_measures`.
    """
    found = mean_over_shuffles(panel_measures(kind, first.expand_as(shuffled), shuffled, prefix, objects))
    unchanged = ("sum", "cls") if kind == "weights" else ()
    return {name: value for name, value in found.items() if name not in unchanged}


def mean_over_shuffles(found: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Numbers of rows (K,), one a shuffle, as one number each."""
    return {name: values.mean(0) for name, values in found.items()}


def shuffle_orders(prefix: int, keys: int, count: int = SHUFFLES, seed: int = 0) -> Tensor:
    """`count` orders of the keys (K, Nk) in which the patches are permuted and the prefix stays."""
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([statistics.patch_order(prefix, keys, generator) for _ in range(count)])


def shuffled_rows(subtracted: Tensor, query: int | None, direction: Direction, orders: Tensor, row: Tensor) -> Tensor:
    """What `row` of lambda A2 becomes with A2 shuffled over the patches in each order (K, N).

    The keys are permuted. Who reads a token before the patches would stay as it is, and so be no control: there the
    patches that read it are permuted.

    Args:
        subtracted: the whole map (Nq, Nk).
        query: token index, None for the readout.
        direction: of `row`.
        orders: (K, Nk), in which the tokens before the patches keep their places.
        row: what is looked at of `subtracted`.
    """
    if direction == "reads" or readers_permuted(query, orders):
        return row[orders]
    return subtracted[:, orders[:, query or 0]].T


def readers_permuted(query: int | None, orders: Tensor) -> bool:
    """Whether orders (K, Nk) leave the column of a query as it is, so that its readers have to be permuted."""
    return bool((orders[:, query or 0] == (query or 0)).all())


def shuffled_measures(
    first: Tensor, subtracted: Tensor, prefix: int, objects: Objects | None, count: int = SHUFFLES
) -> dict[str, Tensor]:
    """`difference_measures` of A1 - lambda A2 with A2 shuffled over the patch keys: the mean over fixed shuffles."""
    shuffled = statistics.shuffled_differences(first, subtracted, prefix, count)
    runs = [difference_measures(rows, prefix, objects) for rows in shuffled]
    return {name: torch.stack([run[name] for run in runs]).mean(0) for name in runs[0]}


def _object_measures(mass: Tensor, ranked: Tensor, prefix: int, objects: Objects | None) -> dict[str, Tensor]:
    if objects is None:
        return {}
    return {
        "inside": localisation.mass_inside(mass[..., prefix:], objects.inside),
        "auroc": localisation.auroc(ranked[..., prefix:], objects.inside, objects.outside),
    }
