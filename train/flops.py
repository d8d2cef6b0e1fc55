"""What a model costs: floating-point operations and memory, counted from its config; and how fast the machine is."""

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from models.build import build_clip, text_blocks, vision_blocks
from models.config import ModelConfig


@dataclass(frozen=True)
class Cost:
    """What one sample, a picture and its caption, costs a model.

    Attributes:
        parameters: number of weights.
        vision, text: floating-point operations of the towers' forward passes, a multiplication and an addition being
            two.
        activation_bytes: what is kept for the backward pass in float32; an estimate.
        checkpointed_bytes: the same where activations are computed twice: the inputs of all blocks, and the whole of
            one block at a time.
    """

    parameters: int
    vision: int
    text: int
    activation_bytes: int
    checkpointed_bytes: int

    @property
    def training(self) -> int:
        """Operations of a forward and a backward pass; the backward pass has two products for each of forward's.

        Checkpointing and accumulation repeat forward passes; by the custom of MFU (Chowdhery et al., "PaLM", 2022)
        that is not counted as work.
        """
        return 3 * (self.vision + self.text)


def cost_of(config: ModelConfig, patch_dropout: float = 0.0) -> Cost:
    """Counted on a model without storage, so that no size is too large.

    With `patch_dropout`, a share of patches, the vision tower's blocks see the patches that are left, as in training.

    Counted are the matrix products: N tokens times each matrix of a block, QK^T and weights @ V, the patch embedding,
    the projections. Norms, softmax, activations, the logits of the loss and the optimiser are left out; in a ViT-B/16
    at batch 4096 they are less than a hundredth. A1 - lambda A2 counts as it is cheapest, subtracted before it is
    multiplied with V, so that CLIP and DiffCLIP count alike.
    """
    with torch.device("meta"):
        clip = build_clip(config)
    vision, text, embed = config.vision, config.text, config.embed_dim
    rows, cols = vision.grid
    patches = rows * cols
    first = 2 * patches * 3 * vision.patch_size**2 * vision.width
    # timm's PatchDropout keeps as many, and the class token.
    seen = 1 + max(1, int(patches * (1.0 - patch_dropout)))
    image = first + _blocks(vision_blocks(clip), seen) + 2 * vision.width * embed
    words = _blocks(text_blocks(clip), text.context_length) + 2 * text.width * embed
    one = _activations(seen, vision.width, vision.raw_heads, vision.mlp_ratio)
    other = _activations(text.context_length, text.width, text.heads, text.mlp_ratio)
    kept = vision.layers * one + text.layers * other
    inputs = 4 * (vision.layers * seen * vision.width + text.layers * text.context_length * text.width)
    return Cost(sum(p.numel() for p in clip.parameters()), image, words, kept, inputs + max(one, other))


def _blocks(blocks: list[nn.Module], tokens: int) -> int:
    """Operations of a tower's blocks for `tokens` tokens."""
    total = 0
    for block in blocks:
        matrices = sum(parameter.numel() for parameter in block.parameters() if parameter.ndim == 2)
        total += 2 * tokens * matrices + 2 * tokens**2 * sum(_widths(block.attn))
    return total


def _widths(attention: Any) -> tuple[int, int]:
    """The summed width of all queries, and of all heads' outputs."""
    out = attention.proj if hasattr(attention, "proj") else attention.out_proj
    queries = attention.q_proj.out_features if hasattr(attention, "q_proj") and attention.q_proj else out.in_features
    return queries, out.in_features


def _activations(tokens: int, width: int, heads: int, mlp_ratio: float) -> int:
    """Bytes of a block in float32: its inputs and outputs of norms, products and the MLP, and one map a head."""
    floats = tokens * width * (8 + 2 * mlp_ratio) + heads * tokens**2
    return int(4 * floats)


def matmul_rate(device: torch.device, dtype: torch.dtype, seconds: float = 0.5) -> float:
    """Floating-point operations a second of a large square matrix product, the fastest of those tried in this time.

    The factors are random: with equal numbers a GPU draws less power and has a higher clock than any training sees.
    """
    side = 8192 if device.type == "cuda" else 1024
    generator = torch.Generator(device).manual_seed(0)
    one, other = (torch.randn(side, side, device=device, generator=generator).to(dtype) for _ in range(2))
    best, end = 0.0, time.perf_counter() + seconds
    warm = False
    while time.perf_counter() < end or not best:
        began = time.perf_counter()
        torch.mm(one, other)
        synchronize(device)
        if warm:
            best = max(best, 2 * side**3 / (time.perf_counter() - began))
        warm = True
    return best


def synchronize(device: torch.device) -> None:
    """Wait until a GPU has done what it was asked for."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
