"""Tiny towers of every family of attention, with random weights everywhere, gains and biases included."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg, CustomTextCLIP
from open_clip.modified_resnet import ModifiedResNet
from timm.layers.diff_attention import DiffAttention
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from models.build import make_differential, make_differential_v2
from models.loaded import LoadedModel, Tower
from models.towers import text_tower, vision_tower

WIDTH, CONTEXT, VOCABULARY = 32, 10, 50


@dataclass(frozen=True)
class Family:
    """A tower, the module that runs it, and inputs for two pictures or two texts."""

    tower: Tower
    module: nn.Module
    inputs: Tensor

    def run(self) -> Tensor:
        return self.module(self.inputs)


def randomised(module: nn.Module, seed: int = 5) -> nn.Module:
    """The module with noise on every parameter, for inference: no gain is 1 and no bias is 0."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.data.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return module.eval().requires_grad_(False)


def pictures(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(11)).to(dtype)


def texts() -> Tensor:
    """Ids (2, CONTEXT) whose highest is the end of the text, followed by padding."""
    ids = torch.randint(1, VOCABULARY - 1, (2, CONTEXT), generator=torch.Generator().manual_seed(12))
    for row, end in enumerate((6, 9)):
        ids[row, end] = VOCABULARY - 1
        ids[row, end + 1 :] = 0
    return ids


def built(vision: dict | None = None, text: dict | None = None) -> CustomTextCLIP:
    """A tiny open_clip model; `vision` and `text` are what differs from the plain one."""
    plain: dict[str, Any] = {"layers": 2, "width": WIDTH, "head_width": 8, "patch_size": 8, "image_size": 32}
    words: dict[str, Any] = {"context_length": CONTEXT, "vocab_size": VOCABULARY, "width": 24, "heads": 4, "layers": 2}
    return CustomTextCLIP(
        16, vision_cfg=CLIPVisionCfg(**(plain | (vision or {}))), text_cfg=CLIPTextCfg(**(words | (text or {})))
    )


def with_trunk(**options: Any) -> CustomTextCLIP:
    """A tiny open_clip model whose vision tower is timm's ViT with these options."""
    clip = built()
    clip.visual = _Trunk(  # type: ignore[assignment]
        VisionTransformer(img_size=32, patch_size=8, embed_dim=WIDTH, depth=2, num_heads=4, num_classes=16, **options)
    )
    return clip


class _Trunk(nn.Module):
    """open_clip's name for where a timm model lies."""

    def __init__(self, trunk: VisionTransformer) -> None:
        super().__init__()
        self.trunk = trunk

    def forward(self, x: Tensor) -> Tensor:
        return self.trunk(x)


def _seen(clip: CLIP | CustomTextCLIP) -> Family:
    randomised(clip)
    return Family(vision_tower(clip), clip.visual, pictures())


def _read(clip: CLIP | CustomTextCLIP) -> Family:
    randomised(clip)
    module = clip.text if isinstance(clip, CustomTextCLIP) else clip
    return Family(text_tower(clip), module, texts())


def _ours(side: str, clip: CustomTextCLIP) -> Family:
    blocks = vision_tower(clip).blocks if side == "vision" else text_tower(clip).blocks
    make_differential(blocks, lambda layer: 0.8 - 0.1 * layer)
    return _seen(clip) if side == "vision" else _read(clip)


def _second(side: str, clip: CustomTextCLIP) -> Family:
    make_differential_v2(vision_tower(clip).blocks if side == "vision" else text_tower(clip).blocks)
    return _seen(clip) if side == "vision" else _read(clip)


def _coca() -> Family:
    """A tower whose embedding is made by CoCa's pooling head, its last layer."""
    return _seen(built({"attentional_pool": True, "attn_pooler_queries": 5, "attn_pooler_heads": 4}))


class _DualLambda(DiffAttention):
    """timm's differential attention with a scalar in the place of each product of lambda vectors."""

    def __init__(self, *args, **options) -> None:
        super().__init__(*args, **options, dual_lambda=True)


_CUSTOM: dict[str, Any] = {"block_type": "custom", "qk_norm": True, "scale_heads": True, "scale_attn_inner": True}
_ROOT = partial(nn.RMSNorm, eps=1e-6)

_BUILDERS: dict[str, Callable[[], Family]] = {
    "open_clip ViT": lambda: _seen(built()),
    "open_clip text": lambda: _read(built()),
    "open_clip two-way text": lambda: _read(built(text={"no_causal_mask": True, "pool_type": "last"})),
    "open_clip own attention": lambda: _seen(built(_CUSTOM)),
    "open_clip own attention, text": lambda: _read(built(text=_CUSTOM)),
    "open_clip CoCa pooling head": _coca,
    "timm ViT": lambda: _seen(with_trunk()),
    "timm ViT with registers": lambda: _seen(with_trunk(reg_tokens=3)),
    "timm ViT with norms": lambda: _seen(with_trunk(qk_norm=True, scale_attn_norm=True)),
    "timm ViT with RMSNorm": lambda: _seen(with_trunk(qk_norm=True, scale_attn_norm=True, norm_layer=_ROOT)),
    "timm ViT, differential": lambda: _seen(with_trunk(attn_layer="diff")),
    "timm ViT, differential, norms": lambda: _seen(
        with_trunk(attn_layer=_DualLambda, qk_norm=True, scale_attn_norm=True)
    ),
    "timm SigLIP": lambda: _seen(with_trunk(class_token=False, global_pool="map")),
    "timm pooling of patches alone": lambda: _seen(with_trunk(global_pool="map", pool_include_prefix=False)),
    "ours": lambda: _ours("vision", built()),
    "ours, text": lambda: _ours("text", built()),
    "ours in timm's ViT": lambda: _ours("vision", with_trunk()),
    "ours, DIFF V2": lambda: _second("vision", built()),
    "ours, DIFF V2, text": lambda: _second("text", built()),
    "ours, DIFF V2, in timm's ViT": lambda: _second("vision", with_trunk()),
}
FAMILIES = tuple(_BUILDERS)


def family_of(name: str) -> Family:
    """A tower of the family, always with the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        return _BUILDERS[name]()


def resnet() -> nn.Module:
    """A tiny CLIP ResNet, whose only attention is its pooling."""
    return ModifiedResNet([1, 1, 1, 1], 16, 4, image_size=64, width=8)


def siglip(host: LoadedModel) -> LoadedModel:
    """`host` with a SigLIP in its place: no CLS, a pooling head, and a text tower without causal mask."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        module = with_trunk(class_token=False, global_pool="map")
        module.text = built(text={"no_causal_mask": True, "pool_type": "last"}).text
        randomised(module)
    return replace(host, module=module, vision=vision_tower(module), text=text_tower(module))
