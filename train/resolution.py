"""The next stage's picture size: the same training, position embeddings resampled to the new grid."""

import torch
from torch import Tensor

from models.build import ClipModule, build_clip
from models.config import ModelConfig
from models.layout import TokenGrid
from models.positions import resize_positions
from models.towers import vision_tower
from train.ema import Ema
from train.optim import build_optimizer
from train.settings import OptimConfig

# In open_clip's form and in timm's.
POSITIONS = ("visual.positional_embedding", "visual.trunk.pos_embed")


def at_resolution(
    clip: ClipModule, optimizer: torch.optim.Optimizer, ema: Ema | None, config: ModelConfig, optim: OptimConfig
) -> tuple[ClipModule, torch.optim.Optimizer, Ema | None]:
    """The model, its optimiser and its average at the picture size of `config`; the same ones, if they have it.

    Adam's moments go along; those of the resampled positions start anew, since moments of one grid mean nothing
    on another.
    """
    old = vision_tower(clip).layout
    assert isinstance(old, TokenGrid)
    new = TokenGrid(old.prefix, *config.vision.grid)
    if (old.rows, old.cols) == (new.rows, new.cols):
        return clip, optimizer, ema
    fresh = build_clip(config).to(clip.logit_scale.device).train()
    fresh.load_state_dict(_resampled(clip.state_dict(), old, new))
    fresh_optimizer = build_optimizer(fresh, optim)
    before = dict(clip.named_parameters())
    for name, parameter in fresh.named_parameters():
        if name not in POSITIONS and before[name] in optimizer.state:
            fresh_optimizer.state[parameter] = optimizer.state[before[name]]
    fresh_ema = None
    if ema is not None:
        fresh_ema = Ema(fresh, ema.decay)
        fresh_ema.load_state_dict({"averages": _resampled(ema.averages, old, new), "updates": ema.updates})
    return fresh, fresh_optimizer, fresh_ema


def _resampled(tensors: dict[str, Tensor], old: TokenGrid, new: TokenGrid) -> dict[str, Tensor]:
    """The same with the positions, (N, D) or (1, N, D), of the new grid."""
    changed = dict(tensors)
    for name in POSITIONS:
        if name in tensors:
            flat = tensors[name].reshape(-1, tensors[name].shape[-1])
            resized = resize_positions(flat, old, new)
            changed[name] = resized.reshape(*tensors[name].shape[:-2], *resized.shape)
    return changed
