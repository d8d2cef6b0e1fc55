"""The contrastive loss of CLIP (Radford et al., 2021): each picture against all captions of the batch, and back.

Over several ranks there are two ways to the gradient, by name. `full` is the gradient of the loss of the global batch,
whatever the number of ranks. `published` is what SLIP's training code does (Mu et al., 2021), from which DiffCLIP's
stems: the features that rows are compared with are gathered as constants, so that with several ranks half of the
gradient is missing, and with one rank, where nothing is gathered, none of it. The loss that is told is the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from models.diff_attention import widen
from models.errors import StudioError
from train.distributed import World, gather, gather_with_gradient, mean_over_ranks

Gathering = Literal["full", "published"]


@dataclass(frozen=True, eq=False)
class RankLoss:
    """What one rank has of the loss of the global batch.

    Attributes:
        share: scalar; its gradient, averaged over ranks as DistributedDataParallel does it, is what a step follows.
        total: scalar, the sum of this rank's samples' losses.
        valid: scalar, the number of valid samples of all ranks.
    """

    share: Tensor
    total: Tensor
    valid: Tensor

    def mean(self, world: World) -> Tensor:
        """The loss of the global batch, by whichever gradient, with the same bits on all ranks: a collective."""
        return mean_over_ranks(world, world.size * self.total / self.valid.clamp_min(1))


GatheredLoss = Callable[[World, Tensor, Tensor, Tensor, Tensor], RankLoss]


def contrastive_loss(image: Tensor, text: Tensor, logit_scale: Tensor, valid: Tensor | None = None) -> Tensor:
    """Mean of both cross-entropies over a batch of unit embeddings (B, E); row i of both belongs together.

    Samples with `valid` (B,) False have neither row nor column. Without a valid sample the loss is 0, and so are its
    gradients. Computed in float32 or wider, `logit_scale` being the logarithm of the factor on cosine similarity.
    """
    valid = image.new_ones(len(image), dtype=torch.bool) if valid is None else valid
    rows = cross_entropies(image, text, image, text, logit_scale, valid, valid)
    return rows.sum() / valid.sum().clamp_min(1)


def cross_entropies(
    image: Tensor,
    text: Tensor,
    image_keys: Tensor,
    text_keys: Tensor,
    logit_scale: Tensor,
    valid: Tensor,
    valid_keys: Tensor,
    first: int = 0,
) -> Tensor:
    """Each sample's loss (B,), its two cross-entropies averaged: image (B, E) against text_keys (K, E), and back.

    Sample i is key `first + i`. Samples that are not `valid` (B,) have loss 0, keys that are not in `valid_keys` (K,)
    are in no denominator, and no gradient reaches either.
    """
    image, text, image_keys, text_keys, scale = map(widen, (image, text, image_keys, text_keys, logit_scale))
    target = torch.arange(first, first + len(image), device=image.device)
    # An invalid row keeps all its columns: it has weight 0, but with no column left it would be 0 * nan.
    hidden = valid[:, None] & ~valid_keys
    sides = [
        F.cross_entropy((scale.exp() * rows @ keys.T).masked_fill(hidden, -torch.inf), target, reduction="none")
        for rows, keys in ((image, text_keys), (text, image_keys))
    ]
    return torch.where(valid, (sides[0] + sides[1]) / 2, 0.0)


def full_loss(world: World, image: Tensor, text: Tensor, logit_scale: Tensor, valid: Tensor) -> RankLoss:
    """This rank's share of the loss of the global batch, with the exact gradient; every rank calls it.

    `image` and `text` (B, E) are this rank's unit embeddings, `valid` (B,) says which of them count. The loss is the
    mean over the valid samples of all ranks; without any it is 0, and so are its gradients.

    Raises:
        StudioError: ranks have batches of different sizes.
    """
    check_sizes(world, len(image))
    keys = _Keys.of(gather_with_gradient(world, _packed(image, text, valid)))
    first = world.rank * len(image)
    rows = cross_entropies(image, text, keys.image, keys.text, logit_scale, valid, keys.valid, first)
    count = keys.valid.sum()
    return RankLoss(world.size * rows.sum() / count.clamp_min(1), rows.sum().detach(), count)


def published_loss(world: World, image: Tensor, text: Tensor, logit_scale: Tensor, valid: Tensor) -> RankLoss:
    """The same with SLIP's gradient: rows against constants, a mean over each rank's own valid samples.

    With one process nothing is gathered, and the gradient is the full one.

    Raises:
        StudioError: ranks have batches of different sizes.
    """
    check_sizes(world, len(image))
    packed = _packed(image, text, valid)
    keys = _Keys.of(packed if world.size == 1 else gather(world, packed))
    first = world.rank * len(image)
    rows = cross_entropies(image, text, keys.image, keys.text, logit_scale, valid, keys.valid, first)
    return RankLoss(rows.sum() / valid.sum().clamp_min(1), rows.sum().detach(), keys.valid.sum())


GATHERINGS: Mapping[Gathering, GatheredLoss] = MappingProxyType({"full": full_loss, "published": published_loss})


@dataclass(frozen=True, eq=False)
class _Keys:
    """What rows are compared with: the unit embeddings (K, E) of all ranks and which of them count (K,)."""

    image: Tensor
    text: Tensor
    valid: Tensor

    @classmethod
    def of(cls, packed: Tensor) -> "_Keys":
        width = packed.shape[1] // 2
        return cls(packed[:, :width], packed[:, width:-1], packed[:, -1] > 0.5)


def _packed(image: Tensor, text: Tensor, valid: Tensor) -> Tensor:
    """Both embeddings and the mask in one tensor (B, 2E + 1), since one message is faster than three."""
    both = widen(torch.cat([image, text], dim=1))
    return torch.cat([both, valid[:, None].to(both)], dim=1)


def check_sizes(world: World, batch: int) -> None:
    """Refuse batches that differ between ranks before anything is gathered, which would hang or mix them up.

    Raises:
        StudioError: on all ranks; tells the sizes.
    """
    sizes = gather(world, torch.tensor([batch])).tolist()
    if len(set(sizes)) > 1:
        raise StudioError(
            f"The ranks have batches of {', '.join(map(str, sizes))} samples: give every rank as many, filled up with "
            "invalid ones."
        )
