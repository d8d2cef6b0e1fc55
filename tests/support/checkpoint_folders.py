"""Checkpoint folders of tiny models."""

from pathlib import Path

import torch

from models import LoadedModel
from models.build import build_clip, vision_blocks
from models.checkpoints import CheckpointInfo, save_checkpoint
from models.config import ModelConfig
from models.tokenizer import DomainTokenizer


def write_checkpoint(folder: Path, like: LoadedModel, title: str, tokenizer: DomainTokenizer) -> Path:
    """A checkpoint as `like`, with queries and keys enlarged so that its maps are far from uniform."""
    assert isinstance(like.config, ModelConfig)
    clip = build_clip(like.config, 5)
    with torch.no_grad():
        for block in vision_blocks(clip):
            for name, parameter in block.named_parameters():
                if any(part in name for part in ("in_proj_weight", "q_proj.weight", "k_proj.weight")):
                    parameter.mul_(3.0)
    save_checkpoint(folder, clip, CheckpointInfo(title, "scenes", like.config, like.preprocess_settings), tokenizer)
    return folder
