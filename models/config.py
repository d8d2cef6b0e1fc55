"""What a model is made of: an open_clip config, the kind of attention of each tower, and its lambda rule."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from models.diff_attention import LambdaInit, check_head_pairs, constant_lambda, depth_lambda
from models.errors import StudioError
from models.plain import from_plain

AttentionKind = Literal["standard", "differential"]


@dataclass(frozen=True)
class VisionConfig:
    """The vision tower: a ViT of `layers` blocks of width `width` over patches of `patch_size` pixels.

    `image_size` is the side of the square input in pixels. `head_width` is d, so there are
    width / head_width raw heads.
    """

    layers: int
    width: int
    head_width: int
    patch_size: int
    image_size: int
    mlp_ratio: float = 4.0
    attention: AttentionKind = "standard"

    @property
    def raw_heads(self) -> int:
        """Heads before pairing."""
        return self.width // self.head_width

    @property
    def grid(self) -> int:
        """Patches on a side."""
        return self.image_size // self.patch_size


@dataclass(frozen=True)
class TextConfig:
    """The text tower: a causal transformer read out at the end-of-text token."""

    layers: int
    width: int
    heads: int
    vocab_size: int
    context_length: int
    mlp_ratio: float = 4.0
    attention: AttentionKind = "standard"


@dataclass(frozen=True)
class LambdaConfig:
    """lambda_init of each layer: `constant` (`value` everywhere) or `depth` (0.8 - 0.6 exp(-0.3 l), l from 0)."""

    rule: Literal["constant", "depth"] = "constant"
    value: float = 0.8

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
    quick_gelu: bool = False

    def __post_init__(self) -> None:
        if (
            min(self.vision.layers, self.text.layers, self.embed_dim, self.text.vocab_size, self.text.context_length)
            < 1
        ):
            raise StudioError("layers, embed_dim, vocab_size and context_length must be at least 1.")
        for name, width, parts in (
            ("vision.width by vision.head_width", self.vision.width, self.vision.head_width),
            ("text.width by text.heads", self.text.width, self.text.heads),
            ("vision.image_size by vision.patch_size", self.vision.image_size, self.vision.patch_size),
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


def model_config(data: object) -> ModelConfig:
    """A `ModelConfig` from plain values, as read from JSON or TOML.

    Raises:
        StudioError: an unknown or missing key, or a value of the wrong type; names the nearest known key.
    """
    return from_plain(ModelConfig, data, "model")
