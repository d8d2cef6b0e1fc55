"""What the overview can show: every statistic of rows, of rows against a mask, and of heads, with its meaning."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from models import localisation, statistics
from models.diff_attention import widen
from models.errors import UndefinedMapError
from models.heads import head_redundancy
from models.projections import Projections, mix
from studio.measures import Objects

Find = Callable[["Rows"], Tensor]


@dataclass(frozen=True)
class Rows:
    """Rows of one layer: (S, Q, N), the mean over heads and each head, for one query or for all.

    Attributes:
        weights: A or A1 - lambda A2.
        first: A or A1.
        subtracted: lambda A2, or None.
        prefix: tokens before the patches.
        objects: which patches lie on an object, or None.
        distances: between patches (R * C, R * C), in patch sides.
        projections: of the same layer, whose V the rows weigh.
    """

    weights: Tensor
    first: Tensor
    subtracted: Tensor | None
    prefix: int
    objects: Objects | None
    distances: Tensor
    projections: Projections

    @property
    def positive(self) -> Tensor:
        """What of the weights may be called a distribution."""
        return statistics.positive_part(self.weights)

    @property
    def square(self) -> bool:
        """Whether all tokens are queries, and not one alone."""
        return self.weights.shape[-2] == self.weights.shape[-1]


@dataclass(frozen=True)
class Statistic:
    """One choice of the overview.

    Attributes:
        name: its key.
        label: its name for people.
        meaning: what it is, in a sentence.
        find: rows -> (S, Q), or (S,) for a number of a whole map.
        percent: whether it is written as a share.
        centre: the value that is neutral, where there is one to both sides of which a value may lie.
        cleaning: whether it suggests that subtracting cleans, and so stands beside the control.
        whole: whether it needs the rows of all tokens.
        objects: whether it needs a mask of the picture.
        paired: whether it needs two maps a head.
    """

    name: str
    label: str
    meaning: str
    find: Find
    percent: bool = False
    centre: float | None = None
    cleaning: bool = False
    whole: bool = False
    objects: bool = False
    paired: bool = False


def _objects(find: Callable[[Tensor, Objects], Tensor], signed: bool = False) -> Find:
    def found(rows: Rows) -> Tensor:
        assert rows.objects is not None
        values = rows.weights if signed else rows.positive
        return find(values[..., rows.prefix :], rows.objects)

    return found


def _distance(rows: Rows) -> Tensor:
    patches = rows.positive[..., rows.prefix :, rows.prefix :]
    return statistics.mean_distance(patches, rows.distances)


def _pair(find: Callable[[Tensor, Tensor], Tensor]) -> Find:
    def found(rows: Rows) -> Tensor:
        assert rows.subtracted is not None
        return find(rows.first, rows.subtracted)

    return found


def _norm_outliers(rows: Rows) -> Tensor:
    """How many tokens are given a vector of outlying norm (S,): by the layer's attention, and by each head's part."""
    norms = _written_norms(rows.projections, rows.weights[1:].unsqueeze(0))
    return torch.where(norms.isnan().any(-1), torch.nan, statistics.norm_outliers(norms).sum(-1))


def _written_norms(projections: Projections, weights: Tensor) -> Tensor:
    """Norms (1 + H, Nq) of what attention answers for each token: all of it, then each head's part without the bias.

    A head's part is not known behind a norm that is not linear in it: NaN.
    """
    mixed = mix(projections, weights)
    together = torch.linalg.vector_norm(widen(projections.merge(mixed)[0]), dim=-1)
    try:
        outputs = projections.outputs(mixed)
    except UndefinedMapError:
        return torch.cat([together.unsqueeze(0), together.new_full((weights.shape[1], len(together)), torch.nan)])
    parts = (widen(mixed) * outputs.row_scale) @ outputs.weight
    return torch.cat([together.unsqueeze(0), torch.linalg.vector_norm(parts[0], dim=-1)])


_POSITIVE = "Of A1 − λA2 the positive part is taken."
STATISTICS: tuple[Statistic, ...] = (
    Statistic(
        "inside",
        "in-object mass",
        f"Share of the mass on patches that lies on the object. {_POSITIVE}",
        _objects(lambda values, objects: localisation.mass_inside(values, objects.inside)),
        percent=True,
        cleaning=True,
        objects=True,
    ),
    Statistic(
        "auroc",
        "AUROC of the object",
        "Chance that a patch on the object has a larger weight, with its sign, than one on the ground: 0.5 is chance.",
        _objects(lambda values, objects: localisation.auroc(values, objects.inside, objects.outside), signed=True),
        centre=0.5,
        cleaning=True,
        objects=True,
    ),
    Statistic(
        "precision",
        "average precision of the object",
        "Mean precision among patches of no lower weight, over the patches on the object.",
        _objects(
            lambda values, objects: localisation.average_precision(values, objects.inside, objects.outside), signed=True
        ),
        cleaning=True,
        objects=True,
    ),
    Statistic(
        "lift",
        "lift of the object",
        f"In-object mass by the object's share of the patches: 1 is uniform. {_POSITIVE}",
        _objects(lambda values, objects: localisation.lift(values, objects.inside)),
        cleaning=True,
        objects=True,
    ),
    Statistic(
        "entropy",
        "entropy",
        f"Normalised: 0 one key, 1 all keys alike. {_POSITIVE}",
        lambda rows: statistics.entropy(rows.positive),
        cleaning=True,
    ),
    Statistic(
        "entropy-nats",
        "entropy in nats",
        f"Not divided by its largest possible value, so it grows with the number of keys. {_POSITIVE}",
        lambda rows: statistics.entropy_nats(rows.positive),
        cleaning=True,
    ),
    Statistic(
        "effective",
        "effective support",
        f"exp(entropy): as many keys of equal weight are as spread out. {_POSITIVE}",
        lambda rows: statistics.effective_support(rows.positive),
        cleaning=True,
    ),
    Statistic(
        "participation",
        "participation ratio",
        "(Σ|w|)² / Σw²: the number of keys that count, less moved by a long tail than exp(entropy).",
        lambda rows: statistics.participation_ratio(rows.weights),
        cleaning=True,
    ),
    Statistic(
        "support",
        "support",
        "Number of keys whose weight is not exactly 0.",
        lambda rows: statistics.support(rows.weights).float(),
        cleaning=True,
    ),
    Statistic(
        "zeros",
        "share of exact zeros",
        "Share of keys whose weight is exactly 0; none under softmax.",
        lambda rows: statistics.zero_fraction(rows.weights),
        percent=True,
        cleaning=True,
    ),
    Statistic(
        "epsilon",
        "keys above a tenth of uniform",
        "Number of keys with more than a tenth of a uniform share of the mass.",
        lambda rows: statistics.epsilon_support(rows.weights),
        cleaning=True,
    ),
    Statistic(
        "top",
        "mass of the strongest key",
        "Share of Σ|w| on the key of the greatest magnitude.",
        lambda rows: statistics.top_mass(rows.weights, 1),
        percent=True,
        cleaning=True,
    ),
    Statistic(
        "keys95",
        "keys for 95 % of the mass",
        "The fewest keys that hold 95 % of Σ|w|.",
        lambda rows: statistics.keys_for_mass(rows.weights),
        cleaning=True,
    ),
    Statistic(
        "gini",
        "Gini coefficient",
        "Of magnitudes: 0 all alike, near 1 one key alone.",
        lambda rows: statistics.gini(rows.weights),
        cleaning=True,
    ),
    Statistic(
        "hoyer",
        "Hoyer sparseness",
        "0 all alike, 1 one key alone, from the ratio of the 1-norm and the 2-norm.",
        lambda rows: statistics.hoyer(rows.weights),
        cleaning=True,
    ),
    Statistic(
        "prefix",
        "share on CLS and registers",
        "Share of Σ|w| on the tokens before the patches.",
        lambda rows: statistics.prefix_share(rows.weights, rows.prefix),
        percent=True,
    ),
    Statistic(
        "sinks",
        "share on sinks",
        "Share of the mass on keys that receive more than three times a uniform share from all queries.",
        lambda rows: statistics.sink_share(rows.weights),
        percent=True,
        cleaning=True,
        whole=True,
    ),
    Statistic(
        "outliers",
        "tokens of outlying norm",
        "Number of tokens, CLS among them, to which attention adds a vector whose norm is above the median by more "
        "than ten median absolute deviations. The first column is about all that the layer's attention adds, the "
        "others about the part of one head; the tokens themselves are not recorded.",
        _norm_outliers,
        cleaning=True,
        whole=True,
    ),
    Statistic(
        "self",
        "share on itself",
        "Share of the mass that tokens give themselves.",
        lambda rows: statistics.self_mass(rows.weights),
        percent=True,
        whole=True,
    ),
    Statistic(
        "distance",
        "mean distance",
        f"From a patch to what it reads, in patch sides. {_POSITIVE}",
        _distance,
        cleaning=True,
        whole=True,
    ),
    Statistic(
        "redundancy",
        "head redundancy",
        "Mean cosine between the maps of two heads of the layer: one number a layer, 1 if all look at the same.",
        lambda rows: head_redundancy(rows.weights[1:]),
        cleaning=True,
    ),
    Statistic(
        "sum",
        "row sum",
        "1 for A, the value about which the colours turn; 1 − λ for A1 − λA2; times the number of maps where several "
        "sources are summed.",
        lambda rows: statistics.row_sum(rows.weights),
        centre=1.0,
    ),
    Statistic(
        "negative",
        "negative mass",
        "Σ|negative entries| / Σ|all entries|; 0 for a model that subtracts nothing.",
        lambda rows: statistics.negative_mass(rows.weights),
        percent=True,
        cleaning=True,
    ),
    Statistic(
        "negative-inside",
        "negative mass in the object",
        "Share of the negative mass that lies on the object: less than the object's area says that it is spared.",
        _objects(lambda values, objects: localisation.negative_mass_inside(values, objects.inside), signed=True),
        percent=True,
        cleaning=True,
        objects=True,
        paired=True,
    ),
    Statistic(
        "cosine",
        "cos(A1, λA2)",
        "Cosine of A1 and λA2 of a differential head; below 0 where λ is.",
        _pair(statistics.cosine),
        cleaning=True,
        paired=True,
    ),
    Statistic(
        "cancelled",
        "cancelled share",
        "Σ min(A1, λA2) / Σ A1: how much of A1 is subtracted away.",
        _pair(statistics.cancelled_share),
        percent=True,
        cleaning=True,
        paired=True,
    ),
)
