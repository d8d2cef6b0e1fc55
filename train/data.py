"""Scenes as training batches: a batch is a pure function of (config, step), so resuming needs one integer."""

from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from models.preprocess import Preprocess
from models.tokenizer import DomainTokenizer, train_tokenizer
from train.config import DataConfig, RunConfig
from train.scenes import SceneOptions, describe_scene, render_scene

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
    stage = config.stage_of(step)
    first = step * config.batch_size
    options = SceneOptions(weights=stage.weights)
    scenes = [describe_scene(config.data.seed, index, options) for index in range(first, first + config.batch_size)]
    captions = tokenizer([scene.caption for scene in scenes])
    if stage.drawn:
        preprocess = scenes_preprocess(stage.image_size)
        pictures = (Image.fromarray(render_scene(scene, stage.drawn)[0]) for scene in scenes)
        return Batch(torch.stack([preprocess(picture)[0] for picture in pictures]), captions)
    return Batch(to_pixels(np.stack([render_scene(scene, stage.image_size)[0] for scene in scenes])), captions)


def to_pixels(images: np.ndarray) -> Tensor:
    """Rendered scenes uint8 (B, S, S, 3) as normalised model input (B, 3, S, S)."""
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2).float().div_(255)
    mean, std = torch.tensor(MEAN).view(3, 1, 1), torch.tensor(STD).view(3, 1, 1)
    return pixels.sub_(mean).div_(std).contiguous()
