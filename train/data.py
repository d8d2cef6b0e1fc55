"""Scenes as training batches: a batch is a pure function of (config, step), so resuming needs one integer."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from models.preprocess import Preprocess
from models.tokenizer import DomainTokenizer, train_tokenizer
from train.config import DataConfig, RunConfig
from train.scenes import describe_scene, render_scene

MEAN, STD = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)


@dataclass(frozen=True)
class Batch:
    """Pictures (B, 3, S, S), normalised, and token ids (B, N) of their captions."""

    pixels: Tensor
    tokens: Tensor


def scenes_preprocess(size: int) -> Preprocess:
    """How models trained on scenes want pictures of any kind."""
    return Preprocess(size, MEAN, STD, mode="shortest", interpolation="bicubic")


def scenes_tokenizer(data: DataConfig, vocab_size: int, context: int) -> DomainTokenizer:
    """The tokenizer of a run, trained on the captions of its first scenes."""
    captions = (describe_scene(data.seed, index).caption for index in range(data.tokenizer_captions))
    return train_tokenizer(captions, vocab_size, context)


def scenes_batch(config: RunConfig, tokenizer: DomainTokenizer, step: int) -> Batch:
    """The batch of step `step` (from 0): scenes step * B to (step + 1) * B - 1 at the size of its stage."""
    size = config.stage_of(step).image_size
    first = step * config.batch_size
    scenes = [describe_scene(config.data.seed, index) for index in range(first, first + config.batch_size)]
    images = np.stack([render_scene(scene, size)[0] for scene in scenes])
    return Batch(to_pixels(images), tokenizer([scene.caption for scene in scenes]))


def to_pixels(images: np.ndarray) -> Tensor:
    """Rendered scenes uint8 (B, S, S, 3) as normalised model input (B, 3, S, S)."""
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2).float().div_(255)
    mean, std = torch.tensor(MEAN).view(3, 1, 1), torch.tensor(STD).view(3, 1, 1)
    return pixels.sub_(mean).div_(std).contiguous()
