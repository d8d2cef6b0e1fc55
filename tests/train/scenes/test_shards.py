"""Shards of scenes, their command, and the example pictures."""

from __future__ import annotations

import argparse
import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from models.errors import StudioError
from train.scenes import describe_scene, render_scene, write_shards
from train.scenes.command import add_parser
from train.scenes.examples import EXAMPLE_INDICES, EXAMPLE_SEED, write_examples
from train.scenes.grounds import GROUND_KINDS


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_shards(tmp_path_factory.mktemp("scenes"), 7, seed=41, size=64, per_shard=5)


def contents(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]


def pixels(content: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(content)))


def test_shards_have_the_layout_of_img2dataset(shards: list[Path]):
    assert [path.name for path in shards] == ["00000.tar", "00001.tar"]
    names = list(contents(shards[1]))
    wanted = [f"{key}.{end}" for key in ("000010000", "000010001") for end in ("json", "mask.png", "png", "txt")]
    assert names == wanted
    assert sorted(path.name for path in shards[0].parent.iterdir()) == [
        "00000.tar", "00000_stats.json", "00001.tar", "00001_stats.json",
    ]  # fmt: skip
    stats = json.loads((shards[0].parent / "00001_stats.json").read_text())
    assert stats["count"] == stats["successes"] == 2


def test_a_sample_holds_what_its_scene_says(shards: list[Path]):
    files = contents(shards[0])
    for index in range(5):
        scene, key = describe_scene(41, index), f"00000{index:04d}"
        image, instances = render_scene(scene, 64)
        assert np.array_equal(pixels(files[f"{key}.png"]), image)
        assert np.array_equal(pixels(files[f"{key}.mask.png"]), instances)
        record = json.loads(files[f"{key}.json"])
        assert files[f"{key}.txt"].decode() == record["caption"] == scene.caption
        assert (record["seed"], record["index"], record["size"]) == (41, index, 64)
        assert [item["name"] for item in record["objects"]] == [item.name for item in scene.objects]
        assert record["minimal_pair"]["caption"] != scene.caption
        for item in record["objects"]:
            top, left, bottom, right = item["box"]
            rows, columns = np.nonzero(instances == item["id"])
            assert (top, left, bottom, right) == (
                rows.min(),
                columns.min(),
                rows.max() + 1,
                columns.max() + 1,
            )


def test_the_same_seed_gives_the_same_bytes(shards: list[Path], tmp_path: Path):
    again = write_shards(tmp_path, 7, seed=41, size=64, per_shard=5)
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in shards]
    other = write_shards(tmp_path / "other", 7, seed=42, size=64, per_shard=5)
    assert other[0].read_bytes() != shards[0].read_bytes()


def test_a_folder_that_holds_shards_is_refused_and_left_as_it_was(shards: list[Path]):
    before = {path: path.read_bytes() for path in shards[0].parent.iterdir()}
    with pytest.raises(StudioError, match="already holds 2 shards"):
        write_shards(shards[0].parent, 3, seed=1, size=64)
    assert {path: path.read_bytes() for path in shards[0].parent.iterdir()} == before


@pytest.mark.parametrize("wrong", [{"count": 0}, {"size": 15}, {"size": 2000}, {"seed": -1}, {"per_shard": 0}])
def test_values_out_of_range_are_refused_before_anything_is_written(wrong: dict, tmp_path: Path):
    with pytest.raises(StudioError):
        write_shards(tmp_path / "out", **{"count": 2, "seed": 0, "size": 32, **wrong})
    assert not (tmp_path / "out").exists()


def test_a_write_that_breaks_off_leaves_no_shard_under_its_name(tmp_path: Path):
    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_shards(tmp_path, 3, seed=0, size=32, progress=stop)
    assert not list(tmp_path.glob("*.tar"))


def test_the_command_writes_shards(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    args = parser.parse_args(["scenes", str(tmp_path / "out"), "--count", "3", "--seed", "5", "--size", "32"])
    assert args.run(args) == 0
    assert "3 scenes in 1 shard in" in capsys.readouterr().out
    assert len(contents(tmp_path / "out" / "00000.tar")) == 12


def test_the_examples_show_every_ground_and_every_count():
    scenes = [describe_scene(EXAMPLE_SEED, index) for index in EXAMPLE_INDICES]
    assert {scene.ground.kind for scene in scenes} == set(GROUND_KINDS)
    assert {len(scene.objects) for scene in scenes} == {1, 2, 3, 4}
    assert any(item.tint for scene in scenes for item in scene.objects)
    assert any(item.orientation == "upside down" for scene in scenes for item in scene.objects)


def test_the_examples_in_the_repository_are_those_that_the_command_writes(tmp_path: Path):
    kept = Path(__file__).parents[3] / "assets" / "examples"
    entries = json.loads(write_examples(tmp_path).read_text())
    assert entries == json.loads((kept / "examples.json").read_text())
    for entry in entries:
        for name in (entry["image"], entry["mask"]):
            assert np.array_equal(pixels((tmp_path / name).read_bytes()), pixels((kept / name).read_bytes())), name
