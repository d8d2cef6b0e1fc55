"""A model as the rest of the project uses it: two towers, its own preprocessing, tokenizer and lock."""

import threading
from dataclasses import dataclass, field
from pathlib import Path

import torch
from open_clip.model import CLIP
from PIL import Image
from torch import Tensor, nn

from models.config import ModelConfig
from models.geometry import ImageGeometry
from models.layout import TokenGrid, TokenSequence
from models.preprocess import Preprocess
from models.tokenizer import DomainTokenizer


@dataclass(frozen=True)
class Tower:
    """One of the two towers, as a list of attention modules in the order in which they run.

    Attributes:
        name: "vision" or "text".
        attention: the attention module of each layer, L of them.
        heads: heads after pairing, H.
        layout: what the tokens are.
        lambda_init: of each layer, or None where attention is not differential.
    """

    name: str
    attention: tuple[nn.Module, ...]
    heads: int
    layout: TokenGrid | TokenSequence
    lambda_init: tuple[float, ...] | None

    @property
    def layers(self) -> int:
        """Number of layers, L."""
        return len(self.attention)

    @property
    def differential(self) -> bool:
        """Whether the weights are A1 - lambda A2."""
        return self.lambda_init is not None

    def lambdas(self) -> tuple[float, ...] | None:
        """lambda of each layer as it is now, or None where attention is not differential."""
        if self.lambda_init is None:
            return None
        with torch.no_grad():
            return tuple(float(module.lam()) for module in self.attention)  # type: ignore[operator]


@dataclass(frozen=True)
class LoadedModel:
    """A model that is ready to use. `encode_*` take its lock, so threads may share it.

    Attributes:
        name: the zoo name or the folder's name.
        title: how a person reads it ("DiffCLIP, scenes").
        domain: the kind of picture it was trained on ("scenes").
        folder: where the checkpoint, its card and its log lie.
        config: widths, depths and attention kinds.
    """

    name: str
    title: str
    domain: str
    folder: Path
    config: ModelConfig
    module: CLIP
    vision: Tower
    text: Tower
    preprocess_settings: Preprocess
    tokenizer: DomainTokenizer
    lock: threading.RLock = field(default_factory=threading.RLock)

    def preprocess(self, image: Image.Image) -> tuple[Tensor, ImageGeometry]:
        """The input tensor (3, R * patch, C * patch) of a picture, and where its pixels came from."""
        return self.preprocess_settings(image)

    def tokenize(self, texts: str | list[str]) -> Tensor:
        """Token ids (B, N) of one text or several."""
        return self.tokenizer(texts)

    @torch.no_grad()
    def encode_image(self, pixels: Tensor, normalize: bool = False) -> Tensor:
        """Embeddings (B, E) of preprocessed pictures (B, 3, height, width); of length 1 if `normalize`."""
        with self.lock:
            return self.module.encode_image(pixels, normalize=normalize)

    @torch.no_grad()
    def encode_text(self, tokens: Tensor, normalize: bool = False) -> Tensor:
        """Embeddings (B, E) of token ids (B, N); of length 1 if `normalize`."""
        with self.lock:
            return self.module.encode_text(tokens, normalize=normalize)

    @property
    def logit_scale(self) -> float:
        """The factor on cosine similarity, exp(logit_scale)."""
        return float(self.module.logit_scale.detach().exp())
