"""How sparse attention is under another normaliser: what is asked, the α that gives a support, the maps and their rows.

A readout recomputes maps off the unmodified run. An intervention runs the model with the edits, so that a change in an
early layer reaches everything behind it. Both make their maps by the same edits, of `models.intervention`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch
from PIL import Image
from torch import Tensor

from models import AttentionMaps, LoadedModel, Normalizer, Recording, StudioError, record
from models.intervention import (
    Edit,
    Identity,
    MatchedEntropy,
    RandomMask,
    SupportOf,
    TopK,
    UseNormalizer,
    UseSource,
    edited_maps,
    intervene,
)
from models.intervention.edits import WeightRule
from models.loaded import Tower
from models.statistics import support
from studio.filled import filled_text
from studio.panels import SOURCES
from studio.service import Look, vision_grid

Rule = Literal["softmax", "entmax", "top-k", "random keys", "matched entropy", "identity"]
Mode = Literal["readout", "intervention"]
_BISECTIONS = 12

# α and the layers -> what takes the place of softmax. The controls are as sparse as entmax, or as concentrated.
_WEIGHTS: dict[Rule, Callable[[Normalizer, tuple[int, ...]], WeightRule]] = {
    "entmax": lambda normalizer, layers: UseNormalizer(normalizer, layers),
    "top-k": lambda normalizer, layers: TopK(SupportOf(normalizer), layers),
    "random keys": lambda normalizer, layers: RandomMask(SupportOf(normalizer), layers=layers),
    "matched entropy": lambda normalizer, layers: MatchedEntropy(normalizer, layers),
    "identity": lambda _, layers: Identity(layers),
}
RULES: tuple[Rule, ...] = ("softmax", *_WEIGHTS)
RULE_MEANS: dict[Rule, str] = {
    "softmax": "The model's own normaliser.",
    "entmax": "α-entmax: low scores get exactly zero.",
    "top-k": "Softmax over as many keys as entmax keeps in that row, the highest: as sparse, without entmax's shape.",
    "random keys": "Softmax over as many keys as entmax keeps in that row, drawn at random.",
    "matched entropy": "Softmax at the temperature at which each row has entmax's entropy: as concentrated, no zeros.",
    "identity": "Every token attends to itself alone: what entmax of a self-correlation becomes when it is sharp.",
}


@dataclass(frozen=True)
class Asked:
    """What is asked of one model.

    Attributes:
        alpha: of the normaliser, 1 to 2.
        source: what makes the scores, a key of `studio.panels.SOURCES`.
        layers: where source and normaliser are changed in an intervention; None for all layers.
    """

    alpha: float = 1.0
    source: str = "qk"
    layers: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise StudioError(f"Source {self.source!r} is unknown: choose {', '.join(SOURCES)}.")


@dataclass(frozen=True)
class SparseRun:
    """One model, with what its maps are worked out from.

    Attributes:
        look: the model as it is.
        asked: what was changed.
        recording: of the unmodified run for a readout, of the changed run for an intervention.
        embedding: of the picture (1, E) in the recorded run, of length 1.
        mode: which of the two it is.
    """

    look: Look
    asked: Asked
    recording: Recording
    embedding: Tensor
    mode: Mode

    def maps(self, layer: int, rule: Rule = "entmax") -> AttentionMaps:
        """The maps of a layer under a rule, off the recorded run.

        Raises:
            StudioError: no such layer or source in it.
        """
        tower = self.look.model.vision
        changed = self.asked.layers is None or layer in self.asked.layers
        if not changed:
            return edited_maps(tower, [], layer, self.recording[layer])
        edits = rule_edits(tower, replace(self.asked, layers=(layer,)), rule)
        return edited_maps(tower, edits, layer, self.recording[layer])


def rule_edits(tower: Tower, asked: Asked, rule: Rule) -> list[Edit]:
    """What makes the maps of a run: the source and the rule, in the layers that are asked for.

    A pooling head has learned queries, so without a layer being named another source, and the identity, leave it out.
    """
    every = tuple(range(tower.layers))
    layers = every if asked.layers is None else asked.layers
    over_patches = tuple(range(len(tower.blocks))) if asked.layers is None else layers
    edits: list[Edit] = []
    if SOURCES[asked.source] != ("qk",) and rule != "identity":
        edits.append(UseSource(SOURCES[asked.source], layers=over_patches))
    if rule == "softmax" or (rule != "identity" and asked.alpha == 1.0):
        return edits
    edits.append(_WEIGHTS[rule](Normalizer(asked.alpha), over_patches if rule == "identity" else layers))
    return edits


def read_out(look: Look, asked: Asked) -> SparseRun:
    """The maps as they would be, off the run that the model made."""
    return SparseRun(look, replace(asked, layers=None), look.recording, look.embedding, "readout")


def run_with(look: Look, image: Image.Image, asked: Asked, rule: Rule = "entmax") -> SparseRun:
    """The model run as changed.

    Raises:
        StudioError: a source or a rule that does not fit; the sentence names the layer.
    """
    model = look.model
    pixels, _ = model.preprocess(image)
    edits = rule_edits(model.vision, asked, rule)
    with model.lock, record(model.vision) as recording, intervene(model.vision, edits):
        embedding = model.encode_image(pixels[None], normalize=True)
    return SparseRun(look, asked, recording, embedding, "intervention")


def layer_support(run: SparseRun, layer: int) -> float:
    """Mean share of the keys of a layer that get a weight, over maps, heads and queries; 0 to 1."""
    maps = run.maps(layer)
    parts = [maps.a1] if maps.a2 is None else [maps.a1, maps.a2]
    return float(torch.stack([support(part).float() / part.shape[-1] for part in parts]).mean())


def alpha_for_support(look: Look, asked: Asked, layer: int, share: float) -> float:
    """The α, to a thousandth, at which a layer's support is nearest to `share` of its keys, read off the model's run.

    1 where even softmax keeps fewer, 2 where even sparsemax keeps more.
    """
    keep = partial(_support_at, look, asked, layer)
    low, high = 1.0, 2.0
    if keep(low) <= share:
        return low
    if keep(high) >= share:
        return high
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if keep(middle) > share else (low, middle)
    # Support falls in steps, so the nearer end is taken, and of equally near ones the sparser.
    nearest = low if abs(keep(low) - share) < abs(keep(high) - share) else high
    return round(nearest, 3)


def _support_at(look: Look, asked: Asked, layer: int, alpha: float) -> float:
    return layer_support(read_out(look, replace(asked, alpha=alpha)), layer)


def existing_layer(model: LoadedModel, layer: int) -> int:
    """The layer, if the model has it.

    Raises:
        StudioError: it has not, or its tower has no attention at all.
    """
    tower = model.vision
    if not tower.layers:
        raise StudioError(tower.reason or f"{model.title} has no attention to look at.")
    if not 0 <= layer < tower.layers:
        raise StudioError(f"{model.title} has no layer {layer}: choose 0–{tower.layers - 1}.")
    return layer


def parse_query(text: str) -> tuple[int, int] | None:
    """(row, col) of a patch from "8, 3"; None, the readout token, from "CLS" or nothing.

    Raises:
        StudioError: anything else.
    """
    cleaned = filled_text(text, "Query").strip()
    if cleaned.lower() in ("", "cls"):
        return None
    parts = cleaned.strip("()").split(",")
    if len(parts) == 2 and all(part.strip().isdecimal() and len(part.strip()) < 5 for part in parts):
        return int(parts[0]), int(parts[1])
    raise StudioError(f"The query {cleaned[:40]!r} is no patch: write its row and column, as in “8, 3”, or CLS.")


def parse_head(text: str, model: LoadedModel) -> int | None:
    """A head's number, or None for the mean over heads.

    Raises:
        StudioError: the model has no such head.
    """
    heads = model.vision.heads
    if str(text).strip().lower() in ("", "mean", "none"):
        return None
    if str(text).strip().isdecimal() and int(text) < heads:
        return int(text)
    raise StudioError(f"{model.title} has no head {str(text)[:20]!r}: choose mean or 0–{heads - 1}.")


def same_patch(query: tuple[int, int] | None, asked_of: Look, look: Look) -> tuple[int, int] | None:
    """The patch of `look`'s model on the pixels of a patch of the model that the query was chosen for.

    Raises:
        StudioError: no such patch, or pixels that this model did not see.
    """
    if query is None:
        return None
    grid = vision_grid(asked_of.model)
    top, left, bottom, right = asked_of.geometry.patch_box(*query, grid)
    if asked_of.model is look.model:
        return query
    found = look.geometry.patch_at((top + bottom) / 2, (left + right) / 2, vision_grid(look.model))
    if found is None:
        raise StudioError(f"{look.model.title} did not see the query's pixels: choose a patch inside of what it saw.")
    return found


def queries_of(look: Look, patch: tuple[int, int] | None, count: int) -> slice:
    """Which of `count` queries are read: the patch, else CLS, the one of a pooling head, or all patches without CLS."""
    grid = vision_grid(look.model)
    if count != grid.tokens:
        return slice(0, 1)
    if patch is not None:
        return slice(grid.token(*patch), grid.token(*patch) + 1)
    return slice(grid.prefix, None) if grid.cls is None else slice(0, 1)


def query_words(look: Look, patch: tuple[int, int] | None, count: int) -> str:
    """The same in words."""
    grid = vision_grid(look.model)
    if count != grid.tokens:
        return "the pooling query"
    if patch is not None:
        return f"patch ({patch[0]}, {patch[1]})"
    return "mean over patches" if grid.cls is None else "CLS"
