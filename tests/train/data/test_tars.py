"""Tar shards as a source: which members are a sample, what is left out and why, and the kept index."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tar_files import broken_shard, encoded, pairs, picture, tar_bytes, write_shards

from models.errors import StudioError
from train.data.config import TarData
from train.data.sample import Sample, Skip
from train.data.tars import TarFolder, find_shards, open_tars
from train.scenes import describe_scene, render_scene
from train.scenes import write_shards as write_scenes


def read(source: TarFolder, index: int) -> Sample:
    sample = source.read(index)
    assert isinstance(sample, Sample), sample
    return sample


def captions(source: TarFolder) -> list[tuple[str, ...]]:
    return [read(source, index).captions for index in range(len(source))]


def one_tar(folder: Path, members: list[tuple[str, bytes]]) -> str:
    (folder / "a.tar").write_bytes(tar_bytes(members))
    return str(folder)


def test_samples_are_numbered_over_shards_in_the_order_of_their_names(tmp_path: Path) -> None:
    source = open_tars(TarData(str(write_shards(tmp_path, [5, 5, 1]))))
    assert captions(source) == [(f"number {number}",) for number in range(11)]
    for index in (0, 4, 5, 10):
        shown = np.asarray(read(source, index).picture).astype(int)
        assert np.abs(shown - np.asarray(picture(index)).astype(int)).mean() < 6
        assert source.key(index) == f"0000{index // 5}.tar:{index:09d}"
    assert (source.left_out, source.examples) == ({}, ())
    assert "3 tar shards" in source.describe()


def test_shards_of_scenes_are_read_as_they_are_written(tmp_path: Path) -> None:
    write_scenes(tmp_path, 5, seed=3, size=32, per_shard=3)
    source = open_tars(TarData(str(tmp_path)))
    assert len(source) == 5
    for index in range(5):
        scene, sample = describe_scene(3, index), read(source, index)
        assert sample.captions == (scene.caption,)
        assert np.array_equal(np.asarray(sample.picture), render_scene(scene, 32)[0])


def test_every_kind_of_broken_sample_is_counted_by_its_reason_and_the_whole_ones_are_read(tmp_path: Path) -> None:
    source = open_tars(TarData(str(broken_shard(tmp_path))))
    assert source.left_out == {"no caption": 1, "empty caption": 1, "tar cut": 1}
    assert {(skip.key, skip.reason) for skip in source.examples} == {
        ("00000.tar:000000005", "no caption"),
        ("00000.tar:000000006", "empty caption"),
        ("00000.tar:000000007", "tar cut"),
    }
    assert len(source) == 5
    assert [read(source, index).captions for index in range(3)] == [("number 0",), ("number 1",), ("number 2",)]
    assert source.read(3) == Skip(3, "00000.tar:000000003", "truncated picture")
    assert source.read(4) == Skip(4, "00000.tar:000000004", "not a picture")
    assert "shards that end early: 1" in source.describe()


def test_a_key_is_the_folder_and_the_base_name_up_to_its_first_dot(tmp_path: Path) -> None:
    image = encoded(0)
    members = [
        ("v1.0/a.b.jpg", image),
        ("v1.0/a.b.txt", b"dots"),
        ("22.05.png", encoded(1, "PNG")),
        ("22.05.txt", b"dots"),
        ("v1.0/c.jpg", image),
        ("v1.0/c.txt", b"in a folder"),
        ("./d.JPG", image),
        ("d.txt", b"capitals"),
        ("._d.jpg", b"left by a Mac"),
        ("__meta__.json", b"{}"),
        ("README", b"without a dot"),
    ]
    data = TarData(one_tar(tmp_path, members))
    source = open_tars(data)
    assert captions(source) == [("in a folder",), ("capitals",)]
    assert source.left_out == {"dots in the name": 2}
    assert {skip.key for skip in source.examples} == {"a.tar:v1.0/a.b.jpg", "a.tar:22.05.png"}
    other = open_tars(replace(data, split="last dot"))
    assert captions(other) == [("dots",), ("dots",), ("in a folder",), ("capitals",)]
    assert not other.left_out


def test_captions_come_from_the_first_place_that_has_one(tmp_path: Path) -> None:
    image = encoded(0)
    about = json.dumps({"caption": "of the web", "alt": ["short", "long"]}).encode()
    members = [
        ("a.jpg", image), ("a.json", about), ("a.txt", b"of the file"),
        ("b.json", about), ("b.jpg", image),
        ("c.jpg", image), ("c.json", about), ("c.txt", b""),
        ("d.json", about),
        ("e.jpg", b""), ("e.txt", b"no bytes"),
        ("f.jpg", image), ("f.json", b'{"caption": " "}'),
    ]  # fmt: skip
    data = TarData(one_tar(tmp_path, members))
    source = open_tars(data)
    assert [read(source, index).captions[0] for index in range(3)] == ["of the file", "of the web", "of the web"]
    assert source.read(3) == Skip(3, "a.tar:f", "empty caption")
    assert source.left_out == {"no image": 2}
    listed = open_tars(replace(data, captions=("json:alt", "txt")))
    assert read(listed, 0).captions == ("short", "long")


def test_a_shard_that_is_cut_or_gone_after_it_was_indexed_is_a_skip(tmp_path: Path) -> None:
    source = open_tars(TarData(str(write_shards(tmp_path, [3, 2]))))
    first, second = tmp_path / "00000.tar", tmp_path / "00001.tar"
    first.write_bytes(first.read_bytes()[: int(source.shards[0].records[2]["image"]) + 40])
    second.unlink()
    reasons = [getattr(source.read(index), "reason", "") for index in range(5)]
    assert reasons == ["", "", "tar cut", "unreadable file", "unreadable file"]


def test_the_index_is_kept_and_read_again_only_where_a_shard_changed(tmp_path: Path) -> None:
    folder, cache = write_shards(tmp_path / "data", [3, 2, 2]), tmp_path / "cache"
    data = TarData(str(folder))
    source = open_tars(data, cache)
    assert len(list(cache.iterdir())) == 2
    # A shard whose bytes changed and whose size and time did not is believed: so nothing else was read.
    hidden = folder / "00001.tar"
    status = hidden.stat()
    hidden.write_bytes(bytes(status.st_size))
    os.utime(hidden, ns=(status.st_atime_ns, status.st_mtime_ns))
    again = open_tars(data, cache)
    assert len(again) == 7
    assert again.fingerprint() == source.fingerprint()
    (folder / "00002.tar").write_bytes(tar_bytes(pairs(5, 4)))
    changed = open_tars(data, cache)
    assert len(changed) == 9
    assert [read(changed, index).captions for index in (0, 8)] == [("number 0",), ("number 8",)]
    assert changed.fingerprint() != source.fingerprint()
    assert len(list(cache.iterdir())) == 2  # the index that it replaces is gone
    os.utime(hidden, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert len(open_tars(data, cache)) == 7


def test_an_index_is_kept_while_it_is_made_and_gone_on_with(tmp_path: Path) -> None:
    folder, cache = write_shards(tmp_path / "data", [1] * 205), tmp_path / "cache"
    data, seen = TarData(str(folder)), []

    def cut(done: int, count: int) -> None:
        assert count == 205
        if done == 204:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_tars(data, cache, cut)
    # What is known is believed: the first 200 are not read again, the others are.
    for number in (0, 199, 200):
        hidden = folder / f"{number:05d}.tar"
        status = hidden.stat()
        hidden.write_bytes(bytes(status.st_size))
        os.utime(hidden, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert len(open_tars(data, cache, lambda done, _: seen.append(done))) == 204
    assert seen == list(range(1, 206))
    assert len(list(cache.iterdir())) == 2


def test_an_index_by_other_rules_or_broken_is_not_used(tmp_path: Path) -> None:
    folder, cache = write_shards(tmp_path / "data", [3]), tmp_path / "cache"
    data = TarData(str(folder))
    open_tars(data, cache)
    assert len(open_tars(replace(data, captions=("json:caption",)), cache)) == 0
    assert len(open_tars(data, cache)) == 3
    for kept in cache.iterdir():
        kept.write_bytes(b"{")
    assert captions(open_tars(data, cache)) == [("number 0",), ("number 1",), ("number 2",)]


def test_the_fingerprint_follows_names_and_contents_and_not_the_folder(tmp_path: Path) -> None:
    one, same = write_shards(tmp_path / "one", [3, 2]), write_shards(tmp_path / "same", [3, 2])
    other = write_shards(tmp_path / "other", [2, 3])
    prints = [open_tars(TarData(str(folder))).fingerprint() for folder in (one, same, other)]
    assert prints[0] == prints[1] != prints[2]
    (same / "00001.tar").rename(same / "00003.tar")
    assert open_tars(TarData(str(same))).fingerprint() != prints[0]


def test_shards_are_named_by_folder_file_pattern_or_range(tmp_path: Path) -> None:
    write_shards(tmp_path, [1, 1, 1])
    (tmp_path / "00000_stats.json").write_text("{}")
    (tmp_path / "00000.parquet").write_bytes(b"")
    for tars in ("", "0000*.tar", "{00000..00002}.tar"):
        assert [path.name for path in find_shards(str(tmp_path / tars))] == ["00000.tar", "00001.tar", "00002.tar"]
    assert len(find_shards(str(tmp_path / "00001.tar"))) == 1
    with pytest.raises(StudioError, match=r"1 of 4 shards are not there, the first is 00003\.tar"):
        find_shards(str(tmp_path / "{00000..00003}.tar"))
    with pytest.raises(StudioError, match="There are no tar shards"):
        find_shards(str(tmp_path / "train-*.tar"))
    (tmp_path / "00003.tar.gz").write_bytes(b"\x1f\x8b")
    with pytest.raises(StudioError, match=r"1 compressed tars, the first is 00003\.tar\.gz.*unpack"):
        find_shards(str(tmp_path))


def test_an_index_takes_fewer_than_forty_bytes_a_sample(tmp_path: Path) -> None:
    source = open_tars(TarData(str(write_shards(tmp_path, [4]))))
    assert source.shards[0].records.itemsize < 40
    assert source.shards[0].records.flags.c_contiguous
