"""What a figure was made from, in words: each model and the picture, with the hashes by which they are known."""

from studio.recipe import Found, Picture
from studio.render.numbers import rounded


def model_line(found: Found, layer: int | None = None) -> str:
    """One model as it was found; with a layer, its lambda there."""
    height, width = found.preprocess.input_size
    how = "squashed" if found.preprocess.mode == "squash" else "short side, centre crop"
    known = found.lam is not None and layer is not None and layer < len(found.lam)
    lam = f" · λ of layer {layer} {rounded(found.lam[layer], 4)}" if known else ""  # type: ignore[index]
    read = f"input {width} × {height}, {how}, {found.preprocess.interpolation}"
    return f"{_weights(found)} · {read}{lam}{_assumed(found)}"


def text_model_line(found: Found) -> str:
    """One model as it was found, of which pictures have no part in the figure."""
    return f"{_weights(found)}{_assumed(found)}"


def _weights(found: Found) -> str:
    digest = f"weights sha256 {found.sha256[:12]}" if found.sha256 else "weight file no longer at hand"
    return f"{found.title} · {digest}"


def _assumed(found: Found) -> str:
    return f" · assumed: {'; '.join(found.assumed)}" if found.assumed else ""


def picture_line(picture: Picture, window: tuple[int, int, int, int]) -> str:
    """The picture; `window` (top, left, bottom, right) is the part of it that is shown."""
    shown = window[2] - window[0], window[3] - window[1]
    whole = shown == (picture.height, picture.width)
    part = "" if whole else f", shown are the {shown[1]} × {shown[0]} around what the models saw"
    named = f"{picture.name} · " if picture.name else ""
    return f"Picture · {named}{picture.width} × {picture.height}{part} · sha256 of its pixels {picture.sha256[:12]}…"
