"""The file of a study: differences are paired, order is fixed, and what is no study is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
from studies import KEPT, OWN, model_entry, six, study_content, study_file

from models import LoadedModel
from models.errors import StudioError
from train.evaluation.identity import training, variant
from train.evaluation.of_each import packed, paired_difference, unpacked
from train.evaluation.study_file import read_study

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("values", [[1.0, 0.0, 1.0], [0.25, float("nan"), 1.0], [1.0], [0.0, 0.5]])
def test_numbers_of_each_picture_come_back_from_text(values: list[float]) -> None:
    assert unpacked(packed(values)) == pytest.approx(values, nan_ok=True)


def test_hits_are_one_character_each() -> None:
    assert packed(np.array([True, False, True])) == "101"


def test_text_that_holds_no_numbers_is_refused() -> None:
    with pytest.raises(StudioError, match="is no list of one number a picture"):
        unpacked("a b")


def test_a_difference_is_taken_picture_by_picture() -> None:
    """Two models that are as unsteady, but one always a tenth better: the paired interval is narrow."""
    other = np.random.default_rng(0).uniform(0, 0.8, 80)
    found = paired_difference(packed(other + 0.1), packed(other))
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((0.1, 0.1, 0.1), abs=1e-4)
    holes = np.where(np.arange(80) % 2, np.nan, other + 0.3)
    assert getattr(paired_difference(packed(holes), packed(other)), "value", None) == pytest.approx(0.3, abs=1e-4)
    assert paired_difference(packed(other), packed(other[:40])) is None
    assert paired_difference("- -", "1 0.5") is None


def test_each_variant_stands_against_the_clip_of_its_own_seed(tmp_path: Path) -> None:
    entries = [model_entry("CLIP", 0, 0.5), model_entry("DiffCLIP*", 1, 0.9), model_entry("DiffCLIP", 0, 0.6)]
    found = study_file(tmp_path, [*entries, model_entry("CLIP", 1, 0.8)])
    assert [one.title for one in found.models] == [
        "CLIP, seed 0",
        "CLIP, seed 1",
        "DiffCLIP, seed 0",
        "DiffCLIP*, seed 1",
    ]
    assert [(one.model, one.against) for one in found.differences] == [
        ("DiffCLIP-0", "CLIP-0"),
        ("DiffCLIP*-1", "CLIP-1"),
    ]
    for one in found.differences:
        assert one.numbers[OWN].value == pytest.approx(0.1, abs=1e-4)
        assert one.numbers[KEPT].value == pytest.approx(0.1, abs=1e-4)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "cannot be read"),
        ("[]", "is not the file of a study"),
        ('{"protocol": {"kind": "SceneClasses"}, "results": []}', "is not the file of a study"),
        ('{"protocol": {"kind": "SceneStudy"}, "results": [{}], "differences": []}', "is not the file of a study"),
        ('{"protocol": {"kind": "SceneStudy"}, "results": [], "differences": []}', "holds no model yet"),
    ],
)
def test_what_is_no_study_is_refused_in_a_sentence(content: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(StudioError, match=sentence):
        read_study(path)


def test_a_number_of_a_wrong_kind_is_named(tmp_path: Path) -> None:
    content = study_content(six())
    content["results"][2]["numbers"]["plain: top1"]["low"] = "much"
    (tmp_path / "a.json").write_text(json.dumps(content))
    with pytest.raises(StudioError, match=r"plain: top1\.low = 'much' must be of type float"):
        read_study(tmp_path / "a.json")


def test_a_model_is_known_by_its_attention_and_by_the_run_beside_it(
    clip: LoadedModel, diffclip: LoadedModel, tmp_path: Path
) -> None:
    assert (variant(clip), variant(diffclip)) == ("CLIP", "DiffCLIP")
    shipped = training(ROOT / "assets/checkpoints/diffclip-scenes")
    assert shipped is not None
    assert (shipped["config"], shipped["seed"]) == ("diffclip-scenes", 0)
    assert shipped["command"] == "python -m train fit train/configs/diffclip_scenes.toml"
    assert "torch" in shipped["versions"]
    record = {"config": {"name": "clip-scenes", "seed": 1}, "packages": {}}
    (tmp_path / "config.json").write_text(json.dumps(record))
    own = training(tmp_path / "checkpoint")
    assert own is not None
    assert own["command"] == "python -m train fit train/configs/clip_scenes.toml seed=1"
    assert training(tmp_path / "elsewhere") is None
