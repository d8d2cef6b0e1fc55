"""Zero-shot classification against a loop over pictures, classes and templates."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from picture_files import CLASSES, labelled_folder

from models import LoadedModel, open_picture
from models.errors import StudioError
from models.templates import TemplateSet, template_set
from train.evaluation.labelled import one_object_scenes, open_labelled_folder
from train.evaluation.protocols import spaced
from train.evaluation.zero_shot import SCENES, classify, of_scenes


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return labelled_folder(tmp_path_factory.mktemp("labelled"), dict(zip(CLASSES, (5, 0, 3, 1, 2, 4), strict=True)))


def ranks_by_loop(model: LoadedModel, folder: Path, names: list[list[str]], templates: TemplateSet) -> list[list[int]]:
    """The rank of each picture's class, class by class in the order of their folders; of synonyms the best counts."""
    directions = []
    for synonyms in names:
        own = []
        for word in synonyms:
            texts = [template.replace("{}", word) for template in templates.texts]
            each = torch.cat([model.encode_text(model.tokenize(text)) for text in texts])
            own.append(F.normalize(F.normalize(each, dim=-1).mean(0), dim=-1))
        directions.append(torch.stack(own))
    found = []
    for label, name in enumerate(sorted(CLASSES)):
        found.append([])
        for path in sorted((folder / name).iterdir()):
            image = model.encode_image(model.preprocess(open_picture(path))[0][None], normalize=True)[0]
            scores = [float((image @ own.T).max()) for own in directions]
            found[-1].append(1 + sum(score > scores[label] for score in scores))
    return found


@pytest.mark.parametrize("templates", ["plain", "openai-7"])
def test_accuracies_are_those_of_a_loop_over_pictures(model: LoadedModel, folder: Path, templates: str) -> None:
    names = [[name.replace("_", " ")] for name in sorted(CLASSES)]
    ranks = ranks_by_loop(model, folder, names, template_set(templates))
    result = classify(model, open_labelled_folder(str(folder)), template_set(templates))
    flat = np.array([rank for own in ranks for rank in own])
    assert (result.images, result.classes, result.classes_seen, result.templates) == (15, 6, 5, templates)
    assert result.top1.value == pytest.approx((flat == 1).mean())
    assert result.top5 is not None
    assert result.top5.value == pytest.approx((flat <= 5).mean())
    present = [np.mean(np.array(own) == 1) for own in ranks if own]
    assert result.mean_class_recall.value == pytest.approx(np.mean(present))
    assert result.top1.low <= result.top1.value <= result.top1.high
    assert result.skipped == {}


def test_of_synonyms_the_best_counts(clip: LoadedModel, tmp_path: Path, folder: Path) -> None:
    lines = ["three keys, anchor", "cat", "two dogs", "apple, small red apple", "the top left", "photo"]
    labelled = labelled_folder(tmp_path, dict(zip(CLASSES, (5, 0, 3, 1, 2, 4), strict=True)))
    (labelled / "classes.txt").write_text("\n".join(lines))
    ranks = ranks_by_loop(clip, folder, [line.split(", ") for line in lines], template_set("plain"))
    result = classify(clip, open_labelled_folder(str(labelled)), template_set("plain"))
    assert result.top1.value == pytest.approx(np.mean([rank == 1 for own in ranks for rank in own]))


def test_words_the_model_never_learned_are_told(clip: LoadedModel, tmp_path: Path) -> None:
    folder = labelled_folder(tmp_path, {"cat": 1, "zebra_dogs": 1})
    result = classify(
        clip, open_labelled_folder(str(folder)), TemplateSet("two", ("a photo of a {}.", "a sketch of {}"))
    )
    assert result.unknown_words == ("zebra", "sketch")


def test_fewer_than_five_classes_have_no_top_5(clip: LoadedModel, tmp_path: Path) -> None:
    folder = labelled_folder(tmp_path, {"cat": 2, "dogs": 2})
    assert classify(clip, open_labelled_folder(str(folder)), template_set("plain")).top5 is None


def test_a_model_that_gives_one_score_to_all_is_wrong_about_all(clip: LoadedModel, folder: Path) -> None:
    constant = TemplateSet("constant", ("a photo of cats two dogs small red apple top left three keys {}",))
    labelled = open_labelled_folder(str(folder))
    assert len({clip.tokenizer.cut_text(constant.texts[0].replace("{}", name)) for name in labelled.classes}) > 1
    assert classify(clip, labelled, constant).top1.value == 0.0  # the class is in the tail that is cut off


def test_worker_processes_change_nothing(diffclip: LoadedModel, folder: Path) -> None:
    labelled = open_labelled_folder(str(folder))
    alone = classify(diffclip, labelled, template_set("plain"))
    assert classify(diffclip, labelled, template_set("plain"), workers=2) == alone
    with pytest.raises(StudioError, match="workers = -1"):
        classify(diffclip, labelled, template_set("plain"), workers=-1)


def test_data_without_a_readable_picture_are_refused(clip: LoadedModel, tmp_path: Path) -> None:
    folder = labelled_folder(tmp_path, {"cat": 1, "dogs": 1})
    for path in folder.glob("*/*.png"):
        path.write_bytes(b"<html>")
    with pytest.raises(StudioError, match="no picture could be read \\(2 not a picture\\)"):
        classify(clip, open_labelled_folder(str(folder)), template_set("plain"))


def test_scenes_take_any_templates_and_a_card_tells_of_their_own(clip: LoadedModel) -> None:
    scenes = one_object_scenes(7, 20, 64)
    own = classify(clip, scenes, SCENES)
    told = of_scenes(own, 7)
    assert (told.model, told.images, told.classes, told.seed) == (clip.name, 20, 108, 7)
    assert told.top1 == own.top1.value
    other = classify(clip, scenes, template_set("openai-7"))
    assert (other.templates, other.images, other.classes) == ("openai-7", 20, 108)
    with pytest.raises(StudioError, match="A card tells of scenes under"):
        of_scenes(other, 7)


def test_a_part_of_the_pictures_is_spread_over_all_of_them() -> None:
    assert spaced(10, 0).tolist() == list(range(10))
    assert spaced(10, 5).tolist() == [0, 2, 4, 6, 8]
    assert spaced(7, 3).tolist() == [0, 2, 4]
    for count, images in ((5, 6), (5, -1)):
        with pytest.raises(StudioError, match="give 1 to 5, or 0 for all"):
            spaced(count, images)
