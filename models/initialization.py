"""The two ways in which a model may begin, by name.

`matched`, as `models.build` makes it: a differential tower takes over the projections of the plain model of the same
seed, so that CLIP and DiffCLIP begin equal in everything but attention's own parts. Weights are drawn from SLIP's
distributions (text tower, embeddings, text projection) and from timm's (vision tower: normal of 0.02, cut off, biases
0), but for the image projection, which is uniform within width^-0.5.

`published`, as the code behind the published models draws them, CLIP and DiffCLIP each for itself (SLIP's `models.py`,
DiffCLIP's `diff_clip.py` and `diff_attention.py`). In distribution this differs from `matched` in three places:

1. the image projection is normal of width^-0.5, in both models;
2. in a differential vision tower every linear layer of every block, those of the MLPs too, is drawn as PyTorch draws
   it, weights and biases uniform within (inputs)^-0.5, since the published code puts its blocks in the place of those
   that timm had initialised;
3. in a differential text tower the biases of the four projections are drawn likewise; their weights are normal of
   width^-0.5, that of the output of (2 layers width)^-0.5, as the plain tower's.

So a published pair differs in more than attention, before the first step. The published towers also differ in
LayerNorm's epsilon (`VisionConfig.norm_eps`: CLIP 1e-6, DiffCLIP 1e-5), which is no matter of initialisation.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import torch
from open_clip.model import CLIP
from torch import nn

from models.build import build_clip, text_blocks, vision_blocks
from models.config import ModelConfig
from models.diff_attention import DifferentialAttention
from models.errors import StudioError

Initialization = Literal["matched", "published"]


def initial_clip(config: ModelConfig, seed: int, rule: Initialization) -> CLIP:
    """A CLIP or DiffCLIP whose weights are a function of (config, seed, rule).

    Raises:
        StudioError: "published" of a model that was not published in this form: see `published_clip`.
    """
    return INITIALIZATIONS[rule](config, seed)


def published_clip(config: ModelConfig, seed: int) -> CLIP:
    """A model with weights from the distributions of the published code.

    Raises:
        StudioError: a vision tower that is not timm's, or DIFF V2, which has not been published as a CLIP.
    """
    if config.vision.trunk != "timm":
        raise StudioError(
            f'The published initialisation is of timm\'s ViT, not of trunk = "{config.vision.trunk}": set '
            'model.vision.trunk = "timm", or use the initialisation "matched".'
        )
    if "differential_v2" in (config.vision.attention, config.text.attention):
        raise StudioError('No CLIP with "differential_v2" was published: use the initialisation "matched".')
    clip = build_clip(config, seed)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        _draw_vision(clip, config)
        _draw_text(clip, config)
        clip.logit_scale.fill_(np.log(1 / 0.07))
    return clip


INITIALIZATIONS: Mapping[Initialization, Callable[[ModelConfig, int], CLIP]] = MappingProxyType(
    {"matched": build_clip, "published": published_clip}
)


def _draw_vision(clip: CLIP, config: ModelConfig) -> None:
    visual: Any = clip.visual
    visual.trunk.init_weights()
    if config.vision.attention == "differential":
        for block in vision_blocks(clip):
            for module in block.modules():
                if isinstance(module, nn.Linear):
                    module.reset_parameters()
                if isinstance(module, DifferentialAttention):
                    _draw_lambda(module)
    nn.init.normal_(visual.head.proj.weight, std=config.vision.width**-0.5)


def _draw_text(clip: CLIP, config: ModelConfig) -> None:
    width = config.text.width
    inner = width**-0.5
    outer = inner * (2 * config.text.layers) ** -0.5
    tower: Any = clip
    nn.init.normal_(tower.token_embedding.weight, std=0.02)
    nn.init.normal_(tower.positional_embedding, std=0.01)
    nn.init.normal_(tower.text_projection, std=inner)
    for block in text_blocks(clip):
        attn: Any = block.attn
        if isinstance(attn, DifferentialAttention):
            for linear, std in (
                *((part, inner) for part in (attn.q_proj, attn.k_proj, attn.v_proj)),
                (attn.out_proj, outer),
            ):
                linear.reset_parameters()
                nn.init.normal_(linear.weight, std=std)
            _draw_lambda(attn)
        else:
            nn.init.normal_(attn.in_proj_weight, std=inner)
            nn.init.normal_(attn.out_proj.weight, std=outer)
        mlp: Any = block.mlp
        nn.init.normal_(mlp.c_fc.weight, std=(2 * width) ** -0.5)
        nn.init.normal_(mlp.c_proj.weight, std=outer)


def _draw_lambda(module: DifferentialAttention) -> None:
    for vector in (module.lambda_q1, module.lambda_k1, module.lambda_q2, module.lambda_k2):
        nn.init.normal_(vector, std=0.1)
