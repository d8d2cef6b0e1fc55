"""Made-up files of studies: real in shape, with the numbers that a test asks for."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from train.evaluation.attention import DIFFERENCE, POSITIVE, READING_ORDER, SIGNED
from train.evaluation.of_each import packed
from train.evaluation.study import pairs_name
from train.evaluation.study_file import StudyFile, differences, models_of, plain, read_study
from train.scenes.pairs import ATTRIBUTES

NAMES = ("plain: top1", "outline: top1", "image_to_text_r1", "text_to_image_r1", *map(pairs_name, ATTRIBUTES))
OWN, KEPT = f"{DIFFERENCE}: auroc", f"{POSITIVE}{DIFFERENCE}: mass"


def around(value: float, spread: float = 0.02) -> dict[str, float]:
    return {"value": value, "low": value - spread, "high": value + spread}


def model_entry(variant: str, seed: int, mean: float = 0.6, gain: float = 0.05) -> dict[str, Any]:
    """A model whose maps all have the AUROC and mass `mean`, picture by picture about it, and `gain` over controls."""
    noise = np.random.default_rng(seed).normal(0, 0.02, 60)
    maps = ("A",) if variant == "CLIP" else tuple(name for name in READING_ORDER if name != "A")
    keys = [
        f"{name}: {metric}" for name in maps for metric in ("auroc", "mass") if metric == "auroc" or name not in SIGNED
    ]
    gains = {} if variant == "CLIP" else {
        own: {"A1": {metric: around(gain)}, f"{start}{DIFFERENCE}, A2 shuffled": {metric: around(-gain)}}
        for own, start, metric in ((DIFFERENCE, "", "auroc"), (POSITIVE + DIFFERENCE, POSITIVE, "mass"))
    }  # fmt: skip
    values = [round(0.002 * number, 4) for number in range(16)]
    both = (around(mean - 0.1), around(mean + 0.1))
    by_map: dict[str, Any] = {name: {} for name in maps}
    for name, metric in (key.split(": ") for key in keys):
        by_map[name][metric] = {"layers": both, "mean": around(mean)}
    spoken = {"seed": 50021, "index": 6, "cosine": 0.4, "rows": 4, "cols": 4, "values": " ".join(map(str, values))}
    return {
        "model": {
            "asked": f"{variant}-{seed}", "name": f"{variant}-{seed}", "variant": variant,
            "training": {"seed": seed}, "weights": {"sha256": "0"},
        },
        "numbers": {name: around(0.5 + 0.01 * seed) for name in NAMES} | {key: around(mean) for key in keys},
        "result": {
            "chance": dict.fromkeys(NAMES, 0.25) | {key: 0.5 if key.endswith("auroc") else 0.12 for key in keys},
            "each": {key: packed((mean + noise).tolist()) for key in keys},
            "attention": {"maps": by_map, "gains": gains},
            "relevance": [{**spoken, "text": "a photo of an anchor"}, {**spoken, "text": "a photo of a <castle>"}],
        },
    }  # fmt: skip


def study_content(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "protocol": {"kind": "SceneStudy"},
        "results": list(entries),
        "differences": plain(differences(models_of(entries))),
    }


def study_file(folder: Path, entries: Sequence[Mapping[str, Any]]) -> StudyFile:
    """The file that such entries make, written and read again."""
    path = folder / "scenes.json"
    path.write_text(json.dumps(study_content(entries)))
    return read_study(path)


def six() -> list[dict[str, Any]]:
    """Four variants of one seed and two of another."""
    kinds = (("CLIP", 0), ("CLIP", 1), ("DiffCLIP", 0), ("DiffCLIP", 1), ("DiffCLIP*", 0), ("DiffCLIP†", 0))
    return [model_entry(*kind) for kind in kinds]
