"""A built open_clip model -> its two towers: which modules attend, in which order, over which tokens."""

from collections.abc import Sequence
from typing import Any

from open_clip.model import CLIP
from timm.layers.diff_attention import DiffAttention as TimmDiffAttention
from torch import nn

from models.build import ClipModule, text_blocks, vision_blocks
from models.diff_attention import DifferentialAttention
from models.layout import TokenGrid, TokenSequence
from models.loaded import Tower


def vision_tower(clip: ClipModule) -> Tower:
    """The vision tower of a model, with its pooling head as the last layer where it has one."""
    visual: Any = clip.visual
    trunk = getattr(visual, "trunk", None)
    blocks = vision_blocks(clip)
    layout = _timm_grid(trunk) if trunk is not None else _open_clip_grid(visual)
    attention = [getattr(block, "attn", None) for block in blocks]
    if not blocks or layout is None or not all(isinstance(module, nn.Module) for module in attention):
        kind = type(trunk if trunk is not None else visual).__name__
        return Tower(
            "vision",
            (),
            0,
            layout or TokenGrid(0, 0, 0),
            None,
            (),
            f"The vision tower is a {kind}, which has no self-attention over patches, layer by layer, to look at: "
            "choose a model with a plain ViT.",
        )
    pool = getattr(trunk, "attn_pool", None) if trunk is not None else _coca_pool(visual)
    modules = [*attention, pool] if isinstance(pool, nn.Module) else attention
    return _tower("vision", modules, layout, blocks)


def text_tower(clip: ClipModule) -> Tower:
    """The text tower of a model."""
    tower: Any = clip if isinstance(clip, CLIP) else clip.text
    blocks = text_blocks(clip)
    if not blocks:
        kind = type(tower).__name__
        return Tower(
            "text",
            (),
            0,
            TokenSequence(int(getattr(tower, "context_length", None) or 0)),
            None,
            (),
            f"The text tower is a {kind}, whose attention cannot be recorded: choose a model with open_clip's own "
            "text transformer.",
        )
    appended = getattr(tower, "cls_emb", None) is not None
    pool = "last" if appended else str(getattr(tower, "pool_type", None) or getattr(tower, "text_pool_type", "argmax"))
    layout = TokenSequence(
        int(getattr(tower, "num_pos", None) or tower.context_length),
        causal=tower.attn_mask is not None,
        pool=pool,  # type: ignore[arg-type]
        eos=int(getattr(tower, "eos_id", None) or getattr(tower, "text_eos_id", None) or -1),
    )
    return _tower("text", [block.attn for block in blocks], layout, blocks)  # type: ignore[misc]


def _tower(name: str, attention: Sequence[Any], layout: TokenGrid | TokenSequence, blocks: list[nn.Module]) -> Tower:
    first = attention[0]
    heads = first.pairs if isinstance(first, DifferentialAttention) else int(getattr(first, "num_heads", 0))
    constant = isinstance(first, (DifferentialAttention, TimmDiffAttention))
    inits = tuple(float(module.lambda_init) for module in attention) if constant else None
    return Tower(name, tuple(attention), heads, layout, inits, tuple(blocks))


def _open_clip_grid(visual: Any) -> TokenGrid | None:
    size = getattr(visual, "grid_size", None)
    if size is None:
        return None
    return TokenGrid(1, *map(int, size), readout="mean" if visual.pool_type == "avg" else "cls")


def _coca_pool(visual: Any) -> nn.Module | None:
    """The pooler that an open_clip ViT makes its embedding with; in a cascade it does not see the patches."""
    if getattr(visual, "attn_pool_type", "") == "cascade":
        return None
    contrastive = getattr(visual, "attn_pool_contrastive", None)
    return contrastive if contrastive is not None else getattr(visual, "attn_pool", None)


def _timm_grid(trunk: Any) -> TokenGrid | None:
    size = getattr(getattr(trunk, "patch_embed", None), "grid_size", None)
    prefix = getattr(trunk, "num_prefix_tokens", None)
    if size is None or prefix is None:
        return None
    registers = int(getattr(trunk, "num_reg_tokens", 0))
    readout = "mean" if str(getattr(trunk, "global_pool", "token")).startswith("avg") else "cls"
    return TokenGrid(int(prefix), *map(int, size), registers=registers, readout=readout)
