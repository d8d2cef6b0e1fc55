"""Patch dropout: while training, the vision tower sees a random part of its patches (Li et al., "FLIP", 2022)."""

from timm.layers import PatchDropout  # pyright: ignore[reportPrivateImportUsage]
from torch import nn

from models.build import ClipModule
from models.errors import StudioError


def set_patch_dropout(clip: ClipModule, share: float) -> None:
    """Let the vision tower drop this share of its patches while it trains, others for every picture; 0 drops none.

    Prefix tokens stay. Which patches go is drawn on the tower's device; there is no state to save.

    Raises:
        StudioError: a share below 0 or not below 1, or a tower that has no place for patch dropout.
    """
    if not 0.0 <= share < 1.0:
        raise StudioError(f"A patch dropout of {share} is no share of patches to drop: use 0 to below 1, as 0.5.")
    visual: nn.Module = clip.visual  # type: ignore[assignment]
    trunk = getattr(visual, "trunk", visual)
    name = "patch_drop" if trunk is not visual else "patch_dropout"
    if not hasattr(trunk, name):
        raise StudioError(f"{type(trunk).__name__} has no patch dropout: use a vision transformer, or a share of 0.")
    prefix = getattr(trunk, "num_prefix_tokens", 1)
    setattr(trunk, name, PatchDropout(share, num_prefix_tokens=prefix) if share else nn.Identity())
