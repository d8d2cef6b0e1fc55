"""The maps of a layer as edits make them: a pure function of its projections, the same in the run and for a viewer."""

import torch
from torch import Tensor

from models.errors import StudioError
from models.intervention.controls import (
    identity_weights,
    matched_entropy_weights,
    random_mask_weights,
    row_entropy,
    shuffled_keys,
    topk_weights,
    uniform_weights,
)
from models.intervention.edits import (
    AblateHeads,
    Identity,
    Keep,
    MatchedEntropy,
    Neighbourhood,
    OtherA2,
    RandomMask,
    SetLambda,
    ShuffledA2,
    SupportOf,
    TopK,
    UniformA2,
    UseNormalizer,
    UseSource,
)
from models.intervention.plans import LayerPlan
from models.layout import TokenGrid, TokenSequence
from models.maps import AttentionMaps, attention_scores
from models.normalizers import Normalizer
from models.projections import Projections
from models.statistics import support

_SEEDS_APART = 4096  # more than any tower has layers


def maps_by_plan(
    plan: LayerPlan, layer: int, layout: TokenGrid | TokenSequence, projections: Projections
) -> AttentionMaps:
    """The maps that multiply V in a layer which runs by `plan`; steps 1 to 5 of `models.intervention.edits`.

    `alpha` of the result is the normaliser's, and 1 for the controls, which are softmax over fewer keys, at another
    temperature, or in the limit.

    Raises:
        StudioError: tokens, or another picture's A2, that are not of the grid which the edit was made for.
    """
    if isinstance(plan.rule, Identity):
        weights = identity_weights(attention_scores(projections)[:, :, 0])
        return _ablated(AttentionMaps(weights, None, None, "identity", 1.0), plan.ablation)
    source = plan.source or UseSource("qk")
    weights = _weights(plan, layer, layout, projections)
    alpha = plan.rule.normalizer.alpha if isinstance(plan.rule, UseNormalizer) else 1.0
    if projections.lam is None:
        return _ablated(AttentionMaps(weights[0], None, None, source.source, alpha), plan.ablation)
    a1, a2 = weights.unbind(0)
    a2 = _a2(plan, layer, layout, projections, a2)
    return _ablated(AttentionMaps(a1, a2, _lam(plan.lam, projections.lam, a1), source.source, alpha), plan.ablation)


def neighbourhood_bonus(layout: TokenGrid, std: float) -> Tensor:
    """What `Neighbourhood` adds to the scores (N, N): a Gaussian between patches, 0 for prefix tokens."""
    near = [torch.arange(n, dtype=torch.float64) for n in (layout.rows, layout.cols)]
    rows, cols = (torch.exp(-((at[:, None] - at) ** 2) / (2 * std**2)) for at in near)
    bonus = torch.zeros(layout.tokens, layout.tokens, dtype=torch.float64)
    bonus[layout.prefix :, layout.prefix :] = torch.kron(rows, cols)
    return bonus


def _weights(plan: LayerPlan, layer: int, layout: TokenGrid | TokenSequence, projections: Projections) -> Tensor:
    """Weights (M, B, H, Nq, Nk) of each map: steps 1 and 2.

    Maps in front, so that an alpha a head, (H, 1, 1), meets the axis of heads.
    """
    source = plan.source or UseSource("qk")
    generator = torch.Generator()
    if isinstance(plan.rule, RandomMask):
        generator.manual_seed(int(plan.rule.seed) * _SEEDS_APART + layer)
    parts = []
    for name in source.names:
        scores = attention_scores(projections, name).movedim(2, 0)
        if plan.bonus is not None:
            scores = scores + _bonus(plan.bonus, layer, layout, scores)
        parts.append(_by_rule(plan, scores, generator))
    total = torch.stack(parts).sum(0)
    return total / len(parts) if source.combine == "mean" else total


def _by_rule(plan: LayerPlan, scores: Tensor, generator: torch.Generator) -> Tensor:
    match plan.rule:
        case UseNormalizer(normalizer=normalizer):
            return normalizer(scores)
        case TopK(keep=keep):
            return topk_weights(scores, _kept(keep, scores))
        case RandomMask(keep=keep):
            return random_mask_weights(scores, _kept(keep, scores), generator)
        case MatchedEntropy(normalizer=normalizer):
            return matched_entropy_weights(scores, row_entropy(normalizer(scores.double())))
    return Normalizer()(scores)


def _kept(keep: Keep, scores: Tensor) -> int | Tensor:
    return support(keep.normalizer(scores)) if isinstance(keep, SupportOf) else int(keep)


def _bonus(edit: Neighbourhood, layer: int, layout: TokenGrid | TokenSequence, scores: Tensor) -> Tensor:
    if not isinstance(layout, TokenGrid) or scores.shape[-2:] != (layout.tokens, layout.tokens):
        raise StudioError(
            f"Neighbourhood is laid over {layout.tokens} tokens and layer {layer} was run with {scores.shape[-1]}: "
            "give pictures of the size that the model's preprocessing makes."
        )
    return neighbourhood_bonus(layout, edit.std).to(scores)


def _a2(plan: LayerPlan, layer: int, layout: TokenGrid | TokenSequence, projections: Projections, a2: Tensor) -> Tensor:
    """Step 3: the second map (B, H, Nq, Nk) or what stands in for it."""
    match plan.a2:
        case ShuffledA2(seed=seed):
            prefix = layout.prefix if isinstance(layout, TokenGrid) else 0
            return a2[..., shuffled_keys(prefix, a2.shape[-1], int(seed)).to(a2.device)]
        case UniformA2():
            return uniform_weights(attention_scores(projections)[:, :, 1]) * a2.sum(-1, keepdim=True)
        case OtherA2(recording=recording):
            other = _weights(plan, layer, layout, recording[layer])[1]
            if other.shape[1:] != a2.shape[1:] or other.shape[0] not in (1, a2.shape[0]):
                raise StudioError(
                    f"The other picture's A2 in layer {layer} is {tuple(other.shape)} and the run's {tuple(a2.shape)} "
                    "(pictures, heads, queries, keys): record one picture, or as many as are run, on the same grid."
                )
            return other.to(a2).expand_as(a2)
    return a2


def _lam(edit: SetLambda | None, lam: Tensor, a1: Tensor) -> Tensor:
    """Step 4: lambda, broadcastable to (B, H, Nq, 1)."""
    if edit is None:
        return lam
    heads = list(range(a1.shape[1])) if edit.heads is None else list(edit.heads)
    every_head = torch.zeros(1, a1.shape[1], 1, 1, dtype=lam.dtype, device=lam.device) + lam
    every_head[:, heads] = torch.tensor(edit.value, dtype=lam.dtype, device=lam.device).reshape(1, -1, 1, 1)
    return every_head


def _ablated(maps: AttentionMaps, edit: AblateHeads | None) -> AttentionMaps:
    """Step 5: the maps with every weight of the ablated heads at zero."""
    if edit is None:
        return maps
    stays = torch.ones(1, maps.a1.shape[1], 1, 1, dtype=maps.a1.dtype, device=maps.a1.device)
    stays[:, list(edit.heads)] = 0.0
    a2 = None if maps.a2 is None else maps.a2 * stays
    return AttentionMaps(maps.a1 * stays, a2, maps.lam, maps.source, maps.alpha)
