"""All that is measured of a model of scenes: names, captions, minimal pairs, other renderings, where attention lies."""

from collections.abc import Mapping
from dataclasses import dataclass

from models.loaded import LoadedModel
from train.data.config import SceneData
from train.data.sample import Reason
from train.data.scene_source import SceneSource
from train.evaluation.attention import AttentionToObjects, attention_to_objects
from train.evaluation.labelled import one_object_scenes
from train.evaluation.metrics import Measured
from train.evaluation.minimal_pairs import PairAccuracy, minimal_pairs
from train.evaluation.retrieval import Retrieval, retrieve
from train.evaluation.spread import ALONE, Ranks
from train.evaluation.zero_shot import SCENES, Classification, classify
from train.scenes.pairs import ATTRIBUTES
from train.scenes.renderings import RENDERINGS


@dataclass(frozen=True)
class Sizes:
    """How many scenes each part takes: `scenes` for names in each rendering and for captions, pairs an attribute."""

    scenes: int
    pairs: int
    attention: int


@dataclass(frozen=True)
class Study:
    """What was measured of one model, all of it on scenes of a seed that no training has.

    Attributes:
        model: its name.
        zero_shot: by rendering; "plain" is the drawing of training.
        retrieval: between pictures and captions, both ways.
        pairs: minimal pairs by attribute.
        attention: where the vision tower's CLS row lies.
    """

    model: str
    zero_shot: dict[str, Classification]
    retrieval: Retrieval
    pairs: dict[str, PairAccuracy]
    attention: AttentionToObjects

    @property
    def skipped(self) -> Mapping[Reason, int]:
        """Nothing: scenes are always readable."""
        return {}


def study(model: LoadedModel, seed: int, sizes: Sizes, ranks: Ranks = ALONE, workers: int = 0) -> Study:
    """Measure a model; a collective, of which names and captions are spread over ranks and the rest is done by each.

    Raises:
        StudioError: fewer than one scene or pair, or a model without a CLS token over a grid of patches.
        Stopped: somebody asked for it.
    """
    side = 2 * max(model.preprocess_settings.input_size)
    named = {
        rendering: classify(model, one_object_scenes(seed, sizes.scenes, side, rendering), SCENES, None, ranks, workers)
        for rendering in RENDERINGS
    }
    captions = SceneSource(SceneData(seed, sizes.scenes), side)
    retrieval = retrieve(model, captions, None, ranks, workers)
    pairs: dict[str, PairAccuracy] = {}
    for attribute in ATTRIBUTES:
        ranks.go_on()
        pairs |= minimal_pairs(model, seed, sizes.pairs, [attribute])
    ranks.go_on()
    return Study(model.name, named, retrieval, pairs, attention_to_objects(model, seed, sizes.attention))


def study_shares(found: Study) -> dict[str, Measured]:
    """The numbers of a table, by name: of attention the means over layers."""
    told: dict[str, Measured | None] = {}
    for rendering, result in found.zero_shot.items():
        told |= {f"{rendering}: top1": result.top1, f"{rendering}: top5": result.top5}
    for way in ("image_to_text", "text_to_image"):
        recalls = getattr(found.retrieval, way)
        told |= {f"{way}_r1": recalls.r1, f"{way}_r5": recalls.r5, f"{way}_r10": recalls.r10}
    for attribute, accuracy in found.pairs.items():
        told |= {f"pairs in {attribute} (chance 25 %)": accuracy.both}
    for name, places in found.attention.maps.items():
        for metric in ("mass", "auroc"):
            if metric in places:
                told[f"{name}: {metric}"] = places[metric].mean
    return {name: measured for name, measured in told.items() if measured is not None}
