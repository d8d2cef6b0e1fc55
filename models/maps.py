"""Attention maps as pure functions of a layer's projections.

A *readout*: the maps are recomputed from an unmodified run, with any source of scores and any normaliser; the
model itself is not run again.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from models.errors import UndefinedMapError
from models.normalizers import Normalizer
from models.projections import Projections

SOURCES = ("qk", "qq", "kk", "vv")
Source = str | tuple[str, ...]
Part = Literal["weights", "a1", "a2", "subtracted"]


@dataclass(frozen=True)
class AttentionMaps:
    """The maps of one layer and batch; a row is what one query reads, map[q, k].

    Attributes:
        a1: (B, H, Nq, Nk); CLIP's A, or the first map of a differential head; rows sum to 1 (2 for the sum of two
            sources).
        a2: the second map, or None for CLIP.
        lam: lambda, broadcastable to (B, H, Nq, 1), or None for CLIP: one number in DiffCLIP, (B, H, Nq, 1) in DIFF V2.
        source: which vectors made the scores.
        alpha: the normaliser's alpha: one number, or one a head (H, 1, 1).
        pooling: whether the queries are learned and are no tokens.
    """

    a1: Tensor
    a2: Tensor | None
    lam: Tensor | None
    source: Source
    alpha: float | Tensor
    pooling: bool = False

    @property
    def subtracted(self) -> Tensor | None:
        """lambda * A2 (B, H, Nq, Nk), or None for CLIP."""
        return None if self.a2 is None or self.lam is None else self.lam * self.a2

    @property
    def weights(self) -> Tensor:
        """What multiplies V (B, H, Nq, Nk): A, or A1 - lambda A2, whose rows sum to 1 - lambda and may be negative."""
        subtracted = self.subtracted
        return self.a1 if subtracted is None else self.a1 - subtracted

    def part(self, name: Part) -> Tensor:
        """One of the maps (B, H, Nq, Nk) by its name: "weights", "a1", "a2" or "subtracted".

        Raises:
            UndefinedMapError: an unknown name, or a second map of attention that has only one.
        """
        if name not in ("weights", "a1", "a2", "subtracted"):
            raise UndefinedMapError(f"Map {name!r} is unknown: choose weights, a1, a2 or subtracted.")
        found = getattr(self, name)
        if found is None:
            raise UndefinedMapError(f"This attention has one map and no {name!r}: choose weights or a1.")
        return found


def attention_scores(projections: Projections, source: str = "qk") -> Tensor:
    """Scaled and masked scores (B, H, M, Nq, Nk), before the normaliser, in float32 or wider.

    Raises:
        UndefinedMapError: an unknown source; `vv` of a differential head, whose V is not split; a source other
            than `qk` where queries and keys are not the same tokens.
    """
    if source not in SOURCES:
        raise UndefinedMapError(f"Source {source!r} is unknown: choose among {', '.join(SOURCES)}.")
    if source == "vv" and projections.lam is not None:
        raise UndefinedMapError(
            "Source 'vv' is undefined for a differential head: its V is shared by A1 and A2. Choose qk, qq or kk."
        )
    left = {"qk": projections.q, "qq": projections.q, "kk": projections.k, "vv": projections.v.unsqueeze(2)}[source]
    right = {"qk": projections.k, "qq": projections.q, "kk": projections.k, "vv": projections.v.unsqueeze(2)}[source]
    if source != "qk" and projections.pooling:
        raise UndefinedMapError(
            f"Source {source!r} needs queries that are tokens, and those of a pooling head are learned: "
            "choose qk for this layer."
        )
    wide = torch.promote_types(left.dtype, torch.float32)
    scores = (left.to(wide) * projections.scale) @ right.to(wide).transpose(-2, -1)
    return scores if projections.mask is None else scores + projections.mask.to(wide)


def attention_maps(
    projections: Projections,
    source: Source = "qk",
    normalizer: Normalizer | None = None,
    combine: Literal["sum", "mean"] = "sum",
) -> AttentionMaps:
    """The maps of one layer for a source of scores, or for several that are summed or averaged after normalising.

    Args:
        projections: what `recording[layer]` gives.
        source: "qk" (the model's own), "qq", "kk", "vv", or several of them, as ("qq", "kk"). The keys of DIFF V2 are
            shared, so that of "kk" A1 and A2 are one map.
        normalizer: softmax if not given.
        combine: with several sources, "sum" (SCLIP: rows sum to their number) or "mean".

    Raises:
        UndefinedMapError: a source that does not exist for this attention, or an unknown way to combine.
    """
    normalizer = normalizer or Normalizer()
    names = (source,) if isinstance(source, str) else source
    if not names or combine not in ("sum", "mean"):
        raise UndefinedMapError(
            f"Sources {names!r} combined by {combine!r}: give one source or more, and 'sum' or 'mean'."
        )
    # Maps in front: an alpha a head, (H, 1, 1), must meet the axis of heads.
    total = sum(normalizer(attention_scores(projections, name).movedim(2, 0)) for name in names)
    assert isinstance(total, Tensor)
    total = total / len(names) if combine == "mean" else total
    a1, a2 = (total[0], None) if projections.lam is None else total.unbind(0)
    return AttentionMaps(a1, a2, projections.lam, source, normalizer.alpha, projections.pooling)
