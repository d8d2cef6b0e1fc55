"""The picture segmented by typed classes, with softmax, with entmax and with every control in the same preset.

Only the last layer is changed, which is where the presets read. What is measured is measured at pixels, after the
cosine maps were brought there bilinearly, as the published codes do it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from models import LoadedModel, Normalizer, Recording, StudioError, localisation, record, statistics
from models.dense import dense_features
from models.geometry import ImageGeometry
from models.intervention import (
    Edit,
    Identity,
    MatchedEntropy,
    Neighbourhood,
    RandomMask,
    ShuffledA2,
    SupportOf,
    TopK,
    UseNormalizer,
    UseSource,
    edited_maps,
)
from models.presets import Preset, find_preset
from models.segmentation import Softmax, class_maps, phrase_maps, to_original, upsample
from models.text_classifier import SLOT, TextClassifier, phrases_of, text_classifier
from studio.remarks import remarks_on
from studio.shuffled_runs import RUNS
from studio.sparsity import RULES, Rule
from studio.sparsity_panels import SHUFFLED, decimal, percent
from studio.strip import Fact, MapPanel, measured, no_map
from studio.truth import PAINTED, UPLOADED, Truth

LONGEST = 448  # of the side at which mIoU and AUROC are measured, in pixels
SCORE = Softmax(40.0)


@dataclass(frozen=True)
class Segmentation:
    """What is asked.

    Attributes:
        preset: name of how dense features are read out.
        classes: one an entry, synonyms with commas between.
        template: with one {}, or empty.
        alpha: of entmax, and of what the controls are matched to.
        background: pixels whose best class has a lower probability than this are ground; 0 leaves ground out.
    """

    preset: str
    classes: tuple[str, ...]
    template: str
    alpha: float
    background: float = 0.0


@dataclass(frozen=True)
class Score:
    """How well class maps fit a mask; NaN where there is nothing to measure.

    Attributes:
        miou: mean over `counted` of intersection by union.
        auroc: mean over `counted` of the chance that a pixel of the class has a higher cosine than another pixel.
        counted: classes of the mask that were typed, and the ground if it is predicted.
    """

    miou: float
    auroc: float
    counted: tuple[str, ...]


def column_edits(preset: Preset, rule: Rule, alpha: float) -> tuple[Edit, ...]:
    """The preset with a rule in the place of its softmax, in the last layer.

    Raises:
        StudioError: the preset has no map that could be made sparse.
    """
    normalizer = Normalizer(alpha)
    if rule == "softmax":
        return preset.edits
    if rule == "identity":
        return (
            Identity(-1),
            *(edit for edit in preset.edits if not isinstance(edit, UseSource | Neighbourhood | Identity)),
        )
    if any(isinstance(edit, Identity) for edit in preset.edits):
        raise StudioError(
            f"In {preset.title} every patch attends to itself alone, so there is no map that α could make sparse: "
            "choose SCLIP, ClearCLIP, NACLIP or CLIP."
        )
    if alpha == 1.0:
        return preset.edits
    rules: dict[Rule, Edit] = {
        "entmax": UseNormalizer(normalizer, -1),
        "top-k": TopK(SupportOf(normalizer), -1),
        "random keys": RandomMask(SupportOf(normalizer), layers=-1),
        "matched entropy": MatchedEntropy(normalizer, -1),
    }
    return (*preset.edits, rules[rule])


def remarks_on_classes(model: LoadedModel, asked: Segmentation) -> list[str]:
    """What a person should know of the classes as the model reads them; clauses that follow its name."""
    template = asked.template.strip() or SLOT
    texts = [template.replace(SLOT, phrase) for line in asked.classes for phrase in phrases_of(line)]
    return remarks_on(model.tokenizer, texts).clauses


def segment(
    model: LoadedModel,
    image: Image.Image,
    asked: Segmentation,
    truth: Truth | None,
    rules: tuple[Rule, ...] = RULES,
) -> Iterator[MapPanel]:
    """A panel a rule; what a model or a preset cannot do is said in the panel's place.

    Raises:
        StudioError: classes or a template that cannot be read.
    """
    preset = find_preset(asked.preset)
    pixels, geometry = model.preprocess(image)
    classifier = text_classifier(model, asked.classes, (asked.template.strip() or SLOT,))
    for rule in rules:
        title = rule if rule in ("softmax", "identity") else f"{rule}, α = {asked.alpha:g}"
        of = f"{model.title}, {preset.title}"
        try:
            edits = column_edits(preset, rule, asked.alpha)
            with record(model.vision) as recording:
                features = dense_features(model, pixels[None], replace(preset, edits=edits))
        except StudioError as error:
            yield no_map(title, of, geometry, str(error))
            continue
        cosines = phrase_maps(features, classifier)
        facts = _patch_facts(model, edits, recording)
        if truth is not None:
            score = measure(cosines, classifier, geometry, truth, asked.background)
            others = [
                measure(
                    phrase_maps(dense_features(model, pixels[None], replace(preset, edits=each)), classifier),
                    classifier,
                    geometry,
                    truth,
                    asked.background,
                )
                for each in shuffled_columns(model, edits)
            ]
            facts = (*_score_facts(score, others), *facts)
        yield _panel(title, of, rule, cosines, classifier, geometry, asked.background, facts)


def shuffled_columns(model: LoadedModel, edits: tuple[Edit, ...]) -> tuple[tuple[Edit, ...], ...]:
    """A column's edits with A2 of the last layer permuted over the patches, once for each of a few fixed orders.

    None of a model that subtracts nothing, nor where the identity takes the place of A1 - lambda A2.
    """
    if not model.vision.differential or any(isinstance(edit, Identity) for edit in edits):
        return ()
    return tuple((*edits, ShuffledA2(seed, -1)) for seed in range(RUNS))


def shuffled_said(model: LoadedModel) -> str:
    """What stands beside the numbers of a model that subtracts a map; "" for others."""
    if not model.vision.differential:
        return ""
    return (
        f"“{SHUFFLED}”: the same number with A2 of the last layer permuted over the patches, mean of {RUNS} fixed "
        "shuffles: what subtracting any such map gives. Where every patch attends to itself alone there is no A2."
    )


def segmentation_said(asked: Segmentation, truth: Truth | None, named: str) -> str:
    """What is run and what it is measured against, in words; `named` is the class of a mask with one value."""
    preset = find_preset(asked.preset)
    measured = (
        "There is no mask, so nothing is measured: upload or paint one."
        if truth is None
        else f"mIoU and AUROC are measured at pixels against {truth.words}; ground "
        + (
            f"is where the best class has less than {asked.background:.2f}."
            if asked.background
            else "is left out of mIoU."
        )
    )
    return (
        f"Intervention: the model is run with its last layer changed. {preset.title}: {preset.description} The other "
        f"columns have another rule in the place of its softmax, α = {asked.alpha:g}; random keys are one fixed draw. "
        f"{measured}"
        f"{'' if truth is None else _mask_words(truth, named)}"
    )


def truth_panel(truth: Truth, size: tuple[int, int], classes: tuple[str, ...]) -> MapPanel:
    """The mask itself, in the classes' colours; ground and classes that were not typed are hatched."""
    labels = _labels_at(truth, _working_size(size))
    found = typed_labels(truth, classes)
    values = np.full(labels.shape, np.nan)
    for label, index in found.items():
        values[labels == label] = index
    whole = ImageGeometry(size, labels.shape, (0, 0), labels.shape)
    missing = [name for at, name in enumerate(truth.classes, 1) if at not in found]
    facts = (Fact("not typed", ", ".join(missing)),) if missing else ()
    return MapPanel("mask", truth.source, values, whole, "classes", facts=facts)


def measure(
    cosines: Tensor, classifier: TextClassifier, geometry: ImageGeometry, truth: Truth, background: float
) -> Score:
    """Hold cosine maps of phrases (1, S, R, C) against a mask, at pixels of the picture that the model saw."""
    size = _working_size(geometry.original)
    phrases = to_original(cosines, replace(geometry, original=size))
    labels, found = _labels_at(truth, size), typed_labels(truth, classifier.classes)
    seen = ~np.isnan(phrases[0, 0].numpy())
    cosine = class_maps(phrases, classifier).values[0]
    chances = class_maps(phrases, classifier, SCORE).values[0]
    ground = len(classifier.classes)
    predicted = np.where(background > chances.amax(0).numpy(), ground, cosine.argmax(0).numpy())
    wanted = np.full(labels.shape, -1)
    for label, index in found.items():
        wanted[labels == label] = index
    if background > 0:
        wanted[labels == 0] = ground
    kept = seen & (wanted >= 0)
    counted = [
        index
        for index in (*sorted(set(found.values())), *([ground] if background > 0 else []))
        if (kept & (wanted == index)).any()
    ]
    ious = [_iou(predicted[kept] == index, wanted[kept] == index) for index in counted]
    curves = [
        _auroc(cosine[index], torch.from_numpy(seen), torch.from_numpy(wanted == index))
        for index in counted
        if index < ground
    ]
    names = tuple("ground" if index == ground else classifier.classes[index] for index in counted)
    alone = len(classifier.classes) == 1 and background == 0
    return Score(
        float("nan") if alone or not ious else float(np.mean(ious)),
        float(np.mean(curves)) if curves else float("nan"),
        names,
    )


def _panel(
    title: str,
    of: str,
    rule: Rule,
    cosines: Tensor,
    classifier: TextClassifier,
    geometry: ImageGeometry,
    background: float,
    facts: tuple[Fact, ...],
) -> MapPanel:
    controls = (SHUFFLED,) if any(fact.controls for fact in facts) else ()
    badges = () if rule in ("softmax", "entmax") else ("control",)
    if len(classifier.classes) == 1:
        values = class_maps(cosines, classifier).values[0, 0].numpy()
        return MapPanel(title, of, values, geometry, "signed", "cosine", "", facts, controls, badges)
    phrases = upsample(cosines, geometry.input)
    chances = class_maps(phrases, classifier, SCORE).values[0]
    values = class_maps(phrases, classifier).values[0].argmax(0).double()
    values[chances.amax(0) < background] = torch.nan
    return MapPanel(title, of, values.numpy(), geometry, "classes", facts=facts, controls=controls, badges=badges)


def _score_facts(score: Score, others: Sequence[Score]) -> tuple[Fact, ...]:
    """How well a column fits the mask, beside the mean of its control's runs."""
    over = f"Over {', '.join(score.counted) or 'no class of the mask'}"
    miou = [fmean(other.miou for other in others)] if others else []
    auroc = [fmean(other.auroc for other in others)] if others else []
    return (
        measured("mIoU", score.miou, percent, miou, f"Mean intersection by union. {over}."),
        measured("AUROC", score.auroc, decimal, auroc, f"Of the cosine of a class against all other pixels. {over}."),
    )


def _patch_facts(model: LoadedModel, edits: tuple[Edit, ...], recording: Recording) -> tuple[Fact, ...]:
    """How sparse the last layer is for patches, and how much of their mass they give themselves."""
    last, prefix = model.vision.layers - 1, model.vision.layout.tokens - model.vision.layout.patches  # type: ignore
    weights = edited_maps(model.vision, edits, last, recording[last]).weights[0]
    kept = statistics.support(weights)[:, prefix:].float().mean()
    own = statistics.self_mass(weights)[:, prefix:].nanmean()
    return (
        Fact(
            "support",
            f"{float(kept):.0f} of {weights.shape[-1]}",
            meaning="Keys of a patch, mean over patches and heads.",
            number=float(kept),
        ),
        measured(
            "on itself", float(own), percent, (), "Share of its mass that a patch gives itself: 100 % is the identity."
        ),
    )


def _working_size(size: tuple[int, int]) -> tuple[int, int]:
    shrink = min(1.0, LONGEST / max(size))
    return max(1, round(size[0] * shrink)), max(1, round(size[1] * shrink))


def _labels_at(truth: Truth, size: tuple[int, int]) -> np.ndarray:
    rows, cols = (
        ((np.arange(n) + 0.5) * full / n).astype(int) for n, full in zip(size, truth.labels.shape, strict=True)
    )
    return truth.labels[np.ix_(rows, cols)]


def typed_labels(truth: Truth, classes: tuple[str, ...]) -> dict[int, int]:
    """Labels of the mask -> the typed class of that name."""
    names = [name.casefold().strip() for name in classes]
    return {
        at: names.index(name.casefold().strip())
        for at, name in enumerate(truth.classes, 1)
        if name.casefold().strip() in names
    }


def _iou(predicted: np.ndarray, wanted: np.ndarray) -> float:
    return float((predicted & wanted).sum() / (predicted | wanted).sum())


def _auroc(cosine: Tensor, seen: Tensor, wanted: Tensor) -> float:
    # What was cropped away is NaN, and one such pixel would leave the whole map without a number.
    found = wanted[seen]
    return float(localisation.auroc(cosine[seen][None], found, ~found))


def _mask_words(truth: Truth, named: str) -> str:
    """Which class a mask with one value is held against; nothing of masks that say so themselves."""
    if truth.source not in (PAINTED, UPLOADED) or len(truth.classes) != 1:
        return ""
    why = "" if named.strip() else ", the first class, since none is named for it"
    return f" The {truth.source} mask counts as “{truth.classes[0]}”{why}."
