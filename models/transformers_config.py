"""What a folder of the Transformers library says of a CLIP in config.json and preprocessor_config.json.

Its weights do not tell activation, heads, epsilon or the picture's transform; these two files do.
"""

import json
from pathlib import Path
from typing import Any

from models.errors import CheckpointError
from models.overrides import Overrides, overrides_of

CONFIG, PREPROCESSOR = "config.json", "preprocessor_config.json"
_ACTIVATIONS = {"quick_gelu": "quick_gelu", "gelu": "gelu"}
# Pillow's numbers for its filters.
_FILTERS = {2: "bilinear", 3: "bicubic"}


def transformers_settings(folder: Path) -> Overrides:
    """What the folder's configs say, as settings; what they leave out stays None.

    Raises:
        CheckpointError: an activation or filter that we do not compute, or a file that is not readable JSON.
    """
    config, pictures = _read(folder / CONFIG), _read(folder / PREPROCESSOR)
    towers = [_table(config, name) for name in ("vision_config", "text_config")]
    settings = {
        "heads": _pair(towers, "num_attention_heads"),
        "norm_eps": _pair(towers, "layer_norm_eps"),
        "activation": _pair(towers, "hidden_act", _ACTIVATIONS),
        "mean": _triple(pictures, "image_mean"),
        "std": _triple(pictures, "image_std"),
        "interpolation": _FILTERS.get(pictures.get("resample", -1)),
    }
    return overrides_of(settings)


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not readable JSON ({error}): fetch it again.") from error
    return data if isinstance(data, dict) else {}


def _table(config: dict[str, Any], name: str) -> dict[str, Any]:
    found = config.get(name)
    return found if isinstance(found, dict) else {}


def _pair(towers: list[dict[str, Any]], name: str, known: dict[str, str] | None = None) -> tuple[Any, ...] | None:
    """The value of both towers, or None where one does not say it; names are translated by `known`."""
    found = tuple(tower.get(name) for tower in towers)
    if None in found:
        return None
    if known is None:
        return found
    for value in found:
        if value not in known:
            raise CheckpointError(
                f"{name} = {value!r} in {CONFIG} is no activation of CLIP: {' and '.join(known)} are computed here."
            )
    return tuple(known[str(value)] for value in found)


def _triple(config: dict[str, Any], name: str) -> tuple[float, ...] | None:
    found = config.get(name)
    return tuple(map(float, found)) if isinstance(found, list) and len(found) == 3 else None
