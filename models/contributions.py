"""What each key really puts into each query: the attention weight times the size of what it multiplies.

A key with a large weight and a small value vector contributes little. The norm of `weights[i, j] * v[j] @ W_O` of each
head (Kobayashi, Kuribayashi, Yokoi and Inui, "Attention is Not Only a Weight", EMNLP 2020) takes both into account.

For a differential head the RMSNorm stands between: it divides row i by the row's root mean square, then come a gain
for each channel and (1 - lambda_init). Given the root mean square of the unmodified row that is linear too, so the
contributions still add up to the module's output exactly; what they do not tell is how the divisor would change if a
key were taken away. The same holds for the other norms behind the heads.
"""

import torch
from torch import Tensor

from models.diff_attention import widen
from models.errors import StudioError
from models.projections import Projections, mix


def value_weighted(projections: Projections, weights: Tensor) -> Tensor:
    """The norm of what key k puts into query q through head h (B, H, Nq, Nk), not negative.

    In a pooling head it is what reaches the sum before the head's MLP.

    Args:
        projections: what `recording[layer]` gives.
        weights: (B, H, Nq, Nk), the model's own or those of a readout; of negative weights the size counts.

    Raises:
        UndefinedMapError: a norm behind the heads that is not linear given the size of its row.
    """
    outputs = projections.outputs(mix(projections, weights))
    sizes = torch.linalg.vector_norm(widen(projections.v) @ outputs.weight, dim=-1)
    return widen(weights).abs() * outputs.row_scale * sizes.unsqueeze(-2)


def key_contributions(projections: Projections, weights: Tensor, query: int) -> tuple[Tensor, Tensor | None]:
    """The vectors that every key puts into one query (B, H, Nk, D), and the bias (D,) that belongs to no key.

    Their sum over heads and keys, plus the bias, is the module's output for that query; in a pooling head, the sum
    before its MLP.

    Raises:
        StudioError: no such query.
        UndefinedMapError: as `value_weighted`.
    """
    if not 0 <= query < weights.shape[-2]:
        raise StudioError(f"Query {query} does not exist: choose 0-{weights.shape[-2] - 1}.")
    outputs = projections.outputs(mix(projections, weights))
    row = (widen(weights) * outputs.row_scale)[:, :, query]
    return row.unsqueeze(-1) * (widen(projections.v) @ outputs.weight), outputs.bias
