"""What shards that end early have lost is estimated, counted and told before a run begins."""

import random
from pathlib import Path

import pytest
from tar_files import pairs, tar_bytes, write_shards

from models.errors import StudioError
from train.data.config import TarData
from train.data.remarks import remarks
from train.data.skips import SkipLimit, check_source
from train.data.tars import TarFolder, open_tars


def opened(folder: Path) -> TarFolder:
    return open_tars(TarData(str(folder)))


def cut(path: Path, share: float) -> None:
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


def test_shards_that_were_cut_stop_a_run_by_what_they_lost(tmp_path: Path) -> None:
    folder = write_shards(tmp_path, [50, 50, 50, 50])
    check_source(opened(folder), SkipLimit(0.0))
    for number in range(3):
        cut(folder / f"{number:05d}.tar", 0.1)
    source = opened(folder)
    lost = 200 - len(source)
    assert lost > 120
    assert source.left_out == {"tar cut": lost}
    with pytest.raises(StudioError, match=rf"{lost} of 200 samples could not be used \({lost} tar cut\)"):
        check_source(source, SkipLimit(0.05))
    told = remarks(source)
    assert f"{lost} samples of 200 cannot be used ({lost} tar cut)" in told[0]
    assert "3 tar shards of 4 ended early, with about 13" in told[1]


@pytest.mark.parametrize("content", [b"", b"a" + random.Random(0).randbytes(4000), bytes(5 << 20)])
def test_a_shard_of_which_nothing_can_be_read_has_lost_as_many_as_the_others_hold(
    content: bytes, tmp_path: Path
) -> None:
    folder = write_shards(tmp_path, [20, 20, 20])
    (folder / "00001.tar").write_bytes(content)
    source = opened(folder)
    assert len(source) == 40
    assert source.left_out["tar cut"] >= 20
    assert any(skip.key == "00001.tar" for skip in source.examples)
    with pytest.raises(StudioError, match="tar cut"):
        check_source(source, SkipLimit(0.25))


def test_a_shard_with_a_damaged_header_has_lost_what_its_bytes_held(tmp_path: Path) -> None:
    folder = write_shards(tmp_path, [20, 20, 8])  # the last one is shorter, as last ones are
    path = folder / "00002.tar"
    content = bytearray(path.read_bytes())
    content[content.index(b"000000046.jpg") + 3] ^= 1
    path.write_bytes(content)
    source = opened(folder)
    assert len(source) == 46
    assert 2 <= source.left_out["tar cut"] <= 7  # padding behind the end mark is as large as five such samples


def test_tars_that_were_joined_end_to_end_have_lost_all_but_the_first(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar_bytes(pairs(0, 30)) + tar_bytes(pairs(30, 30)))
    source = opened(tmp_path)
    assert len(source) == 30
    assert 30 <= source.left_out["tar cut"] <= 34


def test_a_tar_without_an_end_mark_has_lost_nothing(tmp_path: Path) -> None:
    folder = write_shards(tmp_path, [9, 9, 3])
    last = opened(folder).shards[2]
    (folder / "00002.tar").write_bytes((folder / "00002.tar").read_bytes()[: last.at])
    source = opened(folder)
    assert source.shards[2].end == "no end mark"
    assert (len(source), source.left_out, remarks(source)) == (21, {}, [])


def test_shards_of_several_names_are_told_and_of_one_are_not(tmp_path: Path) -> None:
    whole = write_shards(tmp_path / "whole", [1, 1])
    assert remarks(opened(whole)) == []
    for name in ("cc-train-0000", "cc-train-0001", "cc-validation-0000"):
        (tmp_path / f"{name}.tar").write_bytes(tar_bytes(pairs(0, 2)))
    (told,) = remarks(opened(tmp_path))
    assert "cc-train-*.tar (2), cc-validation-*.tar (1)" in told
    assert f"'{tmp_path}/cc-train-*.tar'" in told
