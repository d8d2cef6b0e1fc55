"""What a person may say about a checkpoint instead of what its file says, or where it says nothing.

Some of what decides a result is in no weight: lambda_init, activations, LayerNorm epsilons, the head width, the
picture's transform, what becomes of too long a text. Foreign files leave it out; each of these can be given.
"""

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import torch
from torch import Tensor

from models.config import Activation, LambdaConfig, ModelConfig, OpenClipConfig
from models.errors import CheckpointError
from models.layout import TokenGrid
from models.plain import from_plain
from models.positions import resize_positions
from models.preprocess import Preprocess
from models.vocabulary import Truncation

_POSITIONS = ("visual.positional_embedding", "visual.trunk.pos_embed")


@dataclass(frozen=True)
class Overrides:
    """Settings that take the place of a checkpoint's own; None leaves them. Pairs are (vision, text).

    Attributes:
        heads: raw heads of each tower, for weights that do not tell them.
        lambda_init: a constant, or "depth" for 0.8 - 0.6 exp(-0.3 l).
        activation: of each tower's MLPs.
        norm_eps: LayerNorm's epsilon of each tower.
        grid: (rows, cols) of patches; position embeddings are resampled to it.
        file_grid: (rows, cols) that the file's own position embeddings are of, where they are no square.
        mean: of the picture's channels, 0 to 1.
        std: likewise.
        resize: "shortest" (centre crop) or "squash".
        interpolation: "bicubic" or "bilinear".
        truncation: "keep_end" or "cut_end", see `models.vocabulary.TokenizerRule`.
    """

    heads: tuple[int, int] | None = None
    lambda_init: float | str | None = None
    activation: tuple[Activation, Activation] | None = None
    norm_eps: tuple[float, float] | None = None
    grid: tuple[int, int] | None = None
    file_grid: tuple[int, int] | None = None
    mean: tuple[float, float, float] | None = None
    std: tuple[float, float, float] | None = None
    resize: Literal["shortest", "squash"] | None = None
    interpolation: Literal["bicubic", "bilinear"] | None = None
    truncation: Truncation | None = None

    def settings(self) -> dict[str, Any]:
        """What was given, as `models.zoo.load_model` takes it."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}

    def said(self) -> tuple[str, ...]:
        """What was given, for people: "lambda_init = 0.5"."""
        return tuple(f"{name} = {value}" for name, value in self.settings().items())


def overrides_of(settings: dict[str, Any]) -> Overrides:
    """`Overrides` from keyword arguments, every key and type checked.

    Raises:
        StudioError: an unknown key or a value of the wrong type; the nearest key is named.
    """
    return from_plain(Overrides, {key: value for key, value in settings.items() if value is not None}, "load_model")


def of_config(
    config: ModelConfig | OpenClipConfig, overrides: Overrides, patch: tuple[int, int]
) -> ModelConfig | OpenClipConfig:
    """The config with what the overrides say of it; `patch` is (height, width) of a patch in pixels.

    Raises:
        CheckpointError: the heads of a config that has them, or a lambda of a model without one.
    """
    if isinstance(config, OpenClipConfig):
        return _of_open_clip(config, overrides, patch)
    vision, text = config.vision, config.text
    if overrides.heads is not None:
        raws = (vision.raw_heads, text.heads)
        if raws != tuple(overrides.heads):
            raise CheckpointError(
                f"heads = {overrides.heads} cannot be set: the checkpoint says that it has {raws}; leave it out."
            )
    if overrides.lambda_init is not None:
        if "differential" not in (vision.attention, text.attention):
            raise CheckpointError(
                f"lambda_init = {overrides.lambda_init} was given, but neither tower has one: leave it out."
            )
        config = replace(config, lambda_init=lambda_rule(overrides.lambda_init))
    if overrides.activation is not None:
        vision, text = (replace(c, activation=a) for c, a in zip((vision, text), overrides.activation, strict=True))
    if overrides.norm_eps is not None:
        vision, text = (replace(c, norm_eps=e) for c, e in zip((vision, text), overrides.norm_eps, strict=True))
    if overrides.grid is not None:
        vision = replace(vision, image_size=_pixels(overrides.grid, patch))
    return replace(config, vision=vision, text=text)


def _of_open_clip(config: OpenClipConfig, overrides: Overrides, patch: tuple[int, int]) -> OpenClipConfig:
    for name in ("heads", "lambda_init"):
        if getattr(overrides, name) is not None:
            raise CheckpointError(
                f"{name} = {getattr(overrides, name)} cannot be set for a model of open_clip's own zoo: leave it out."
            )
    if overrides.grid is not None:
        vision = {**config.open_clip["vision_cfg"], "image_size": _pixels(overrides.grid, patch)}
        config = replace(config, open_clip={**config.open_clip, "vision_cfg": vision})
    return replace(
        config,
        activation=overrides.activation or config.activation,
        norm_eps=overrides.norm_eps or config.norm_eps,
    )


def lambda_rule(value: float | str) -> LambdaConfig:
    """A lambda rule as people write it: a number, or "depth".

    Raises:
        CheckpointError: any other word.
    """
    if isinstance(value, str):
        if value != "depth":
            raise CheckpointError(f"lambda_init = {value!r} is unknown: give a number, or 'depth'.")
        return LambdaConfig("depth")
    if not math.isfinite(value):
        raise CheckpointError(f"lambda_init = {value} is no number to start from: give a finite one, or 'depth'.")
    return LambdaConfig("constant", float(value))


def of_preprocess(preprocess: Preprocess, overrides: Overrides, patch: tuple[int, int]) -> Preprocess:
    """The picture's transform with what the overrides say of it."""
    return replace(
        preprocess,
        size=_pixels(overrides.grid, patch) if overrides.grid else preprocess.size,
        mean=overrides.mean or preprocess.mean,
        std=overrides.std or preprocess.std,
        mode=overrides.resize or preprocess.mode,
        interpolation=overrides.interpolation or preprocess.interpolation,
    )


def resize_state(
    state: dict[str, Tensor], old: tuple[int, int], new: tuple[int, int], prefix: int
) -> dict[str, Tensor]:
    """A state dict whose vision position embeddings are resampled from one (rows, cols) to another.

    `prefix` tokens stand before the patches; where the embedding leaves them out, so does the result.

    Raises:
        CheckpointError: an embedding that is not of the old grid.
    """
    resized = dict(state)
    for name in _POSITIONS:
        if name not in state or old == new:
            continue
        embedding = state[name]
        rows = embedding.reshape(-1, embedding.shape[-1])
        found = rows.shape[0] - old[0] * old[1]
        if found not in (0, prefix):
            raise CheckpointError(
                f"{name} has {rows.shape[0]} positions, which is not a grid of {old[0]} x {old[1]} patches with or "
                f"without {prefix} prefix tokens: its positions cannot be resampled."
            )
        again = resize_positions(rows.float(), TokenGrid(found, *old), TokenGrid(found, *new)).to(embedding.dtype)
        resized[name] = again.reshape(*embedding.shape[:-2], *again.shape) if embedding.ndim == 3 else again
    return resized


def grid_of_state(state: dict[str, Tensor], layout: TokenGrid) -> tuple[int, int]:
    """(rows, cols) of the position embeddings in a state dict: those of `layout` where the number fits, else a square.

    Raises:
        CheckpointError: their number is that of neither.
    """
    for name in _POSITIONS:
        if name not in state:
            continue
        count = state[name].shape[-2] if state[name].ndim > 1 else 0
        if count in (layout.patches, layout.tokens):
            break
        for prefix in (layout.prefix, 0):
            side = math.isqrt(max(0, count - prefix))
            if side and side * side == count - prefix:
                return side, side
        raise CheckpointError(
            f"{name} has {count} positions, and neither {count} nor {count - layout.prefix} is a square number of "
            "patches: the weights are of another architecture."
        )
    return layout.rows, layout.cols


def grid_of_positions(count: int, where: str) -> tuple[int, int, int]:
    """(prefix, rows, cols) of a number of positions: a square number of patches, or that and a CLS token.

    Raises:
        CheckpointError: neither n nor n - 1 is a square.
    """
    for prefix in (1, 0):
        side = round((count - prefix) ** 0.5) if count > prefix else 0
        if side > 0 and side * side == count - prefix:
            return prefix, side, side
    raise CheckpointError(
        f"{where} has {count} positions: neither {count} nor {count - 1} is a square number of patches, so the grid "
        "cannot be told; give file_grid=(rows, cols)."
    )


def _pixels(grid: tuple[int, int], patch: tuple[int, int]) -> int | tuple[int, int]:
    if min(grid) < 1:
        raise CheckpointError(f"grid = {grid} is impossible: give rows and columns of at least 1.")
    height, width = grid[0] * patch[0], grid[1] * patch[1]
    return height if height == width else (height, width)


def as_float32(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Floating-point tensors in float32, the rest as they are."""
    return {key: value.to(torch.float32) if value.is_floating_point() else value for key, value in state.items()}
