"""Numbers about attention rows, from floats: what stands under a map, and the control that must stand beside it.

Unless it says otherwise, a function takes weights (..., Nk), one row a query, and gives one number a row (...,).
Undefined numbers are NaN, never 0: a row without any mass has no entropy.

Rows of A1 - lambda A2 hold negative entries, and each function says what it makes of them. A "magnitude" is |w|, and
"mass" is the sum of magnitudes: the norm behind a differential head makes the scale of a row irrelevant, so rows are
compared after division by their mass and not by their sum, 1 - lambda, which may be small or negative. Entropies refuse
negative weights, for the positive part and the magnitudes are both sensible and not the same. Numbers against a mask of
the picture are in `models.localisation`, numbers about heads in `models.heads`.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from models.errors import StudioError

# A key is a sink if it receives more than this many times what each would if all received alike.
SINK_TIMES_UNIFORM = 3.0


def row_sum(weights: Tensor) -> Tensor:
    """Sum of each row: 1 for a normalised map, 1 - lambda for a difference."""
    return weights.sum(-1)


def negative_mass(weights: Tensor) -> Tensor:
    """Share of a row's absolute mass that is negative, sum of |w| over w < 0 by the sum of |w|; 0 to 1."""
    return weights.clamp(max=0).abs().sum(-1) / weights.abs().sum(-1)


def positive_part(weights: Tensor) -> Tensor:
    """The row with its negative entries set to zero (..., Nk)."""
    return weights.clamp(min=0)


def by_mass(weights: Tensor) -> Tensor:
    """The row divided by its mass (..., Nk), signs kept; the norm of a differential head does so anyway."""
    return weights / weights.abs().sum(-1, keepdim=True)


def entropy_nats(weights: Tensor) -> Tensor:
    """Entropy of a non-negative row after division by its sum, -sum(p ln p) with 0 ln 0 = 0: 0 to ln Nk.

    The entropy of a mean over heads is at least the mean of the heads' entropies, so say which one it is.

    Raises:
        StudioError: a negative entry, for which entropy is undefined; take the positive part or absolute values.
    """
    if bool((weights < 0).any()):
        raise StudioError("Entropy is undefined for negative weights: take positive_part(weights) or weights.abs().")
    share = weights / weights.sum(-1, keepdim=True)
    # No minus: of a single key it would make -0.
    return 0 - torch.xlogy(share, share).sum(-1)


def entropy(weights: Tensor) -> Tensor:
    """Normalised entropy, `entropy_nats` by ln Nk: 0 one key, 1 uniform; comparable between grids; NaN for one key.

    Raises:
        StudioError: a negative entry.
    """
    return entropy_nats(weights) / math.log(weights.shape[-1])


def effective_support(weights: Tensor) -> Tensor:
    """exp(entropy): the number of keys of a uniform row that is as spread out; 1 to Nk.

    Raises:
        StudioError: a negative entry.
    """
    return entropy_nats(weights).exp()


def participation_ratio(weights: Tensor) -> Tensor:
    """sum(|w|) ** 2 / sum(w ** 2): 1 for one key, Nk for a uniform row; less moved by a tail than exp(entropy)."""
    return weights.abs().sum(-1).square() / weights.square().sum(-1)


def support(weights: Tensor) -> Tensor:
    """Number of keys whose weight is not exactly zero."""
    return (weights != 0).sum(-1)


def zero_fraction(weights: Tensor) -> Tensor:
    """Share of keys whose weight is exactly zero: 0 for softmax by construction, unless keys are masked."""
    return (weights == 0).to(weights.dtype).mean(-1)


def epsilon_support(weights: Tensor) -> Tensor:
    """Number of keys with more than a tenth of a uniform share of the mass, |w| / sum(|w|) > 1 / (10 Nk).

    What softmax leaves can be compared with the support of a sparse row only in this way. NaN for a row without mass.
    """
    share = by_mass(weights).abs()
    return _where_mass(weights, (share > 1 / (10 * weights.shape[-1])).sum(-1))


def top_mass(weights: Tensor, count: int) -> Tensor:
    """Share of the mass on the `count` keys of the greatest magnitude; with 1 it is that of the strongest key.

    Raises:
        StudioError: a count that is not from 1 to Nk.
    """
    keys = weights.shape[-1]
    if not 1 <= count <= keys:
        raise StudioError(f"The top {count} of {keys} keys do not exist: choose a count from 1 to {keys}.")
    size = weights.abs()
    return size.topk(count, dim=-1).values.sum(-1) / size.sum(-1)


def keys_for_mass(weights: Tensor, share: float = 0.95) -> Tensor:
    """The fewest keys that hold `share` of the mass, to a millionth, greatest magnitudes first; NaN without mass.

    Raises:
        StudioError: a share that is not above 0 and at most 1.
    """
    if not 0 < share <= 1:
        raise StudioError(f"A share of {share} of the mass cannot be held: choose one above 0 and at most 1.")
    falling = by_mass(weights).abs().double().sort(dim=-1, descending=True).values
    # A millionth less than the share, so that 19 of 20 equal keys hold 0.95 in spite of rounding.
    return _where_mass(weights, (falling.cumsum(-1) < share - 1e-6).sum(-1) + 1)


def gini(weights: Tensor) -> Tensor:
    """Gini coefficient of magnitudes, sum((2 i - Nk - 1) m_i) / (Nk sum(m)) with m rising: 0 uniform, to 1 - 1 / Nk."""
    rising = weights.abs().sort(dim=-1).values
    keys = weights.shape[-1]
    rank = torch.arange(1, keys + 1, dtype=rising.dtype, device=rising.device)
    return ((2 * rank - keys - 1) * rising).sum(-1) / (keys * rising.sum(-1))


def hoyer(weights: Tensor) -> Tensor:
    """Hoyer's sparseness (JMLR 2004), (sqrt(Nk) - |w|_1 / |w|_2) / (sqrt(Nk) - 1): 0 uniform, 1 one key."""
    root = math.sqrt(weights.shape[-1])
    ratio = weights.abs().sum(-1) / torch.linalg.vector_norm(weights, dim=-1)
    return (root - ratio) / torch.tensor(root - 1, dtype=ratio.dtype, device=ratio.device)


def prefix_share(weights: Tensor, prefix: int) -> Tensor:
    """Share of a row's absolute mass on the prefix tokens (CLS, registers); with `prefix` 1 it is the CLS share."""
    size = weights.abs()
    return size[..., :prefix].sum(-1) / size.sum(-1)


def self_mass(weights: Tensor) -> Tensor:
    """Share of the mass that each query of a map (..., N, N) gives its own token (..., N); 1 is identity attention.

    Raises:
        StudioError: a map whose queries are not its keys.
    """
    if weights.dim() < 2 or weights.shape[-2] != weights.shape[-1]:
        raise StudioError(f"Self-mass needs a map (..., N, N), not {tuple(weights.shape)}: give all queries and keys.")
    return by_mass(weights).abs().diagonal(dim1=-2, dim2=-1)


def mean_distance(weights: Tensor, distances: Tensor) -> Tensor:
    """Mean distance from query to key, sum(|w| distance) / sum(|w|), in the units of `distances` (Nq, Nk)."""
    return (by_mass(weights).abs() * distances).sum(-1)


def patch_distances(rows: int, cols: int) -> Tensor:
    """Distances between the centres of patches (R * C, R * C), in patch sides; patches row by row."""
    row, col = torch.meshgrid(torch.arange(rows), torch.arange(cols), indexing="ij")
    places = torch.stack([row.flatten(), col.flatten()], dim=-1).float()
    return torch.linalg.vector_norm(places[:, None] - places[None], dim=-1)


def received(weights: Tensor) -> Tensor:
    """What each key of a map (..., Nq, Nk) receives (..., Nk): the mean over queries of its share of a row's mass.

    It sums to 1 over keys; queries without mass are left out. Under a causal mask early keys receive more anyway.
    """
    return by_mass(weights).abs().nanmean(dim=-2)


def sinks(weights: Tensor, times: float = SINK_TIMES_UNIFORM) -> Tensor:
    """True (..., Nk) for the keys of a map (..., Nq, Nk) that receive more than `times` the uniform 1 / Nk."""
    return received(weights) > times / weights.shape[-1]


def sink_share(weights: Tensor, times: float = SINK_TIMES_UNIFORM) -> Tensor:
    """Share of the mass of a map (..., Nq, Nk) that its `sinks` receive (...,); 0 where there is none."""
    given = received(weights)
    return torch.where(given.isnan(), given, given * (given > times / weights.shape[-1])).sum(-1)


def norm_outliers(norms: Tensor, deviations: float = 10.0) -> Tensor:
    """True (..., N) for tokens whose norm is above median + `deviations` times the median absolute deviation.

    Tokens with a norm far above the others hold no local content (Darcet et al., ICLR 2024), and their norm depends on
    the model, so the bound follows the tokens of the picture: of normally distributed norms one in 10 ** 11 is outside.
    """
    middle = norms.quantile(0.5, dim=-1, keepdim=True)
    spread = (norms - middle).abs().quantile(0.5, dim=-1, keepdim=True)
    return norms > middle + deviations * spread


def cosine(first: Tensor, second: Tensor) -> Tensor:
    """Cosine between rows of two maps, as A1 and A2: 1 if they are proportional; NaN for a row of zeros."""
    lengths = torch.linalg.vector_norm(first, dim=-1) * torch.linalg.vector_norm(second, dim=-1)
    return (first * second).sum(-1) / lengths


def cancelled_share(a1: Tensor, subtracted: Tensor) -> Tensor:
    """Share of A1 that lambda A2 cancels, sum(min(A1, lambda A2)) / sum(A1): 0 to 1, 0 if lambda is negative."""
    return torch.minimum(a1, subtracted).clamp(min=0).sum(-1) / a1.sum(-1)


def shuffled_differences(
    a1: Tensor, subtracted: Tensor, prefix: int, count: int = 20, seed: int = 0
) -> Iterator[Tensor]:
    """The control for every number that suggests cleaning: A1 - lambda A2 with A2 shuffled over the patch keys.

    A shuffled A2 knows nothing of the picture; what it "cleans" too is what subtracting any spread-out map does.
    One permutation serves all heads and queries; the prefix keys stay where they are. Yields `count` maps (..., Nk).
    """
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        yield a1 - subtracted[..., patch_order(prefix, a1.shape[-1], generator)]


def patch_order(prefix: int, keys: int, generator: torch.Generator) -> Tensor:
    """An order of the keys (Nk,) in which the patches are permuted and the prefix stays: `a2[..., order]`."""
    return torch.cat([torch.arange(prefix), prefix + torch.randperm(keys - prefix, generator=generator)])


def _where_mass(weights: Tensor, numbers: Tensor) -> Tensor:
    """Counts as floats, NaN for rows whose mass is zero or NaN."""
    return torch.where(weights.abs().sum(-1) > 0, numbers.to(weights.dtype), torch.nan)
