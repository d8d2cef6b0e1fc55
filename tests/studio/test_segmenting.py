from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from models import LoadedModel, StudioError
from models.dense import dense_features
from models.geometry import ImageGeometry
from models.intervention import ShuffledA2
from models.presets import find_preset
from models.segmentation import phrase_maps, upsample
from models.text_classifier import TextClassifier, text_classifier
from studio.segmenting import Segmentation, column_edits, measure, segment, truth_panel
from studio.sparsity import RULES
from studio.truth import Truth

SQUARE = ImageGeometry((32, 32), (32, 32), (0, 0), (32, 32))
PICTURE = Image.fromarray(np.random.default_rng(1).integers(0, 256, (32, 32, 3), dtype=np.uint8))
CLASSES = ("cat", "dog")


def classifier(*names: str) -> TextClassifier:
    return TextClassifier(names, names, tuple(range(len(names))), torch.eye(len(names)))


def halves() -> tuple[torch.Tensor, np.ndarray]:
    """Cosines of two classes, (1, 2, 4, 4), left and right; and labels that agree."""
    left = torch.tensor([1.0, 1.0, 0.0, 0.0]).expand(4, 4)
    labels = np.ones((32, 32), np.int64)
    labels[:, 16:] = 2
    return torch.stack([left, 1 - left])[None], labels


def test_a_perfect_segmentation_scores_one_and_the_opposite_zero() -> None:
    cosines, labels = halves()
    score = measure(cosines, classifier(*CLASSES), SQUARE, Truth(labels, CLASSES, ""), 0.0)
    assert (score.miou, score.counted) == (1.0, CLASSES)
    assert score.auroc == 1.0
    wrong = measure(cosines.flip(1), classifier(*CLASSES), SQUARE, Truth(labels, CLASSES, ""), 0.0)
    assert (wrong.miou, wrong.auroc) == (0.0, 0.0)


def test_ground_is_left_out_unless_it_is_predicted() -> None:
    cosines, labels = halves()
    labels = labels.copy()
    labels[:, :8] = 0
    truth = Truth(labels, CLASSES, "")
    assert measure(cosines, classifier(*CLASSES), SQUARE, truth, 0.0).miou == 1.0
    with_ground = measure(cosines, classifier(*CLASSES), SQUARE, truth, 0.01)
    assert with_ground.counted == (*CLASSES, "ground")
    # Ground is never predicted, the cat covers twice what it should: (1/2 + 1 + 0) / 3.
    assert with_ground.miou == pytest.approx(0.5)


def test_classes_of_the_mask_that_were_not_typed_are_left_out_and_said() -> None:
    cosines, labels = halves()
    truth = Truth(labels, ("cat", "horse"), "")
    assert measure(cosines, classifier(*CLASSES), SQUARE, truth, 0.0).counted == ("cat",)
    assert truth_panel(truth, (32, 32), CLASSES).facts[0].value == "horse"


def test_pixels_that_the_model_did_not_see_do_not_count() -> None:
    cosines, _ = halves()
    labels = np.ones((64, 32), np.int64)
    labels[16:48, 16:] = 2
    geometry = ImageGeometry((64, 32), (64, 32), (16, 0), (32, 32))
    score = measure(cosines, classifier(*CLASSES), geometry, Truth(labels, CLASSES, ""), 0.0)
    assert (score.miou, score.auroc) == (1.0, 1.0)


def test_one_class_alone_has_no_miou() -> None:
    cosines, labels = halves()
    score = measure(cosines[:, :1], classifier("cat"), SQUARE, Truth(labels, CLASSES, ""), 0.0)
    assert np.isnan(score.miou)
    assert score.auroc == 1.0


def test_every_column_of_every_preset_runs_or_says_why_not(model: LoadedModel) -> None:
    for name in ("sclip", "naclip", "maskclip"):
        panels = list(segment(model, PICTURE, Segmentation(name, CLASSES, "a {}", 1.5), None))
        assert [panel.title.split(",")[0] for panel in panels] == list(RULES)
        refused = [panel for panel in panels if panel.message]
        assert len(refused) == (4 if name == "maskclip" else 0)
        assert all("no map that α could make sparse" in panel.message for panel in refused)


def quarters() -> Truth:
    labels = np.zeros((32, 32), np.int64)
    labels[:16, :16], labels[16:, 16:] = 1, 2
    return Truth(labels, CLASSES, "")


def test_beside_every_number_of_a_difference_stands_that_of_a2_shuffled(diffclip: LoadedModel) -> None:
    asked, (pixels, geometry) = Segmentation("sclip", CLASSES, "a {}", 1.5), diffclip.preprocess(PICTURE)
    words = text_classifier(diffclip, CLASSES, ("a {}",))
    found = dict(zip(RULES, segment(diffclip, PICTURE, asked, quarters()), strict=True))
    for rule in RULES:
        miou, auroc = found[rule].facts[:2]
        assert (miou.label, auroc.label) == ("mIoU", "AUROC")
        if rule == "identity":
            assert (miou.numbers, auroc.numbers, found[rule].controls) == ((), (), ())
            continue
        edits, scores = column_edits(find_preset("sclip"), rule, 1.5), []
        for seed in range(3):
            shuffled = replace(find_preset("sclip"), edits=(*edits, ShuffledA2(seed, -1)))
            cosines = phrase_maps(dense_features(diffclip, pixels[None], shuffled), words)
            scores.append(measure(cosines, words, geometry, quarters(), 0.0))
        assert found[rule].controls == ("A2 shuffled",)
        assert miou.numbers == pytest.approx([np.mean([score.miou for score in scores])])
        assert auroc.numbers == pytest.approx([np.mean([score.auroc for score in scores])])
        assert auroc.number != auroc.numbers[0], "the order of A2 counts in this model"


def test_a2_is_shuffled_in_every_preset_that_has_one(diffclip: LoadedModel) -> None:
    for name, own in (("clip", 5), ("clearclip", 5), ("naclip", 5), ("maskclip", 0), ("maskclip-attention", 0)):
        panels = segment(diffclip, PICTURE, Segmentation(name, CLASSES, "a {}", 1.5, 0.2), quarters())
        assert sum(panel.controls == ("A2 shuffled",) for panel in panels) == own, name


def test_a_model_without_a2_and_a_picture_without_a_mask_have_no_such_column(
    clip: LoadedModel, diffclip: LoadedModel
) -> None:
    asked = Segmentation("sclip", ("cat",), "a {}", 1.5)
    assert all(panel.controls == () for panel in segment(clip, PICTURE, asked, quarters()))
    assert all(panel.controls == () for panel in segment(diffclip, PICTURE, asked, None))
    one = list(segment(diffclip, PICTURE, asked, quarters(), ("softmax", "top-k")))
    assert [panel.controls for panel in one] == [("A2 shuffled",)] * 2, "also of the cosine of one class"
    assert [panel.badges for panel in one] == [(), ("control",)]


def test_the_softmax_column_is_the_preset_itself(model: LoadedModel) -> None:
    (panel,) = segment(model, PICTURE, Segmentation("clearclip", CLASSES, "a {}", 1.5), None, ("softmax",))
    pixels, geometry = model.preprocess(PICTURE)
    cosines = phrase_maps(
        dense_features(model, pixels[None], find_preset("clearclip")), text_classifier(model, CLASSES, ("a {}",))
    )
    assert np.array_equal(panel.values, upsample(cosines, geometry.input)[0].argmax(0).numpy())


def test_identity_keeps_what_the_preset_does_to_the_block() -> None:
    assert column_edits(find_preset("sclip"), "identity", 1.5) == find_preset("maskclip").edits
    assert column_edits(find_preset("naclip"), "identity", 1.5) == find_preset("maskclip-attention").edits


def test_at_alpha_one_entmax_is_softmax() -> None:
    assert column_edits(find_preset("sclip"), "entmax", 1.0) == find_preset("sclip").edits


def test_a_template_without_a_slot_is_refused(model: LoadedModel) -> None:
    with pytest.raises(StudioError, match="template"):
        list(segment(model, PICTURE, Segmentation("sclip", CLASSES, "no slot", 1.5), None))
