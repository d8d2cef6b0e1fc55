"""Config -> an open_clip CLIP whose attention modules are ours where a tower is differential.

CLIP and DiffCLIP differ in nothing but attention: both are built by open_clip from the same config and seed, then the
attention modules of differential towers are replaced. The replacement takes over the projections it replaces, so
that both models also start from the same Q, K, V and output weights; only the lambda vectors and the head norm are new,
or in DIFF V2 the second query of each pair and the projection to lambda.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg, CustomTextCLIP
from open_clip.transformer import QuickGELU
from timm.layers.attention import Attention as TimmAttention
from timm.models.vision_transformer import VisionTransformer as TimmViT
from torch import nn

from models.config import Activation, ModelConfig
from models.diff_attention import DifferentialAttention, DifferentialMultiheadAttention, LambdaInit
from models.diff_attention_v2 import DifferentialAttentionV2, DifferentialMultiheadAttentionV2

ClipModule = CLIP | CustomTextCLIP
# Any of timm's names: open_clip builds this smallest of its ViTs, and ours of the right size takes its place.
_PLACEHOLDER = "test_vit"


def build_clip(config: ModelConfig, seed: int = 0) -> CLIP:
    """A CLIP or DiffCLIP with initial weights that are a function of (config, seed).

    Everything that is not attention, and the attention projections, are the same for the standard and for the
    differential config at one seed.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        clip = CLIP(
            embed_dim=config.embed_dim,
            vision_cfg=_open_clip_vision(config),
            text_cfg=CLIPTextCfg(
                context_length=config.text.context_length,
                vocab_size=config.text.vocab_size,
                width=config.text.width,
                heads=config.text.heads,
                layers=config.text.layers,
                mlp_ratio=config.text.mlp_ratio,
            ),
        )
        if config.vision.trunk == "timm":
            _plant_timm_trunk(clip, config)
        for kind, blocks in (
            (config.vision.attention, vision_blocks(clip)),
            (config.text.attention, text_blocks(clip)),
        ):
            if kind == "differential":
                make_differential(blocks, config.lambda_init.of_layer())
            elif kind == "differential_v2":
                make_differential_v2(blocks)
    set_activation(vision_blocks(clip), config.vision.activation)
    set_activation(text_blocks(clip), config.text.activation)
    set_norm_eps([clip.visual], config.vision.norm_eps)
    set_norm_eps([clip.transformer, clip.ln_final], config.text.norm_eps)
    return clip


def _open_clip_vision(config: ModelConfig) -> CLIPVisionCfg:
    vision = config.vision
    if vision.trunk == "timm":
        return CLIPVisionCfg(
            timm_model_name=_PLACEHOLDER, timm_pool="token", timm_proj="linear", image_size=vision.input_size
        )
    return CLIPVisionCfg(
        layers=vision.layers,
        width=vision.width,
        head_width=vision.head_width,
        mlp_ratio=vision.mlp_ratio,
        patch_size=vision.patch_size,
        image_size=vision.input_size,
    )


def _plant_timm_trunk(clip: CLIP, config: ModelConfig) -> None:
    """Put timm's ViT of the config's size, and a projection without bias, where open_clip put its placeholder."""
    vision = config.vision
    clip.visual.trunk = TimmViT(
        img_size=vision.input_size,
        patch_size=vision.patch_size,
        num_classes=0,
        global_pool="token",
        embed_dim=vision.width,
        depth=vision.layers,
        num_heads=vision.raw_heads,
        mlp_ratio=vision.mlp_ratio,
        norm_layer=partial(nn.LayerNorm, eps=vision.norm_eps),
    )
    clip.visual.head.proj = nn.Linear(vision.width, config.embed_dim, bias=False)  # type: ignore[union-attr]


def make_differential(blocks: Iterable[nn.Module], lambda_init: LambdaInit) -> None:
    """Replace `block.attn` of each block by differential attention with the projections that were there."""
    for layer, block in enumerate(blocks):
        block.attn = differential_twin(block.attn, lambda_init(layer))  # type: ignore[arg-type]


def make_differential_v2(blocks: Iterable[nn.Module]) -> None:
    """Replace `block.attn` of each block by DIFF V2 with the projections that were there."""
    for block in blocks:
        block.attn = differential_v2_twin(block.attn)  # type: ignore[arg-type]


def differential_twin(module: nn.MultiheadAttention | TimmAttention, lambda_init: float) -> DifferentialAttention:
    """Differential attention of the same width and raw heads, called alike, with the projections of `module`."""
    weight, bias, out = _projections_of(module)
    made = DifferentialAttention if isinstance(module, TimmAttention) else DifferentialMultiheadAttention
    twin = made(out.in_features, module.num_heads, lambda_init)
    with torch.no_grad():
        for linear, part, offset in zip(
            (twin.q_proj, twin.k_proj, twin.v_proj), weight.chunk(3), bias.chunk(3), strict=True
        ):
            linear.weight.copy_(part)
            linear.bias.copy_(offset)
        twin.out_proj.load_state_dict(out.state_dict())
    return twin


def differential_v2_twin(module: nn.MultiheadAttention | TimmAttention) -> DifferentialAttentionV2:
    """DIFF V2 of the same width and heads, called alike, with the projections of `module`.

    K, V and output projection are those of `module`, and its queries are the first of each pair, so that with lambda at
    0 the twin gives what `module` gives. The second queries are drawn anew, normal with the standard deviation of the
    first, their bias 0; equal ones would make A1 and A2 one map.
    """
    weight, bias, out = _projections_of(module)
    made = DifferentialAttentionV2 if isinstance(module, TimmAttention) else DifferentialMultiheadAttentionV2
    twin = made(out.in_features, module.num_heads)
    queries, keys, values = zip(weight.chunk(3), bias.chunk(3), strict=True)
    with torch.no_grad():
        for linear, (part, offset) in ((twin.k_proj, keys), (twin.v_proj, values)):
            linear.weight.copy_(part)
            linear.bias.copy_(offset)
        pairs = (module.num_heads, 2, twin.head_width)
        first, second = twin.q_proj.weight.unflatten(0, pairs).unbind(1)
        first.copy_(queries[0].unflatten(0, pairs[::2]))
        second.normal_().mul_(queries[0].std())
        first_bias, second_bias = twin.q_proj.bias.unflatten(0, pairs).unbind(1)
        first_bias.copy_(queries[1].unflatten(0, pairs[::2]))
        second_bias.zero_()
        twin.out_proj.load_state_dict(out.state_dict())
    return twin


def _projections_of(module: nn.MultiheadAttention | TimmAttention) -> tuple[torch.Tensor, torch.Tensor, nn.Linear]:
    """Weight (3D, D) and bias (3D,) of Q, K and V, and the output projection, of standard attention."""
    if isinstance(module, TimmAttention):
        return module.qkv.weight, module.qkv.bias, module.proj
    return module.in_proj_weight, module.in_proj_bias, module.out_proj


def vision_blocks(clip: ClipModule) -> list[nn.Module]:
    """The transformer blocks of the vision tower, in order; none where it is no transformer that we know."""
    visual: nn.Module = clip.visual  # type: ignore[assignment]
    trunk = getattr(visual, "trunk", None)
    if trunk is not None:
        blocks = getattr(trunk, "blocks", None)
        return list(blocks) if isinstance(blocks, (nn.Sequential, nn.ModuleList)) else []
    transformer = getattr(visual, "transformer", None)
    return [] if transformer is None else list(transformer.resblocks)


def text_blocks(clip: ClipModule) -> list[nn.Module]:
    """The transformer blocks of the text tower, in order; none where it is no transformer that we know."""
    tower = clip if isinstance(clip, CLIP) else clip.text
    resblocks = getattr(getattr(tower, "transformer", None), "resblocks", None)
    return [] if resblocks is None else list(resblocks)


def set_activation(blocks: Iterable[nn.Module], activation: Activation) -> None:
    """Give every block's MLP this activation; GELU and QuickGELU hold no weights, so files do not tell which it was."""
    made = nn.GELU if activation == "gelu" else QuickGELU
    for block in blocks:
        name = "gelu" if hasattr(block.mlp, "gelu") else "act"
        if type(getattr(block.mlp, name)) is not made:
            setattr(block.mlp, name, made())  # type: ignore[arg-type]


def activation_of(blocks: Iterable[nn.Module]) -> Activation | None:
    """The activation of the blocks' MLPs, or None where it is neither of the two."""
    kinds = {type(getattr(block.mlp, "gelu", None) or getattr(block.mlp, "act", None)) for block in blocks}
    return {nn.GELU: "gelu", QuickGELU: "quick_gelu"}.get(kinds.pop()) if len(kinds) == 1 else None  # type: ignore


def set_norm_eps(modules: Iterable[Any], eps: float) -> None:
    """Give every LayerNorm below the modules this epsilon, which files do not tell either."""
    for module in modules:
        for norm in module.modules():
            if isinstance(norm, nn.LayerNorm):
                norm.eps = eps


def keep_in_float32(name: str) -> bool:
    """Whether a parameter is stored in float32 in a half-precision checkpoint: lambda, norms, logit scale.

    They are few, and half precision moves them visibly: a lambda of 0.8 would be rounded to three digits.
    """
    return any(part in name for part in ("lambda_", "diff_norm", "ln_", "norm", "logit_scale"))
