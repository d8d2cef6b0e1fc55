"""All that is measured of a model of scenes: names, captions, minimal pairs, other renderings, where attention lies."""

from collections.abc import Mapping
from dataclasses import dataclass

from models.loaded import LoadedModel
from train.data.config import SceneData
from train.data.sample import Reason
from train.data.scene_source import SceneSource
from train.evaluation.attention import METRICS, AttentionToObjects, attention_values, summary
from train.evaluation.labelled import one_object_scenes
from train.evaluation.metrics import Measured
from train.evaluation.minimal_pairs import PAIR_CHANCE, PairAccuracy, pair_accuracy, right_choices
from train.evaluation.of_each import packed
from train.evaluation.retrieval import Retrieval, retrieve_each
from train.evaluation.spoken import Spoken, spoken_for
from train.evaluation.spread import ALONE, Ranks
from train.evaluation.zero_shot import SCENES, Classification, classify_each
from train.scenes.pairs import ATTRIBUTES
from train.scenes.renderings import RENDERINGS

WAYS, DEPTHS = ("image_to_text", "text_to_image"), (1, 5, 10)


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
        relevance: where the names of objects are seen, on a few scenes.
        each: name of a number -> that number of each picture, as `of_each.packed` writes it. Models that were measured
            on as many scenes were measured on the same, so that their difference can be drawn picture by picture.
        chance: name of a number -> what guessing gives, or a uniform row.
    """

    model: str
    zero_shot: dict[str, Classification]
    retrieval: Retrieval
    pairs: dict[str, PairAccuracy]
    attention: AttentionToObjects
    relevance: tuple[Spoken, ...]
    each: dict[str, str]
    chance: dict[str, float]

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
    each: dict[str, str] = {}
    named: dict[str, Classification] = {}
    for rendering in RENDERINGS:
        scenes = one_object_scenes(seed, sizes.scenes, side, rendering)
        named[rendering], found = classify_each(model, scenes, SCENES, None, ranks, workers)
        each |= {f"{rendering}: top{k}": packed(found <= k) for k in (1, 5)}
    retrieval, both_ways = retrieve_each(model, SceneSource(SceneData(seed, sizes.scenes), side), None, ranks, workers)
    each |= {f"{way}_r{k}": packed(both_ways[way] <= k) for way in WAYS for k in DEPTHS}
    pairs: dict[str, PairAccuracy] = {}
    for attribute in ATTRIBUTES:
        right = right_choices(model, attribute, seed, sizes.pairs, ranks)
        pairs[attribute] = pair_accuracy(right)
        each[pairs_name(attribute)] = packed(right.min(axis=1))
    values = attention_values(model, seed, sizes.attention, ranks)
    attention = summary(values)
    each |= {name: packed(numbers) for name, numbers in values.of_each().items()}
    ranks.go_on()
    spoken = spoken_for(model, seed)
    return Study(model.name, named, retrieval, pairs, attention, spoken, each, _chance(named, retrieval, attention))


def _chance(
    named: Mapping[str, Classification], retrieval: Retrieval, attention: AttentionToObjects
) -> dict[str, float]:
    chance = {f"{rendering}: top{k}": k / one.classes for rendering, one in named.items() for k in (1, 5)}
    candidates = {"image_to_text": retrieval.captions, "text_to_image": retrieval.images}
    chance |= {f"{way}_r{k}": min(1.0, k / count) for way, count in candidates.items() for k in DEPTHS}
    chance |= {pairs_name(attribute): PAIR_CHANCE for attribute in ATTRIBUTES}
    uniform = {"mass": attention.object_share, "lift": 1.0, "auroc": 0.5}
    return chance | {f"{name}: {metric}": uniform[metric] for name in attention.maps for metric in METRICS}


def pairs_name(attribute: str) -> str:
    """The name of the number that minimal pairs of an attribute give."""
    return f"pairs in {attribute} (chance 25 %)"


def study_numbers(found: Study) -> dict[str, Measured]:
    """The numbers of a study, by name: of attention the means over layers; lift is a ratio, all others are shares."""
    told: dict[str, Measured | None] = {}
    for rendering, result in found.zero_shot.items():
        told |= {f"{rendering}: top1": result.top1, f"{rendering}: top5": result.top5}
    for way in WAYS:
        recalls = getattr(found.retrieval, way)
        told |= {f"{way}_r{k}": getattr(recalls, f"r{k}") for k in DEPTHS}
    told |= {pairs_name(attribute): accuracy.both for attribute, accuracy in found.pairs.items()}
    for name, places in found.attention.maps.items():
        told |= {f"{name}: {metric}": place.mean for metric, place in places.items()}
    return {name: measured for name, measured in told.items() if measured is not None}


def study_shares(found: Study) -> dict[str, Measured]:
    """The numbers that are shares."""
    return {name: measured for name, measured in study_numbers(found).items() if not name.endswith(": lift")}
