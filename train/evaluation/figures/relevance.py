"""Where names are seen: gradient relevance of patches for a text, models side by side, all panels on one scale.

A map is drawn as shares of its own sum, for relevance has no unit and its size differs between models; a uniform map
would be 100 % by the number of patches everywhere.
"""

import base64
import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from train.evaluation.figures.svg import INK, RULE, SOFT, page, rect, text, width_of
from train.evaluation.spoken import SIDE, Spoken
from train.evaluation.study_file import PLAIN, StudyModel
from train.scenes import describe_scene, render_scene

_CELL, _BETWEEN, _LEFT, _TOP, _HEAD = 168.0, 14.0, 24.0, 64.0, 62.0
_SMALL = 12
# From light to dark with steadily falling lightness, so that order is seen without colour too.
_RAMP = ((250, 247, 236), (188, 206, 222), (104, 152, 198), (35, 95, 158), (8, 32, 76))
_MOST_MODELS = 2


def shown(models: Sequence[StudyModel]) -> list[StudyModel]:
    """The CLIP and the DiffCLIP of the first seed that has both; else the first models of all."""
    for plain in (model for model in models if model.variant == PLAIN):
        for other in (model for model in models if model.variant == "DiffCLIP" and model.seed == plain.seed):
            return [plain, other]
    return list(models[:_MOST_MODELS])


def relevance(models: Sequence[StudyModel]) -> str:
    """The figure: a row a scene, which stands first, and beside it for each text a map of each model."""
    pair = shown(models)
    asked = [(one.seed, one.index) for one in pair[0].relevance]
    scenes = list(dict.fromkeys(asked))
    top = max((float(_share(one).max()) for model in pair for one in model.relevance), default=0.0) or 1.0
    columns = 1 + len(pair) * max(asked.count(scene) for scene in scenes)
    width = 2 * _LEFT + columns * _CELL + (columns - 1) * _BETWEEN
    parts = [text(_LEFT, 30, "Relevance of patches for a text: share of the map, one scale", 14, weight=600)]
    y = _TOP
    for seed, index in scenes:
        drawn = render_scene(describe_scene(seed, index), SIDE)[0]
        parts += [text(_LEFT, y + 52, f"scene {index}", _SMALL, colour=SOFT), _picture(drawn, _LEFT, y + _HEAD)]
        x = _LEFT + _CELL + _BETWEEN
        for at, one in enumerate(pair[0].relevance):
            if (one.seed, one.index) != (seed, index):
                continue
            parts.append(text(x, y + 14, f"“{one.text}”", 13, weight=600))
            for model in pair:
                cosine = f"{model.relevance[at].cosine:.2f}".replace("-", "−")
                parts.append(text(x, y + 34, model.title, _SMALL))
                parts.append(text(x, y + 52, f"cosine {cosine}", _SMALL, colour=SOFT))
                parts += _map(_share(model.relevance[at]), top, x, y + _HEAD, f"{model.title}: {one.text}")
                x += _CELL + _BETWEEN
        y += _HEAD + _CELL + 18
    parts += _bar(top, _LEFT, y + 8, width)
    said = "; ".join(f"{model.title}, {one.text}: cosine {one.cosine:.2f}" for model in pair for one in model.relevance)
    return page(max(width, 640), y + 88, "Where names are seen", said, parts)


def _share(one: Spoken) -> NDArray[np.float64]:
    """Relevance (rows, cols) by its sum; zeros stay zeros."""
    values = np.array([float(value) for value in one.values.split()]).reshape(one.rows, one.cols)
    total = float(values.sum())
    return values / total if total > 0 else values


def colours(values: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Values (...) from 0 to 1 as colours (..., 3) of the ramp."""
    stops = np.array(_RAMP, dtype=np.float64)
    place = np.linspace(0, 1, len(stops))
    return np.stack([np.interp(values, place, stops[:, at]) for at in range(3)], -1).round().astype(np.uint8)


def _map(share: NDArray[np.float64], top: float, x: float, y: float, hint: str) -> list[str]:
    if not share.any():
        return [
            rect(x, y, _CELL, _CELL, "none", RULE, hint),
            text(x + _CELL / 2, y + _CELL / 2, "no relevance", _SMALL, "middle", SOFT),
        ]
    times = max(1, int(2 * _CELL) // max(share.shape))
    large = np.kron(colours(share / top), np.ones((times, times, 1), dtype=np.uint8))
    return [_picture(large, x, y), rect(x, y, _CELL, _CELL, "none", RULE, hint)]


def _picture(pixels: NDArray[np.uint8], x: float, y: float, width: float = _CELL, height: float = _CELL) -> str:
    """Pixels (height, width, 3) inside the figure, so that it is one file."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", optimize=True)
    content = base64.b64encode(buffer.getvalue()).decode()
    return (
        f'<image x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" preserveAspectRatio="none" '
        f'href="data:image/png;base64,{content}"/>'
    )


def _bar(top: float, x: float, y: float, width: float) -> list[str]:
    """The scale: from 0 to the largest share of all panels, in percent of a map."""
    long = 240.0
    pixels = colours(np.linspace(0, 1, 240)[None])
    notes = (
        "Last layer, positive products with the gradient of the cosine (Chefer et al., 2021).",
        "Drawings: OpenMoji (openmoji.org), CC BY-SA 4.0.",
    )
    parts = [_picture(pixels, x, y, long, 14), rect(x, y, long, 14, "none", SOFT)]
    parts += [
        text(x, y + 30, "0", _SMALL, colour=INK),
        text(x + long, y + 30, f"{top:.1%} of a map in one patch", _SMALL, "end"),
    ]
    beside = x + long + 24 + width_of(notes[0]) < width
    for at, note in enumerate(notes):
        left, below = (x + long + 24, y + 11 + 18 * at) if beside else (x, y + 52 + 18 * at)
        parts.append(text(left, below, note, _SMALL, colour=SOFT))
    return parts
