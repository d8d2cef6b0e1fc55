"""What a file is, from its content: each wrong kind gets its own sentence, whatever the file is called."""

import gzip
import io
import os
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from models.errors import CheckpointError
from models.files.sniff import Limits, sniff
from models.files.weights import read_weights, write_safetensors


def bytes_of(save: object, *arguments: object) -> bytes:
    buffer = io.BytesIO()
    save(buffer, *arguments)  # type: ignore[operator]
    return buffer.getvalue()


def tar() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("weights.pt"))
    return buffer.getvalue()


def zipped(name: str, data: bytes, method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr(name, data)
    return buffer.getvalue()


SMALL = {"w": torch.arange(6.0)}
WHOLE = bytes_of(lambda file: torch.save(SMALL, file))
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"

WRONG = {
    "empty": (b"", "is empty"),
    "half": (WHOLE[: len(WHOLE) // 2], "is incomplete or damaged"),
    "html": (b"<!DOCTYPE html><html><body>Sign in</body></html>", "is a web page"),
    "html with a mark": (b"\xef\xbb\xbf\n <HTML lang='de'>", "is a web page"),
    "xml": (b"<?xml version='1.0'?><Error>AccessDenied</Error>", "is a web page"),
    "pointer": (POINTER, "is a Git LFS pointer"),
    "json": (b'{"error": "Repository not found"}', "is JSON text"),
    "text": ("Zugriff nicht möglich, später erneut versuchen.\n".encode() * 30, "is text"),
    "python 2 pickle": (b"cos\nsystem\n(S'touch marker'\ntR.", "is text"),
    "npy": (bytes_of(np.save, np.zeros(3)), "is a NumPy array"),
    "npz": (bytes_of(np.savez, np.zeros(3)), "is a NumPy .npz"),
    "zip": (zipped("weights.txt", b"hello"), "torch.save did not write"),
    "empty zip": (b"PK\x05\x06" + bytes(18), "is an empty zip"),
    "compressed": (zipped("archive/data.pkl", bytes(1_000_000), zipfile.ZIP_DEFLATED), "compressed or encrypted"),
    "tar": (tar(), "is a tar archive"),
    "gzip": (gzip.compress(WHOLE), "is gzip-compressed"),
    "onnx": (b"\x08\x08\x12\x07pytorch\x1a\x052.4.0:", "is an ONNX graph"),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(64), "is an HDF5 file"),
    "gguf": (b"GGUF\x03" + bytes(64), "is a GGUF file"),
    "png": (b"\x89PNG\r\n\x1a\n" + bytes(64), "is a picture"),
    "pickle": (b"\x80\x02}.", "torch.save did not write"),
    "zeros": (bytes(4096), "is neither safetensors nor"),
    "short": (b"\x08\0\0\0", "ends after 4 bytes"),
}


@pytest.mark.parametrize("name", ["weights.pt", "model.safetensors", "no extension"])
@pytest.mark.parametrize("case", sorted(WRONG))
def test_each_wrong_file_gets_one_sentence_that_says_what_it_is(tmp_path: Path, case: str, name: str) -> None:
    content, sentence = WRONG[case]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        read_weights(path)
    message = str(caught.value)
    assert sentence in message
    assert message.startswith(str(path))
    assert message.endswith(".")
    assert "\n" not in message


@pytest.mark.parametrize("name", ["weights.pt", "model.safetensors", "weights.bin", "page.html"])
def test_the_name_of_a_file_does_not_matter(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    torch.save(SMALL, path)
    assert sniff(path, Limits()) == "zip"
    assert torch.equal(read_weights(path).state["w"], SMALL["w"])
    torch.save(SMALL, path, _use_new_zipfile_serialization=False)
    assert sniff(path, Limits()) == "pickles"
    assert torch.equal(read_weights(path).state["w"], SMALL["w"])
    write_safetensors(SMALL, path)
    assert sniff(path, Limits()) == "safetensors"
    assert torch.equal(read_weights(path).state["w"], SMALL["w"])


def test_what_is_no_file_is_refused_without_opening_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, sentence in (
        (tmp_path / "nowhere.pt", "does not exist"),
        (tmp_path, "is a folder"),
        (pipe, "is a device or a pipe"),
        (tmp_path / "a\0b", "cannot be looked at"),
        (tmp_path / ("x" * 5000), "cannot be looked at"),
    ):
        with pytest.raises(CheckpointError, match=sentence):
            read_weights(path)


def test_a_torchscript_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "scripted.pt"
    buffer = io.BytesIO()
    torch.save(SMALL, buffer)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr("archive/constants.pkl", b"\x80\x02).")
        archive.writestr("archive/code/__torch__.py", "class Model: ...")
    path.write_bytes(buffer.getvalue())
    with pytest.raises(CheckpointError, match="TorchScript"):
        read_weights(path)


def test_a_file_beyond_the_limit_is_refused_by_its_size_alone(tmp_path: Path) -> None:
    path = tmp_path / "huge.pt"
    with path.open("wb") as file:
        file.truncate(2**40)  # sparse
    with pytest.raises(CheckpointError, match="1,099,511,627,776 bytes"):
        read_weights(path)
    path.write_bytes(WHOLE)
    with pytest.raises(CheckpointError, match=r"more than the 1,000 that"):
        read_weights(path, Limits(total_bytes=1000))
