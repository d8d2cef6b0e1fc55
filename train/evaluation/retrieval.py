"""Retrieval between pictures and captions, both ways (Karpathy and Li, CVPR 2015; Radford et al., ICML 2021)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from models.loaded import LoadedModel
from train.data.sample import Reason, Source
from train.evaluation.embed import embed_captions, embed_pictures
from train.evaluation.metrics import Measured, positive_ranks, recall
from train.evaluation.spread import ALONE, Ranks


@dataclass(frozen=True)
class Recalls:
    """Shares of queries for which a right answer is the first, among the first five, among the first ten.

    None where there are fewer candidates than that.
    """

    r1: Measured
    r5: Measured | None
    r10: Measured | None


@dataclass(frozen=True)
class Retrieval:
    """What was measured, and on what.

    Attributes:
        model: its name.
        images: pictures, each of which is a query and a candidate; those in `skipped` are neither.
        captions: likewise.
        repeated_captions: those whose words stood in an earlier one. Only its own pictures are right for a caption,
            so these cannot be told apart and bound what a model can reach.
        cut_captions: those of which the model did not see the tail.
        image_to_text: pictures are queries; any caption of the picture is right.
        text_to_image: captions are queries.
        skipped: pictures that could not be read, by reason.
    """

    model: str
    images: int
    captions: int
    repeated_captions: int
    cut_captions: int
    image_to_text: Recalls
    text_to_image: Recalls
    skipped: Mapping[Reason, int]


def retrieve(
    model: LoadedModel,
    source: Source,
    indices: NDArray[np.int64] | None = None,
    ranks: Ranks = ALONE,
    workers: int = 0,
) -> Retrieval:
    """Search the captions of a source by its pictures, and its pictures by their captions; a collective.

    Captions are embedded as they stand, without a template.

    Args:
        indices: the samples that take part; None for all.

    Raises:
        StudioError: no picture, or none that can be read; or the model has no tokenizer.
    """
    return retrieve_each(model, source, indices, ranks, workers)[0]


def retrieve_each(
    model: LoadedModel,
    source: Source,
    indices: NDArray[np.int64] | None = None,
    ranks: Ranks = ALONE,
    workers: int = 0,
) -> tuple[Retrieval, dict[str, NDArray[np.int64]]]:
    """As `retrieve`, with the rank, from 1, of each query's best answer: "image_to_text" and "text_to_image"."""
    where = np.arange(len(source)) if indices is None else indices
    pictures = embed_pictures(model, source, where, ranks, workers)
    texts = embed_captions(model, pictures, ranks)
    # Numbers without the pictures that could not be read; every one that could has a caption.
    numbers = torch.cumsum(pictures.readable, 0) - 1
    images, of_image = pictures.features[pictures.readable], numbers[pictures.readable]
    of_text = numbers[texts.pictures]
    of_images = positive_ranks(images, texts.features, of_image, of_text)
    of_texts = positive_ranks(texts.features, images, of_text, of_image)
    measured = Retrieval(
        model.name,
        len(images),
        len(of_text),
        texts.repeated,
        texts.cut,
        _recalls(of_images, of_image, len(of_text)),
        _recalls(of_texts, of_text, len(images)),
        pictures.skipped,
    )
    return measured, {"image_to_text": of_images.numpy(), "text_to_image": of_texts.numpy()}


def _recalls(found: torch.Tensor, pictures: torch.Tensor, candidates: int) -> Recalls:
    ranks, groups = found.numpy(), pictures.numpy()
    first = recall(ranks, 1, groups, candidates)
    assert first is not None  # there is always one candidate
    return Recalls(first, recall(ranks, 5, groups, candidates), recall(ranks, 10, groups, candidates))
