"""The settings of the data, as a config file has them."""

import tomllib
from dataclasses import dataclass
from typing import Any

import pytest

from models.errors import StudioError
from models.plain import from_plain
from train.data.config import Augment, CsvData, Data, Plain, RandomCrop, SceneData, TarData
from train.data.open import open_source


@dataclass(frozen=True)
class Settings:
    data: Data
    augment: Augment = RandomCrop()  # noqa: RUF009 (frozen)


def settings(text: str) -> Settings:
    plain: dict[str, Any] = tomllib.loads(text)
    return from_plain(Settings, plain, "config")


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ('data = {tars = "cc3m"}', TarData("cc3m")),
        ('data = {tars = "a", captions = ["cap"], split = "last dot"}', TarData("a", ("cap",), split="last dot")),
        ('data = {csv = "a.csv", root = "b"}', CsvData("a.csv", "b")),
        ('data = {between_captions = "|", csv = "a.csv"}', CsvData("a.csv", between_captions="|")),
        ("data = {scenes = 0, count = 9, weights = [1, 0, 0, 0]}", SceneData(0, 9, weights=(1.0, 0.0, 0.0, 0.0))),
    ],
)
def test_the_first_key_says_which_data(text: str, data: Data) -> None:
    assert settings(text) == Settings(data)


def test_the_crop_is_the_recipes_unless_it_is_said_otherwise() -> None:
    assert settings('data={tars="a"}').augment == RandomCrop((0.5, 1.0), (0.75, 4 / 3), "bilinear")
    assert settings('data={tars="a"}\naugment={scale=[0.9, 1]}').augment == RandomCrop((0.9, 1.0))
    assert settings('data={tars="a"}\naugment={plain=true}').augment == Plain()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('data={tars="a", cations=["txt"]}', "did you mean 'captions'"),
        ('data={tars="a", captions=[".txt"]}', "without their dot"),
        ('data={tars="a", images=[]}', "must list extensions"),
        ('data={csv="a", separator="||"}', "must be one character"),
        ("data={scenes=0, count=0}", "must be at least 1"),
        ('data={tars="a"}\naugment={scale=[0.9, 0.5]}', r"augment\.scale"),
        ('data={tars="a"}\naugment={scale=[0.5, 1], ratio=[0, 1]}', r"augment\.ratio"),
        ('data={tars="a"}\naugment={plain=false}', "choose True"),
    ],
)
def test_settings_that_mean_nothing_are_refused(text: str, message: str) -> None:
    with pytest.raises(StudioError, match=message):
        settings(text)


def test_scenes_that_cannot_be_drawn_are_refused_when_they_are_opened() -> None:
    with pytest.raises(StudioError, match="8 pixels"):
        open_source(SceneData(0, 4), 8)
    with pytest.raises(StudioError, match="weights"):
        open_source(SceneData(0, 4, weights=(0.0, 0.0, 0.0, 0.0)), 32)


def test_the_fingerprint_of_scenes_follows_their_settings() -> None:
    prints = {
        open_source(data, size).fingerprint()
        for data, size in ((SceneData(0, 4), 32), (SceneData(0, 5), 32), (SceneData(0, 4, drawn=64), 32))
    }
    assert len(prints) == 3
    assert open_source(SceneData(0, 4, drawn=32), 64).fingerprint() not in prints
    assert "scenes 2 to 5 of seed 7, drawn at 32 pixels" in open_source(SceneData(7, 4, 2), 32).describe()
