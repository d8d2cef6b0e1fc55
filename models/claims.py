"""What a config asks for, held against the weights beside it before a model of that size is built.

A config is a few words that anyone can write: one that asks for a thousand million layers would be built until the
memory is full, and only then found not to fit.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from models.config import ModelConfig, OpenClipConfig
from models.errors import CheckpointError

# What is asked for is estimated from below. So many values more than there are is still built, for a sentence that says
# where they differ.
_MORE = 2**26
_MLP, _PATCH = 4, 16  # open_clip's own, where a config does not say
_MOST_PATCHES, _MOST_TOKENS = 2**16, 2**14


def check_claim(config: ModelConfig | OpenClipConfig, state: Mapping[str, Tensor], path: Path) -> None:
    """Refuse a config that asks for far more than the weights hold, or for more tokens than attention can take.

    Raises:
        CheckpointError: says what is asked for and what is there.
    """
    asked, patches, tokens = _of_ours(config) if isinstance(config, ModelConfig) else _of_open_clip(config)
    held = sum(tensor.numel() for tensor in state.values())
    if asked > held + _MORE:
        raise CheckpointError(
            f"The config of {path} asks for a model of more than {asked:.3g} values, and its weights are {held:,}: use "
            "the config that belongs to them."
        )
    for what, count, most in (("patches", patches, _MOST_PATCHES), ("tokens of text", tokens, _MOST_TOKENS)):
        if count > most:
            raise CheckpointError(
                f"The config of {path} asks for {count:.3g} {what}, and at most {most:,} can be attended to: use the "
                "config that belongs to the weights."
            )


def _of_ours(config: ModelConfig) -> tuple[float, float, float]:
    """(values, patches, tokens of text) that it asks for at least."""
    towers = sum(
        _total(tower.layers) * _total(tower.width) ** 2 * (1 + 2 * _total(tower.mlp_ratio))
        for tower in (config.vision, config.text)
    )
    tokens = _total(config.text.context_length)
    words = _total(config.text.width) * (_total(config.text.vocab_size) + tokens)
    joint = _total(config.embed_dim) * (_total(config.vision.width) + _total(config.text.width))
    return towers + words + joint, math.prod(map(_total, config.vision.grid)), tokens


def _of_open_clip(config: OpenClipConfig) -> tuple[float, float, float]:
    """The same of a config of open_clip's, as far as it says so in numbers."""
    parts = [config.open_clip.get(name) for name in ("vision_cfg", "text_cfg", "multimodal_cfg")]
    vision, text, more = (part if isinstance(part, dict) else {} for part in parts)
    towers = 0.0
    for part in (vision, text, more):
        squares = _total(part.get("layers")) * max(1.0, _total(part.get("width"))) ** 2
        towers += squares * (1 + 2 * _total(part.get("mlp_ratio", _MLP)))
    tokens = _total(text.get("context_length"))
    words = _total(text.get("width")) * (_total(text.get("vocab_size")) + tokens)
    joint = _total(config.open_clip.get("embed_dim")) * _total(text.get("width"))
    size, patch = vision.get("image_size"), max(1.0, _total(vision.get("patch_size", _PATCH)))
    sides = size if isinstance(size, list | tuple) else (size, size)
    return towers + words + joint, math.prod(_total(side) / patch for side in sides), tokens


def _total(value: Any) -> float:
    """A number, at most 2^200, or the sum of those of a list; 0 for anything else."""
    if isinstance(value, list | tuple):
        return sum(map(_total, value))
    return float(min(value, 2.0**200)) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
