"""Zero-shot classification (Radford et al., 2021, section 3.1): of pictures in folders, and of one-object scenes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.errors import StudioError
from models.loaded import LoadedModel
from models.templates import TEMPLATE_SETS, TemplateSet
from models.text_classifier import SLOT, text_classifier
from train.data.sample import Reason
from train.evaluation.embed import embed_pictures, placed
from train.evaluation.labelled import Labelled, OneObjectScenes
from train.evaluation.metrics import Measured, label_ranks, mean_class_recall, within
from train.evaluation.metrics import bootstrap_interval as bootstrap_interval
from train.evaluation.spread import ALONE, Ranks
from train.scenes import article

# Scenes of this seed are used for evaluation and never for training.
SEED = 50_021
SCENES = TEMPLATE_SETS["scenes"]
(TEMPLATE,) = SCENES.texts
_ROWS, _CLASSES_AT_ONCE = 4096, 50


@dataclass(frozen=True)
class Classification:
    """What was measured, and on what.

    Attributes:
        model: its name.
        images: pictures that were classified; those in `skipped` were not.
        classes: K, all of which are candidates.
        classes_seen: those that a classified picture is of.
        templates: name of the set.
        unknown_words: words of classes and templates of which the model has learned nothing, where that is known.
        top1, top5: shares of pictures whose class is the best, or among the best five; top5 is None with fewer classes.
        mean_class_recall: of top1, over the classes that are seen.
        skipped: pictures that could not be read, by reason.
    """

    model: str
    images: int
    classes: int
    classes_seen: int
    templates: str
    unknown_words: tuple[str, ...]
    top1: Measured
    top5: Measured | None
    mean_class_recall: Measured
    skipped: Mapping[Reason, int]


@dataclass(frozen=True)
class ZeroShotResult:
    """What a model card tells; accuracies are shares, the interval a 95 % bootstrap over images."""

    model: str
    images: int
    classes: int
    seed: int
    template: str
    top1: float
    top1_interval: tuple[float, float]
    top5: float


def classify(
    model: LoadedModel,
    labelled: Labelled,
    templates: TemplateSet,
    indices: NDArray[np.int64] | None = None,
    ranks: Ranks = ALONE,
    workers: int = 0,
) -> Classification:
    """Classify pictures over all classes of `labelled`; a collective.

    A class is the direction of its name, normalised, averaged over templates and normalised again; of synonyms the
    best counts. One-object scenes under their own template get "a" or "an" as it should be; everything else is put
    into its template as it is.

    Args:
        indices: the samples that are classified; None for all.

    Raises:
        StudioError: no picture, or none that can be read; or the model has no tokenizer.
        Stopped: somebody asked for it.
    """
    return classify_each(model, labelled, templates, indices, ranks, workers)[0]


def classify_each(
    model: LoadedModel,
    labelled: Labelled,
    templates: TemplateSet,
    indices: NDArray[np.int64] | None = None,
    ranks: Ranks = ALONE,
    workers: int = 0,
) -> tuple[Classification, NDArray[np.int64]]:
    """As `classify`, with the rank (n,), from 1, of the class of each picture that could be read."""
    where = np.arange(len(labelled.labels)) if indices is None else indices
    directions, owners = _directions(placed(model), labelled, templates, ranks)
    pictures = embed_pictures(model, labelled.source, where, ranks, workers)
    kept = pictures.readable.numpy()
    labels = labelled.labels[where][kept]
    features, truth = pictures.features[pictures.readable], torch.from_numpy(labels)
    count = len(labelled.classes)
    parts = zip(features.split(_ROWS), truth.split(_ROWS), strict=True)
    found = torch.cat(
        [label_ranks(_of_classes(part @ directions.T, owners, count), own) for part, own in parts]
    ).numpy()
    top1 = within(found, 1, count)
    assert top1 is not None  # there is always one candidate
    said = (*labelled.classes, *(text.replace(SLOT, " ") for text in templates.texts))
    unknown = dict.fromkeys(word for text in said for word in model.tokenizer.unknown_words(text))
    measured = Classification(
        model.name,
        len(labels),
        count,
        len(np.unique(labels)),
        templates.name,
        tuple(unknown),
        top1,
        within(found, 5, count),
        mean_class_recall(found <= 1, labels),
        pictures.skipped,
    )
    return measured, found


def _directions(model: LoadedModel, labelled: Labelled, templates: TemplateSet, ranks: Ranks) -> tuple[Tensor, Tensor]:
    """Unit embeddings (S, E) of phrases on the CPU, and the class (S,) of each."""
    if isinstance(labelled.source, OneObjectScenes) and templates == SCENES:
        return class_embeddings(model, labelled.classes).float().cpu(), torch.arange(len(labelled.classes))
    embeddings, owners = [], []
    for start in range(0, len(labelled.classes), _CLASSES_AT_ONCE):
        ranks.go_on()
        made = text_classifier(model, labelled.classes[start : start + _CLASSES_AT_ONCE], templates.texts)
        embeddings.append(made.embeddings.cpu())
        owners += [start + owner for owner in made.owners]
    return torch.cat(embeddings), torch.tensor(owners)


def _of_classes(scores: Tensor, owners: Tensor, count: int) -> Tensor:
    """Scores of phrases (n, S) -> of classes (n, K): the highest of each class's phrases."""
    lowest = scores.new_full((len(scores), count), -torch.inf)
    return lowest.scatter_reduce(1, owners.expand(len(scores), -1), scores, "amax")


def of_scenes(result: Classification, seed: int = SEED) -> ZeroShotResult:
    """What a model card tells of a classification of one-object scenes."""
    if result.templates != SCENES.name or result.top5 is None:
        raise StudioError(f"A card tells of scenes under {TEMPLATE!r}, not under {result.templates}: measure those.")
    interval = (result.top1.low, result.top1.high)
    return ZeroShotResult(
        result.model, result.images, result.classes, seed, TEMPLATE, result.top1.value, interval, result.top5.value
    )


def class_embeddings(model: LoadedModel, names: Sequence[str]) -> Tensor:
    """Unit text embeddings (classes, E) of the template filled with each name, "a" or "an" as it should be."""
    prompts = [TEMPLATE.replace("a {}", f"{article(name)} {name}") for name in names]
    return model.encode_text(model.tokenize(prompts), normalize=True)
