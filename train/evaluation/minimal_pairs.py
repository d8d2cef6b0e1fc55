"""Minimal pairs: two scenes whose captions differ in one attribute.

A model that names objects may still not know where they are, how many, or which way up. As in MMVP-VLM (Tong et al.,
"Eyes Wide Shut", CVPR 2024) each caption chooses between both pictures: by chance half of the choices are right, and
both choices of a pair in a quarter.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count as numbers

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from models.errors import StudioError
from models.loaded import LoadedModel
from train.evaluation.metrics import Measured, bootstrap_interval
from train.evaluation.spread import ALONE, Ranks
from train.scenes import Scene, describe_scene, render_scene
from train.scenes.pairs import ATTRIBUTES, mentioning, minimal_pair

CAPTION_CHANCE, PAIR_CHANCE = 0.5, 0.25
_AT_ONCE = 32
_MOST_LOOKED_AT = 200  # scenes a pair; rare attributes are in one of twenty


@dataclass(frozen=True)
class PairAccuracy:
    """Of the pairs that differ in one attribute.

    Attributes:
        pairs: how many there are.
        captions: share of captions that choose their own picture; 0.5 by chance.
        both: share of pairs of which both captions do; 0.25 by chance.
    """

    pairs: int
    captions: Measured
    both: Measured


def pairs_of(attribute: str, seed: int, count: int) -> Iterator[tuple[Scene, Scene]]:
    """The first `count` pairs that scenes of a seed give for an attribute.

    Raises:
        StudioError: an unknown attribute, or one that too few scenes have.
    """
    if attribute not in ATTRIBUTES:
        raise StudioError(f"Scenes have no attribute {attribute!r}: choose one of {', '.join(ATTRIBUTES)}.")
    found = 0
    for index in numbers():
        if found == count:
            return
        if index > _MOST_LOOKED_AT * count:
            raise StudioError(f"Only {found} of {index:,} scenes have a counterpart in {attribute}: ask for fewer.")
        scene = mentioning(describe_scene(seed, index), attribute)
        if scene is None:
            continue
        try:
            other = minimal_pair(scene, attribute)[1]
        except StudioError:  # nothing else fits in its place
            continue
        found += 1
        yield scene, other


def minimal_pairs(
    model: LoadedModel, seed: int, count: int, attributes: Sequence[str] = ATTRIBUTES
) -> dict[str, PairAccuracy]:
    """Accuracy by attribute on `count` pairs each, drawn at twice the model's size and preprocessed by it.

    A tie is wrong.

    Raises:
        StudioError: fewer than one pair, or an attribute that scenes do not have.
    """
    return {attribute: pair_accuracy(right_choices(model, attribute, seed, count)) for attribute in attributes}


def pair_accuracy(right: NDArray[np.bool_]) -> PairAccuracy:
    """The accuracy of the choices (n, 2) of pairs."""
    means = right.mean(axis=1)
    both = np.asarray(right.all(axis=1))
    return PairAccuracy(
        len(right),
        Measured(float(means.mean()), *bootstrap_interval(means)),
        Measured(float(both.mean()), *bootstrap_interval(both)),
    )


def right_choices(model: LoadedModel, attribute: str, seed: int, count: int, ranks: Ranks = ALONE) -> NDArray[np.bool_]:
    """Whether each caption of each pair (count, 2) is nearer to its own picture; every rank measures all of them.

    Raises:
        StudioError: fewer than one pair, or an attribute that scenes do not have.
        Stopped: somebody asked for it.
    """
    if count < 1:
        raise StudioError(f"{count} pairs measure nothing: give 1 or more.")
    pairs = list(pairs_of(attribute, seed, count))
    side, device = 2 * max(model.preprocess_settings.input_size), model.module.logit_scale.device
    rows = []
    for start in range(0, len(pairs), _AT_ONCE):
        ranks.go_on()
        scenes = [scene for pair in pairs[start : start + _AT_ONCE] for scene in pair]
        pictures = [model.preprocess(Image.fromarray(render_scene(scene, side)[0]))[0] for scene in scenes]
        images = model.encode_image(torch.stack(pictures).to(device), normalize=True).unflatten(0, (-1, 2))
        ids = model.tokenize([scene.caption for scene in scenes]).to(device)
        texts = model.encode_text(ids, normalize=True).unflatten(0, (-1, 2))
        scores = images.float() @ texts.float().transpose(1, 2)
        own = scores.diagonal(dim1=1, dim2=2)
        rows.append((own > scores.flip(1).diagonal(dim1=1, dim2=2)).cpu().numpy())
    return np.concatenate(rows)
