"""Headers of tars, read as Python's own tarfile reads them, and as far as they go."""

import io
import random
import tarfile
from pathlib import Path

import pytest
from tar_files import tar_bytes

from models.errors import StudioError
from train.data.tar_headers import member_name, read_headers

NAMES = ["a.jpg", "folder/b.txt", "äöü/ß.txt", "d" * 90 + "/" + "e" * 60 + ".jpg", "x" * 300 + ".png", "last.json"]


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_members_are_where_tarfile_finds_them(form: int, tmp_path: Path) -> None:
    names = [name for name in NAMES if form != tarfile.USTAR_FORMAT or len(name) < 300]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for number, name in enumerate(names):
            member = tarfile.TarInfo(name)
            member.size, member.pax_headers = 700 * number, {"comment": "ü"} if number == 1 else {}
            archive.addfile(member, io.BytesIO(bytes(700 * number)))
            folder, link = tarfile.TarInfo(f"folder{number}"), tarfile.TarInfo(f"link{number}")
            folder.type, link.type, link.linkname = tarfile.DIRTYPE, tarfile.SYMTYPE, "a.jpg"
            archive.addfile(folder)
            archive.addfile(link)
    path = tmp_path / "a.tar"
    path.write_bytes(buffer.getvalue())
    headers = read_headers(path)
    with tarfile.open(path) as archive:
        theirs = [(m.name, m.offset_data, m.size) for m in archive if m.isfile()]
    assert [(m.name, m.data, m.size) for m in headers.members] == theirs
    assert (headers.end, headers.cut) == ("whole", "")
    assert [member_name(path, m.header) for m in headers.members] == names


def test_sizes_beyond_eight_gigabytes_are_read(tmp_path: Path) -> None:
    member = tarfile.TarInfo("large.bin")
    member.size = 9 * 2**30
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        path = tmp_path / f"{form}.tar"
        path.write_bytes(member.tobuf(form) + bytes(1024))
        headers = read_headers(path)
        assert (headers.end, headers.cut, headers.members) == ("cut", "large.bin", [])


def test_a_tar_cut_anywhere_gives_what_lies_before_the_cut(tmp_path: Path) -> None:
    whole = tar_bytes([("a.jpg", b"1" * 900), ("a.txt", b"2"), ("b.jpg", b"3" * 512), ("b.txt", b"")])
    path = tmp_path / "a.tar"
    path.write_bytes(whole)
    complete = read_headers(path).members
    assert len(complete) == 4
    for length in range(1, complete[-1].data + 513, 101):
        path.write_bytes(whole[:length])
        headers = read_headers(path)
        assert headers.members == [m for m in complete if m.data + m.size <= length]
        assert (headers.end == "whole") == (length >= complete[-1].data + 512)
        assert headers.at <= length


def test_damage_to_a_header_is_seen_where_it_is(tmp_path: Path) -> None:
    content = bytearray(tar_bytes([("a.jpg", b"1" * 900), ("a.txt", b"2"), ("b.jpg", b"3")]))
    at = content.index(b"a.txt")
    content[at + 3] ^= 1
    path = tmp_path / "a.tar"
    path.write_bytes(content)
    headers = read_headers(path)
    assert ([m.name for m in headers.members], headers.end, headers.at) == (["a.jpg"], "damaged", at)


def test_bytes_that_are_no_tar_end_as_damage_or_a_cut_and_never_hang(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    chance = random.Random(0)
    for length in (0, 1, 511, 512, 5000):
        path.write_bytes(b"a" + chance.randbytes(length))
        assert read_headers(path).end in ("damaged", "cut")
    path.write_bytes(b"")
    assert read_headers(path).end == "no end mark"


def test_what_lies_behind_an_end_mark_is_seen_and_padding_is_not(tmp_path: Path) -> None:
    one, other = tar_bytes([("a.jpg", b"1")]), tar_bytes([("b.jpg", b"2")])
    path = tmp_path / "a.tar"
    for rest, end in (
        (b"", "whole"),
        (bytes(1 << 20), "whole"),
        (other, "more behind its end mark"),
        (bytes(5 << 20), "more behind its end mark"),  # a file that was given its size and never filled
    ):
        path.write_bytes(one + rest)
        headers = read_headers(path)
        assert ([m.name for m in headers.members], headers.end, headers.at) == (["a.jpg"], end, 1024)


@pytest.mark.parametrize(("magic", "name"), [(b"\x1f\x8b", "gzip"), (b"BZh9", "bzip2"), (b"\xfd7zXZ", "xz")])
def test_a_compressed_tar_is_refused_by_its_content(magic: bytes, name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(magic + bytes(600))
    with pytest.raises(StudioError, match=rf"compressed \({name}\).*unpack"):
        read_headers(path)
