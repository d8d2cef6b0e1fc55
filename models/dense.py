"""Dense features: an embedding for every patch, in the space that pictures share with texts.

features = dense_features(model, pixels[None], find_preset("clearclip"))
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from open_clip.timm_model import TimmModel
from open_clip.transformer import VisionTransformer
from timm.models.vision_transformer import VisionTransformer as TimmViT
from torch import Tensor, nn

from models.errors import StudioError, UnsupportedAttentionError
from models.intervention.run import intervene
from models.layout import TokenGrid
from models.loaded import LoadedModel
from models.presets import Preset


@dataclass(frozen=True)
class TokenReadout:
    """How a vision tower takes its tokens into the joint space.

    Attributes:
        trunk: the module whose output is the tokens (B, N, D) after the last block.
        project: tokens -> (B, N, E), by the final norm and projection.
    """

    trunk: nn.Module
    project: Callable[[Tensor], Tensor]


def token_readout(model: LoadedModel) -> TokenReadout:
    """The final norm and projection of a tower that reads CLS or a mean of patches out, for any of its tokens.

    Raises:
        UnsupportedAttentionError: a tower that pools by attention, or of another type.
    """
    visual: Any = model.module.visual
    if model.vision.layers == 0:
        raise UnsupportedAttentionError(model.vision.reason or "The vision tower has no attention over patches.")
    if isinstance(visual, VisionTransformer) and visual.attn_pool is None:
        return TokenReadout(visual.transformer, lambda tokens: _linear(visual.ln_post(tokens), visual.proj))
    trunk = getattr(visual, "trunk", None)
    if isinstance(visual, TimmModel) and isinstance(trunk, TimmViT) and trunk.attn_pool is None:
        head = nn.Sequential(trunk.norm, trunk.fc_norm, trunk.head_drop, trunk.head, visual.head)
        return TokenReadout(trunk.blocks[-1], head)
    kind = type(visual).__name__ if trunk is None else type(trunk).__name__
    raise UnsupportedAttentionError(
        f"Dense features need a vision tower whose tokens can be projected one by one, and this {kind} pools them by "
        "attention or in a way that is not known: choose a model that reads CLS or a mean of patches out."
    )


def dense_features(model: LoadedModel, pixels: Tensor, preset: Preset) -> Tensor:
    """Patch embeddings (B, R, C, E) of length 1 in the joint space, of the model run as the preset changes it.

    Takes the model's lock. `pixels` (B, 3, height, width) are preprocessed pictures.

    Raises:
        StudioError: an edit of the preset that does not fit the tower, or pictures of another size than the model's
            input.
        UnsupportedAttentionError: a tower without a readout for single tokens.
    """
    readout, grid, tower = token_readout(model), model.vision.layout, model.vision
    assert isinstance(grid, TokenGrid)
    size = model.preprocess_settings.input_size
    if pixels.dim() != 4 or tuple(pixels.shape[-2:]) != size:
        raise StudioError(
            f"Pictures of shape {tuple(pixels.shape)} do not fit the model's input, (B, 3, {size[0]}, {size[1]}): make "
            "them by its preprocess."
        )
    with model.lock, torch.no_grad(), intervene(tower, preset.edits):
        tokens = _output_of(readout.trunk, lambda: model.encode_image(pixels))
        embedded = readout.project(tokens[:, grid.prefix :]).float()
    return F.normalize(embedded, dim=-1).unflatten(1, (grid.rows, grid.cols))


def _linear(tokens: Tensor, matrix: Tensor | None) -> Tensor:
    return tokens if matrix is None else tokens @ matrix


def _output_of(module: nn.Module, run: Callable[[], Any]) -> Tensor:
    """What `module` gave while `run` ran."""
    outputs: list[Tensor] = []

    def keep(_module: nn.Module, _args: Any, output: Tensor) -> None:
        outputs.append(output)

    handle = module.register_forward_hook(keep)
    try:
        run()
    finally:
        handle.remove()
    return outputs[-1]
