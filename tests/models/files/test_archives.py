"""Zips that lie: an archive can neither unfold beyond its own size nor hide what it holds, and damage is noticed."""

import io
import struct
import warnings
import zipfile
from pathlib import Path

import pytest
import torch

from models.errors import CheckpointError
from models.files.archives import check_archive
from models.files.sniff import Limits

ENTRIES = [("a/data.pkl", b"pickle"), ("a/data/0", b"x" * 5000), ("a/leer", b""), ("a/ü", b"1")]


def archive(entries: list[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", method) as file:
        warnings.simplefilter("ignore")  # of a name that is there twice
        for name, data in entries:
            file.writestr(name, data)
    return buffer.getvalue()


def check(data: bytes, limits: Limits | None = None) -> None:
    check_archive(io.BytesIO(data), Path("a.pt"), limits or Limits())


def test_archives_of_torch_and_of_python_pass(tmp_path: Path) -> None:
    path = tmp_path / "w.pt"
    torch.save({f"w{i}": torch.ones(i) for i in range(9)}, path)
    check(path.read_bytes())
    check(archive(ENTRIES))


def test_entries_that_share_bytes_are_refused() -> None:
    data = archive([("a/0", b"x" * 5000)])
    at = data.index(b"PK\x01\x02")
    entry = data[at:-22]
    many = b"".join(entry.replace(b"a/0", b"a/%c" % (48 + i)) for i in range(10))
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 10, 10, len(many), at, 0)
    with pytest.raises(CheckpointError, match="claims 50,000 bytes in 10 entries"):
        check(data[:at] + many + end)


def test_a_compressed_entry_is_refused_before_it_unfolds() -> None:
    data = archive([("a/data.pkl", bytes(10_000_000))], zipfile.ZIP_DEFLATED)
    assert len(data) < 20_000
    with pytest.raises(CheckpointError, match="compressed or encrypted"):
        check(data)


def test_an_encrypted_entry_is_refused() -> None:
    data = bytearray(archive(ENTRIES))
    data[data.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(CheckpointError, match="compressed or encrypted"):
        check(bytes(data))


def test_a_name_that_is_there_twice_is_refused() -> None:
    with pytest.raises(CheckpointError, match="3 entries of 2 names"):
        check(archive([("a/data.pkl", b""), ("a/0", b"one"), ("a/0", b"two")]))


def test_an_entry_that_is_marked_as_a_folder_is_refused() -> None:
    data = bytearray(archive(ENTRIES))
    at = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 1)
    data[at + 38] |= 0x10
    with pytest.raises(CheckpointError, match="holds the folder 'a/data/0'"):
        check(bytes(data))
    with pytest.raises(CheckpointError, match="holds the folder 'a/data/0/'"):
        check(archive([("a/data.pkl", b""), ("a/data/0/", b"")]))


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        (Limits(entries=3), "has 4 entries, and 3 may be read"),
        (Limits(header_bytes=5), "in 6 bytes, more than the 5 that"),
    ],
)
def test_limits_bind_entries_and_the_pickle(limits: Limits, sentence: str) -> None:
    check(archive(ENTRIES), Limits(entries=4, header_bytes=6))
    with pytest.raises(CheckpointError, match=sentence):
        check(archive(ENTRIES), limits)


def test_an_entry_that_was_changed_does_not_have_its_checksum() -> None:
    data = archive(ENTRIES).replace(b"x" * 5000, b"x" * 4999 + b"y")
    with pytest.raises(CheckpointError, match=r"'a/data/0' does not have the checksum"):
        check(data)


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["a/data.pkl", "a/constants.pkl"], "TorchScript"),
        (["a/data.pkl", "a/code/__torch__.py"], "TorchScript"),
        (["x.npy", "y.npy"], "NumPy .npz"),
        (["weights.txt"], "torch.save did not write"),
        (["a/data.pkl", "b/data.pkl"], "torch.save did not write"),
        ([], "torch.save did not write"),
    ],
)
def test_other_archives_are_told_apart(names: list[str], sentence: str) -> None:
    with pytest.raises(CheckpointError, match=sentence):
        check(archive([(name, b"1") for name in names]))
