"""Which patches and which words speak for the similarity of a picture and a text: relevance by gradients.

Chefer, Gur and Wolf, "Generic Attention-model Explainability" (ICCV 2021), for CLIP: in each layer the map times the
gradient of the similarity, under a rule for signs, averaged over heads, makes C; relevance starts as the identity and
goes R <- R + C R from the first chosen layer to the last. The published rule keeps positive products alone. On a
differential map that merges two things, a key that is attended and helps and a key that is suppressed and whose
suppression helps; the four quadrants tell them apart.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from models.errors import StudioError
from models.gradients import LayerGradient, TowerGradients
from models.layout import TokenGrid

Rule = Literal["positive", "negative", "absolute", "signed", "++", "+-", "-+", "--"]


def _quadrant(map_sign: int, gradient_sign: int) -> Callable[[Tensor, Tensor], Tensor]:
    def keep(values: Tensor, gradient: Tensor) -> Tensor:
        inside = (values * map_sign > 0) & (gradient * gradient_sign > 0)
        return torch.where(inside, values * gradient, torch.zeros_like(values))

    return keep


# (map, gradient) -> what of their product counts, before the mean over heads.
_RULES: dict[Rule, Callable[[Tensor, Tensor], Tensor]] = {
    "positive": lambda values, gradient: (values * gradient).clamp(min=0),
    "negative": lambda values, gradient: (-values * gradient).clamp(min=0),
    "absolute": lambda values, gradient: (values * gradient).abs(),
    "signed": lambda values, gradient: values * gradient,
    "++": _quadrant(1, 1),
    "+-": _quadrant(1, -1),
    "-+": _quadrant(-1, 1),
    "--": _quadrant(-1, -1),
}


@dataclass(frozen=True)
class Relevance:
    """What the tokens of one tower had to do with the similarity.

    Attributes:
        tokens: (B, N), relevance of each token to what is read out: the CLS or end-of-text row of R - I, their mean
            over the patches in a tower that averages them, or what comes out of the pooling head. In no unit; compare
            within a picture. Signed under "signed" and the quadrants, not negative otherwise.
        contributions: layer -> C (B, Nq, Nk), what the layer adds; row q says what spoke through query q.
        rule: how signs were treated.
        gradients: what it was made from.
        note: "" or a sentence that says where there is nothing to see, and why.
    """

    tokens: Tensor
    contributions: dict[int, Tensor]
    rule: Rule
    gradients: TowerGradients
    note: str

    @property
    def patches(self) -> Tensor:
        """The patches' part of `tokens` as a grid (B, R, C); the prefix tokens are left out.

        Raises:
            StudioError: the tower is no vision tower.
        """
        layout = self.gradients.tower.layout
        if not isinstance(layout, TokenGrid):
            raise StudioError("A text has no patches: use tokens.")
        return self.tokens[:, -layout.patches :].unflatten(1, (layout.rows, layout.cols))

    @property
    def blank(self) -> Tensor:
        """Whether there is nothing at all, for each pair (B,)."""
        return (self.tokens == 0).all(-1)


def relevance(gradients: TowerGradients, rule: Rule = "positive") -> Relevance:
    """The relevance of a tower's tokens from maps and gradients that one run gave.

    Args:
        gradients: `map_gradients(...).vision` or `.text`.
        rule: what counts of map times gradient. "positive": what is above 0, as published. "negative": the size of what
            is below 0. "absolute": the size of either. "signed": all of it as it is, so that R can hold negative
            entries and products of two layers can turn their sign. "++", "+-", "-+", "--": signed, but only where map
            and gradient have these signs, in this order; their C add up to the signed one in every layer.

    Nothing is divided by its sum or its largest entry: where every entry is 0, zeros are returned, and `note` says so.

    Raises:
        StudioError: an unknown rule.
    """
    if rule not in _RULES:
        raise StudioError(f"Rule {rule!r} is unknown: choose among {', '.join(get_args(Rule))}.")
    contributions = {layer: _contribution(entry, rule) for layer, entry in gradients.layers.items()}
    sample = next(iter(contributions.values()))
    identity = torch.eye(gradients.tokens, dtype=sample.dtype, device=sample.device)
    total = identity.expand(sample.shape[0], -1, -1)
    tokens = None
    for layer, contribution in contributions.items():
        if gradients.layers[layer].pooling:
            # A query that is not read out has no gradient, so the sum over queries is what is read out.
            tokens = (contribution.sum(1, keepdim=True) @ total[:, -contribution.shape[-1] :]).squeeze(1)
        else:
            total = total + contribution @ total
    if tokens is None:
        tokens = _row(gradients, total - identity)
    broken = ~tokens.isfinite().all(-1)
    tokens = torch.where(broken.unsqueeze(-1), torch.zeros_like(tokens), tokens)
    return Relevance(tokens, contributions, rule, gradients, _note(tokens, broken, rule))


def _contribution(entry: LayerGradient, rule: Rule) -> Tensor:
    """C (B, Nq, Nk): the rule first, then the mean over heads, so that heads do not cancel before it."""
    return _RULES[rule](entry.map, entry.gradient).mean(1)


def _row(gradients: TowerGradients, total: Tensor) -> Tensor:
    if gradients.readout is not None:
        return total[torch.arange(total.shape[0], device=total.device), gradients.readout]
    layout = gradients.tower.layout
    return total[:, -layout.patches :].mean(1) if isinstance(layout, TokenGrid) else total.mean(1)


def _note(tokens: Tensor, broken: Tensor, rule: Rule) -> str:
    def named(which: Tensor) -> str:
        return ", ".join(str(index) for index in which.nonzero().flatten().tolist())

    empty = (tokens == 0).all(-1) & ~broken
    notes = []
    if bool(broken.any()):
        notes.append(f"The gradients of pair {named(broken)} are not finite, so nothing is shown.")
    if bool(empty.any()):
        notes.append(f"No token of pair {named(empty)} has any relevance under the rule {rule!r}.")
    return " ".join(notes)
