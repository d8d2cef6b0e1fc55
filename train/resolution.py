"""The next stage's picture size: the same model and optimiser, position embeddings resampled to the new grid."""

import torch

from models.build import CLIP, build_clip
from models.config import ModelConfig
from models.layout import TokenGrid
from models.positions import resize_positions
from train.config import OptimConfig
from train.optim import build_optimizer, decays

POSITIONS = "visual.positional_embedding"


def at_resolution(
    model: CLIP, optimizer: torch.optim.AdamW, config: ModelConfig, optim: OptimConfig
) -> tuple[CLIP, torch.optim.AdamW]:
    """The trained model and its optimiser at the image size of `config`.

    Adam's moments go along; those of the resampled positions start anew, since moments of one grid mean nothing
    on another.
    """
    old = TokenGrid(1, *model.visual.grid_size)  # type: ignore[misc]
    new = TokenGrid(1, config.vision.grid, config.vision.grid)
    if old == new:
        return model, optimizer
    state = model.state_dict()
    state[POSITIONS] = resize_positions(state[POSITIONS], old, new)
    fresh = build_clip(config)
    fresh.load_state_dict(state)
    fresh_optimizer = build_optimizer(fresh, optim)
    kept = dict(zip(_names(model), _parameters(optimizer), strict=True))
    for name, parameter in zip(_names(fresh), _parameters(fresh_optimizer), strict=True):
        if name != POSITIONS and kept[name] in optimizer.state:
            fresh_optimizer.state[parameter] = optimizer.state[kept[name]]
    return fresh, fresh_optimizer


def _parameters(optimizer: torch.optim.AdamW) -> list[torch.nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _names(model: CLIP) -> list[str]:
    """Parameter names in the order in which the optimiser holds them."""
    named = list(model.named_parameters())
    return [n for n, p in named if decays(n, p)] + [n for n, p in named if not decays(n, p)]
