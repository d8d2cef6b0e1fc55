"""The contrastive loss of CLIP (Radford et al., 2021): each picture against all captions of the batch, and back."""

import torch
import torch.nn.functional as F
from torch import Tensor


def contrastive_loss(image: Tensor, text: Tensor, logit_scale: Tensor) -> Tensor:
    """Mean of both cross-entropies over a batch of unit embeddings (B, E); row i of both belongs together.

    Computed in float32 or wider, `logit_scale` being the logarithm of the factor on cosine similarity.
    """
    wide = torch.promote_types(image.dtype, torch.float32)
    logits = logit_scale.to(wide).exp() * image.to(wide) @ text.to(wide).T
    target = torch.arange(len(logits), device=logits.device)
    return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2
