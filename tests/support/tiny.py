"""Builders of tiny real models for the tests."""

from pathlib import Path

from models.build import build_clip
from models.checkpoints import CheckpointInfo, wrap_model
from models.config import ModelConfig, model_config
from models.loaded import LoadedModel
from models.preprocess import Preprocess
from models.tokenizer import DomainTokenizer

CAPTIONS = ["a photo of a cat and two dogs", "a small red apple at the top left", "three keys above an anchor"]


def tiny_config(attention: str, vocab_size: int, image_size: int = 32) -> ModelConfig:
    return model_config(
        {
            "embed_dim": 24,
            "vision": {
                "layers": 3,
                "width": 32,
                "head_width": 8,
                "patch_size": 8,
                "image_size": image_size,
                "attention": attention,
            },
            "text": {
                "layers": 2,
                "width": 24,
                "heads": 4,
                "vocab_size": vocab_size,
                "context_length": 16,
                "attention": attention,
            },
        }
    )


def tiny_model(attention: str, tokenizer: DomainTokenizer, seed: int = 0) -> LoadedModel:
    config = tiny_config(attention, tokenizer.vocab_size)
    clip = build_clip(config, seed).eval().requires_grad_(False)
    info = CheckpointInfo(attention, "scenes", config, Preprocess(32, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)))
    return wrap_model(clip, info, tokenizer, f"tiny-{attention}", Path())
