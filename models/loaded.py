"""A model as the rest of the project uses it: two towers, its own preprocessing, tokenizer and lock."""

import threading
from dataclasses import dataclass, field
from pathlib import Path

import torch
from open_clip.model import CLIP, CustomTextCLIP
from PIL import Image
from timm.layers.diff_attention import DiffAttention as TimmDiffAttention
from torch import Tensor, nn

from models.config import ModelConfig, OpenClipConfig
from models.diff_attention import DifferentialAttention
from models.diff_attention_v2 import DifferentialAttentionV2
from models.geometry import ImageGeometry
from models.layout import TokenGrid, TokenSequence
from models.overrides import Overrides
from models.preprocess import Preprocess
from models.vocabulary import Tokenizer


@dataclass(frozen=True)
class Tower:
    """One of the two towers, as a list of attention modules in the order in which they run.

    Attributes:
        name: "vision" or "text".
        attention: the attention module of each layer, L of them; an attention-pooling head comes last.
        heads: heads after pairing, H.
        layout: what the tokens are.
        lambda_init: of each layer, or None where attention has none: standard attention and DIFF V2.
        blocks: the transformer blocks that hold them, one fewer where a pooling head follows.
        reason: why there is no attention to look at, in a sentence, or "".
    """

    name: str
    attention: tuple[nn.Module, ...]
    heads: int
    layout: TokenGrid | TokenSequence
    lambda_init: tuple[float, ...] | None
    blocks: tuple[nn.Module, ...] = ()
    reason: str = ""

    @property
    def layers(self) -> int:
        """Number of layers, L."""
        return len(self.attention)

    @property
    def pooled(self) -> bool:
        """Whether the last layer is an attention-pooling head, with one query and no block."""
        return len(self.attention) > len(self.blocks) > 0

    def layer_name(self, layer: int) -> str:
        """How a person reads a layer: its number, or "pool" for the pooling head."""
        return "pool" if self.pooled and layer == self.layers - 1 else str(layer)

    @property
    def differential(self) -> bool:
        """Whether the weights are A1 - lambda A2, in one layer or more."""
        return any(isinstance(module, DIFFERENTIAL) for module in self.attention)

    def lambdas(self) -> tuple[float, ...] | None:
        """lambda of each layer as it is now, or None where it is not one number a layer.

        Standard attention has none; in DIFF V2 each token and head has its own, which `recording[layer].lam` gives.
        """
        if self.lambda_init is None:
            return None
        with torch.no_grad():
            return tuple(_lambda_of(module) for module in self.attention)


DIFFERENTIAL = (DifferentialAttention, DifferentialAttentionV2, TimmDiffAttention)


def _lambda_of(module: nn.Module) -> float:
    """lambda of a layer whose lambda is one number, ours or timm's."""
    return float(module.lam() if isinstance(module, DifferentialAttention) else module._compute_lambda())  # type: ignore


@dataclass(frozen=True)
class Origin:
    """Where a model came from, and what was taken for granted on the way.

    Attributes:
        family: which layout the weights were recognised as, for people.
        path: the file or folder that was read.
        notes: what was found in the file beside the weights: a stripped prefix, the entry that held them.
        assumed: what the file does not say and was taken for granted, a sentence each.
        overrides: what the caller asked for instead of what the file says or would have been assumed.
        source: what `load_model` was asked for.
    """

    family: str
    path: Path
    notes: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    overrides: Overrides = field(default_factory=Overrides)
    source: str = ""

    @property
    def given(self) -> tuple[str, ...]:
        """The overrides in words."""
        return self.overrides.said()


@dataclass(frozen=True)
class LoadedModel:
    """A model that is ready to use. `encode_*` take its lock, so threads may share it.

    Attributes:
        name: the zoo name or the folder's name.
        title: how a person reads it ("DiffCLIP, scenes").
        domain: the kind of picture it was trained on ("scenes").
        folder: where the checkpoint, its card and its log lie.
        config: widths, depths and attention kinds.
        origin: where it came from and what was assumed.
    """

    name: str
    title: str
    domain: str
    folder: Path
    config: ModelConfig | OpenClipConfig
    origin: Origin
    module: CLIP | CustomTextCLIP
    vision: Tower
    text: Tower
    preprocess_settings: Preprocess
    tokenizer: Tokenizer
    lock: threading.RLock = field(default_factory=threading.RLock)

    def preprocess(self, image: Image.Image) -> tuple[Tensor, ImageGeometry]:
        """The input tensor (3, R * patch, C * patch) of a picture, and where its pixels came from."""
        return self.preprocess_settings(image)

    def tokenize(self, texts: str | list[str]) -> Tensor:
        """Token ids (B, N) of one text or several.

        Raises:
            StudioError: no text, or a vocabulary for which there is no tokenizer.
        """
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
