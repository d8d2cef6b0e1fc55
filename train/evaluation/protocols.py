"""What is measured, as settings; each kind is known by its first key.

{ scenes = 500 }                                    zero-shot, one-object scenes over all object names
{ folder = "imagenet/val", templates = "openai-7" } zero-shot, a folder of pictures a class
{ retrieval = { tars = "flickr/test" } }            both ways between pictures and captions
{ study = 500 }                                     everything that scenes can tell of a model
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.errors import StudioError
from models.loaded import LoadedModel
from models.templates import TemplateSet, template_set
from train.data.config import CsvData, Data, TarData
from train.evaluation.captioned import Captioned, open_captioned
from train.evaluation.labelled import Labelled, one_object_scenes, open_labelled_folder
from train.evaluation.metrics import Measured
from train.evaluation.retrieval import Retrieval, retrieve
from train.evaluation.spread import ALONE, Ranks
from train.evaluation.study import Sizes, Study, study, study_shares
from train.evaluation.zero_shot import SEED, Classification, classify


@dataclass(frozen=True)
class SceneClasses:
    """Zero-shot classification of the first `scenes` one-object scenes of the seed that is kept for evaluation."""

    scenes: int = 500
    templates: str = "scenes"


@dataclass(frozen=True)
class FolderClasses:
    """Zero-shot classification of the pictures in a folder of folders; of `images` of them, or of all for 0."""

    folder: str
    templates: str = "openai-80"
    images: int = 0


@dataclass(frozen=True)
class CaptionRetrieval:
    """Retrieval both ways between `images` of the pictures, or all for 0, and their captions."""

    retrieval: Data
    images: int = 0


@dataclass(frozen=True)
class SceneStudy:
    """Names in every rendering and captions of `study` unseen scenes, `pairs` minimal pairs for each attribute, and
    where attention lies on `attention` scenes.
    """

    study: int = 500
    pairs: int = 200
    attention: int = 300


Protocol = SceneClasses | FolderClasses | CaptionRetrieval | SceneStudy


@dataclass(frozen=True, eq=False)
class ZeroShotTask:
    """Labelled pictures, of which `indices` are classified under these templates."""

    name: str
    labelled: Labelled
    templates: TemplateSet
    indices: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RetrievalTask:
    """Captioned pictures, of which `indices` take part."""

    name: str
    captioned: Captioned
    indices: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StudyTask:
    """Scenes, whose first `sizes.scenes` with one object are `labelled`."""

    name: str
    labelled: Labelled
    sizes: Sizes
    indices: NDArray[np.int64]


Task = ZeroShotTask | RetrievalTask | StudyTask
Result = Classification | Retrieval | Study


def open_task(protocol: Protocol, side: int) -> Task:
    """Find the data of a protocol; scenes are drawn at `side` pixels, for which twice the model's input is meant.

    Raises:
        StudioError: there are no such data or templates, or fewer than one picture is asked for.
    """
    match protocol:
        case SceneClasses():
            labelled = one_object_scenes(SEED, protocol.scenes, side)
            name = "zero-shot/scenes"
            return ZeroShotTask(name, labelled, template_set(protocol.templates), np.arange(protocol.scenes))
        case FolderClasses():
            templates, labelled = template_set(protocol.templates), open_labelled_folder(protocol.folder)
            which = spaced(len(labelled.labels), protocol.images)
            return ZeroShotTask(f"zero-shot/{protocol.folder}", labelled, templates, which)
        case CaptionRetrieval():
            captioned = open_captioned(protocol.retrieval, side)
            which = spaced(len(captioned.source), protocol.images)
            return RetrievalTask(f"retrieval/{_named(protocol.retrieval)}", captioned, which)
        case SceneStudy():
            sizes = Sizes(protocol.study, protocol.pairs, protocol.attention)
            labelled = one_object_scenes(SEED, protocol.study, side)
            return StudyTask("study/scenes", labelled, sizes, np.arange(protocol.study))


def _named(data: Data) -> str:
    match data:
        case TarData():
            return data.tars
        case CsvData():
            return data.csv
        case _:
            return "scenes"


def spaced(count: int, images: int) -> NDArray[np.int64]:
    """`images` of the samples 0 .. count - 1, evenly spaced, so that each class has its share; all of them for 0.

    Raises:
        StudioError: a number below 0, or more than there are.
    """
    if not 0 <= images <= count:
        raise StudioError(f"{images:,} images cannot be taken of {count:,}: give 1 to {count:,}, or 0 for all.")
    return np.arange(count) if not images else np.arange(images) * count // images


def measure(model: LoadedModel, task: Task, ranks: Ranks = ALONE, workers: int = 0) -> Result:
    """Measure a model; a collective.

    Raises:
        StudioError: no picture can be read, or the model has no tokenizer.
        Stopped: `ranks` said so.
    """
    match task:
        case ZeroShotTask():
            return classify(model, task.labelled, task.templates, task.indices, ranks, workers)
        case RetrievalTask():
            return retrieve(model, task.captioned.source, task.indices, ranks, workers)
        case StudyTask():
            return study(model, SEED, task.sizes, ranks, workers)


def shares(result: Result) -> dict[str, Measured]:
    """What a result measured, by name; what there were too few candidates for is left out."""
    found: dict[str, Measured | None] = {}
    match result:
        case Study():
            found = {**study_shares(result)}
        case Classification():
            found = {"top1": result.top1, "top5": result.top5, "mean_class_recall": result.mean_class_recall}
        case Retrieval():
            for way in ("image_to_text", "text_to_image"):
                recalls = getattr(result, way)
                found |= {f"{way}_r1": recalls.r1, f"{way}_r5": recalls.r5, f"{way}_r10": recalls.r10}
    return {name: measured for name, measured in found.items() if measured is not None}


def settings_of(protocol: Protocol) -> Mapping[str, Any]:
    """The settings and the kind, as they are written into a report."""
    return {"kind": type(protocol).__name__, **asdict(protocol)}
