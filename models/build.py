"""Config -> an open_clip CLIP whose attention modules are ours where a tower is differential.

CLIP and DiffCLIP differ in nothing but attention: both are built by open_clip from the same config and seed, then the
attention modules of differential towers are replaced. The replacement takes over the projections it replaces, so
that both models also start from the same Q, K, V and output weights; only the lambda vectors and the head norm are new.
"""

from collections.abc import Iterator

import torch
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg
from torch import nn

from models.config import ModelConfig
from models.diff_attention import DifferentialMultiheadAttention, LambdaInit


def build_clip(config: ModelConfig, seed: int = 0) -> CLIP:
    """A CLIP or DiffCLIP with initial weights that are a function of (config, seed).

    Everything that is not attention, and the attention projections, are the same for the standard and for the
    differential config at one seed.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        clip = CLIP(
            embed_dim=config.embed_dim,
            vision_cfg=CLIPVisionCfg(
                layers=config.vision.layers,
                width=config.vision.width,
                head_width=config.vision.head_width,
                mlp_ratio=config.vision.mlp_ratio,
                patch_size=config.vision.patch_size,
                image_size=config.vision.image_size,
            ),
            text_cfg=CLIPTextCfg(
                context_length=config.text.context_length,
                vocab_size=config.text.vocab_size,
                width=config.text.width,
                heads=config.text.heads,
                layers=config.text.layers,
                mlp_ratio=config.text.mlp_ratio,
            ),
            quick_gelu=config.quick_gelu,
        )
        for kind, blocks in (
            (config.vision.attention, vision_blocks(clip)),
            (config.text.attention, text_blocks(clip)),
        ):
            if kind == "differential":
                make_differential(blocks, config.lambda_init.of_layer())
    return clip


def make_differential(blocks: list[nn.Module], lambda_init: LambdaInit) -> None:
    """Replace `block.attn` of each block by differential attention with the projections that were there."""
    for layer, block in enumerate(blocks):
        block.attn = differential_twin(block.attn, lambda_init(layer))  # type: ignore[arg-type]


def differential_twin(module: nn.MultiheadAttention, lambda_init: float) -> DifferentialMultiheadAttention:
    """Differential attention of the same width and raw heads, with the projections of `module`."""
    twin = DifferentialMultiheadAttention(module.embed_dim, module.num_heads, lambda_init)
    with torch.no_grad():
        weights, biases = module.in_proj_weight.chunk(3), module.in_proj_bias.chunk(3)
        for linear, weight, bias in zip((twin.q_proj, twin.k_proj, twin.v_proj), weights, biases, strict=True):
            linear.weight.copy_(weight)
            linear.bias.copy_(bias)
        twin.out_proj.load_state_dict(module.out_proj.state_dict())
    return twin


def vision_blocks(clip: CLIP) -> list[nn.Module]:
    """The transformer blocks of the vision tower, in order."""
    return list(_blocks(clip.visual.transformer))  # type: ignore[arg-type]


def text_blocks(clip: CLIP) -> list[nn.Module]:
    """The transformer blocks of the text tower, in order."""
    return list(_blocks(clip.transformer))


def _blocks(transformer: nn.Module) -> Iterator[nn.Module]:
    yield from transformer.resblocks  # type: ignore[misc]


def keep_in_float32(name: str) -> bool:
    """Whether a parameter is stored in float32 in a half-precision checkpoint: lambda, norms, logit scale.

    They are few, and half precision moves them visibly: a lambda of 0.8 would be rounded to three digits.
    """
    return any(part in name for part in ("lambda_", "diff_norm", "ln_", "norm", "logit_scale"))
