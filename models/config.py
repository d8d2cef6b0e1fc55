"""What a model is made of: an open_clip config, the kind of attention of each tower, and its lambda rule."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from models.diff_attention import LambdaInit, check_head_pairs, constant_lambda, depth_lambda
from models.errors import StudioError
from models.plain import from_plain

AttentionKind = Literal["standard", "differential", "differential_v2"]
Activation = Literal["gelu", "quick_gelu"]


@dataclass(frozen=True)
class VisionConfig:
    """The vision tower: a ViT of `layers` blocks of width `width` over patches of `patch_size` pixels.

    `image_size` is the side of the square input in pixels, or its (height, width). `head_width` is d, so there are
    width / head_width raw heads: they are paired where attention is "differential" (DiffCLIP), and are pairs themselves
    where it is "differential_v2" (DIFF V2, whose queries are twice as many). `trunk` says whose ViT it is: open_clip's
    has a norm before the first block, timm's a bias in the patch embedding; published DiffCLIP and SLIP weights are of
    timm's form.

    Raises:
        StudioError: an mlp_ratio or a norm_eps that is not above 0.
    """

    layers: int
    width: int
    head_width: int
    patch_size: int
    image_size: int | tuple[int, int]
    mlp_ratio: float = 4.0
    attention: AttentionKind = "standard"
    trunk: Literal["open_clip", "timm"] = "open_clip"
    activation: Activation = "gelu"
    norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        _check_above_zero("vision.mlp_ratio", self.mlp_ratio)
        _check_above_zero("vision.norm_eps", self.norm_eps)

    @property
    def raw_heads(self) -> int:
        """Heads before pairing."""
        return self.width // self.head_width

    @property
    def input_size(self) -> tuple[int, int]:
        """(height, width) of the input in pixels."""
        return (self.image_size, self.image_size) if isinstance(self.image_size, int) else self.image_size

    @property
    def grid(self) -> tuple[int, int]:
        """(rows, cols) of patches."""
        height, width = self.input_size
        return height // self.patch_size, width // self.patch_size


@dataclass(frozen=True)
class TextConfig:
    """The text tower: a causal transformer read out at the end-of-text token.

    Raises:
        StudioError: an mlp_ratio or a norm_eps that is not above 0.
    """

    layers: int
    width: int
    heads: int
    vocab_size: int
    context_length: int
    mlp_ratio: float = 4.0
    attention: AttentionKind = "standard"
    activation: Activation = "gelu"
    norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        _check_above_zero("text.mlp_ratio", self.mlp_ratio)
        _check_above_zero("text.norm_eps", self.norm_eps)


@dataclass(frozen=True)
class LambdaConfig:
    """lambda_init of each layer: `constant` (`value` everywhere) or `depth` (0.8 - 0.6 exp(-0.3 l), l from 0).

    Attention of the kind "differential" has it, and no other.

    Raises:
        StudioError: a value that is not finite.
    """

    rule: Literal["constant", "depth"] = "constant"
    value: float = 0.8

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise StudioError(f"lambda_init.value = {self.value} is impossible: give a finite number, as 0.8.")

    def of_layer(self) -> LambdaInit:
        """The rule as a function of the layer."""
        return depth_lambda if self.rule == "depth" else constant_lambda(self.value)


@dataclass(frozen=True)
class ModelConfig:
    """A CLIP or DiffCLIP: widths, depths, and for each tower whether its attention is differential.

    Raises:
        StudioError: heads that cannot be paired, an image that patches do not tile.
    """

    embed_dim: int
    vision: VisionConfig
    text: TextConfig
    lambda_init: LambdaConfig = field(default_factory=LambdaConfig)

    def __post_init__(self) -> None:
        if (
            min(self.vision.layers, self.text.layers, self.embed_dim, self.text.vocab_size, self.text.context_length)
            < 1
        ):
            raise StudioError("layers, embed_dim, vocab_size and context_length must be at least 1.")
        for name, width, parts in (
            ("vision.width by vision.head_width", self.vision.width, self.vision.head_width),
            ("text.width by text.heads", self.text.width, self.text.heads),
            ("vision.image_size by vision.patch_size", self.vision.input_size[0], self.vision.patch_size),
            ("vision.image_size by vision.patch_size", self.vision.input_size[1], self.vision.patch_size),
        ):
            if parts < 1 or width < 1 or width % parts:
                raise StudioError(f"{name}: {width} is not a multiple of {parts}; choose values that divide.")
        if self.vision.attention == "differential":
            check_head_pairs(self.vision.raw_heads, self.vision.width, "The vision tower")
        if self.text.attention == "differential":
            check_head_pairs(self.text.heads, self.text.width, "The text tower")

    def to_dict(self) -> dict[str, Any]:
        """The config as plain values, as it is written into a checkpoint."""
        return asdict(self)


@dataclass(frozen=True)
class OpenClipConfig:
    """A model of open_clip's own zoo, described as open_clip describes it.

    Attributes:
        open_clip: the model config: embed_dim, vision_cfg, text_cfg, and what else open_clip's builders take.
        architecture: its name in open_clip's list, or "".
        activation: of (vision, text) MLPs where it was given instead of open_clip's.
        norm_eps: LayerNorm's epsilon of (vision, text), likewise.

    Raises:
        StudioError: a norm_eps that is not above 0.
    """

    open_clip: dict[str, Any]
    architecture: str = ""
    activation: tuple[Activation, Activation] | None = None
    norm_eps: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        for name, value in zip(("vision.norm_eps", "text.norm_eps"), self.norm_eps or (), strict=False):
            _check_above_zero(name, value)

    def to_dict(self) -> dict[str, Any]:
        """The config as plain values, as it is written into a checkpoint."""
        return asdict(self)


def model_config(data: object) -> ModelConfig:
    """A `ModelConfig` from plain values, as read from JSON or TOML.

    Raises:
        StudioError: an unknown or missing key, or a value of the wrong type; names the nearest known key.
    """
    return from_plain(ModelConfig, data, "model")


def _check_above_zero(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise StudioError(f"{name} = {value} is impossible: give a finite number above 0.")
