"""What a weight file is, by its first bytes and never by its name, and how large one may be."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from models.errors import CheckpointError

Kind = Literal["safetensors", "zip", "pickles"]


@dataclass(frozen=True)
class Limits:
    """How much a weight file may ask for; checked before memory is taken.

    The defaults let the largest open CLIP (ViT-bigG in float32, 10 GB) pass with its optimiser.

    Attributes:
        total_bytes: size of the file, and of all tensors that are read from it.
        header_bytes: size of what describes the tensors: a safetensors header, the pickle in a zip.
        tensors: how many tensors are taken.
        entries: how many entries a zip may have; AdamW's state makes three of each tensor.
    """

    total_bytes: int = 48 * 2**30
    header_bytes: int = 32 * 2**20
    tensors: int = 100_000
    entries: int = 500_000


_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"version https://git-lfs.github.com/spec/", "is a Git LFS pointer and not the weights: run git lfs pull"),
    (b"\x93NUMPY", "is a NumPy array, which has no names for weights: save a state dict as safetensors"),
    (b"\x89HDF\r\n\x1a\n", "is an HDF5 file (Keras): export the weights as safetensors"),
    (b"GGUF", "is a GGUF file, whose weights are quantised: choose the safetensors file of the model"),
    (b"\x1f\x8b", "is gzip-compressed: unpack it first"),
    (b"\xfd7zXZ\x00", "is xz-compressed: unpack it first"),
    (b"BZh", "is bzip2-compressed: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "is zstd-compressed: unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "is a 7z archive: unpack it first"),
    (b"PK\x05\x06", "is an empty zip archive: save the checkpoint again"),
    (b"\x89PNG", "is a picture: choose a weight file"),
    (b"\xff\xd8\xff", "is a picture: choose a weight file"),
)


def open_size(path: Path, limits: Limits) -> int:
    """Bytes of a regular, non-empty file that is not too large.

    Raises:
        CheckpointError: there is no such file, it is a folder or a device, it is empty or beyond the limit.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} does not exist: check the path.") from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be looked at ({error}): check the path and its permissions.") from error
    if stat.S_ISDIR(found.st_mode):
        raise CheckpointError(f"{path} is a folder, not a weight file: choose the file of weights in it.")
    if not stat.S_ISREG(found.st_mode):
        raise CheckpointError(f"{path} is a device or a pipe, not a file: save the weights to a file first.")
    if found.st_size == 0:
        raise CheckpointError(f"{path} is empty (0 bytes): download or save it again.")
    if found.st_size > limits.total_bytes:
        raise CheckpointError(
            f"{path} has {found.st_size:,} bytes, more than the {limits.total_bytes:,} that may be read: "
            "choose a smaller file or raise the limit."
        )
    return found.st_size


def sniff(path: Path, limits: Limits) -> Kind:
    """The container of a weight file: safetensors, PyTorch's zip, or the row of pickles of PyTorch before 1.6.

    Raises:
        CheckpointError: it is something else; the sentence says what, as far as its first bytes tell.
    """
    open_size(path, limits)
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error}): check its permissions.") from error
    if head.startswith(b"PK\x03\x04"):
        return "zip"
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "pickles"
    if head[8:9] == b"{" and not _is_text(head[:8]):
        return "safetensors"
    raise CheckpointError(f"{path} {_describe(head)}.")


def _describe(head: bytes) -> str:
    for magic, sentence in _MAGIC:
        if head.startswith(magic):
            return sentence
    if head[257:262] == b"ustar":
        return "is a tar archive: unpack it and choose the file of weights in it"
    if head[:1] == b"\x08" and head[2:3] == b"\x12":
        return "is an ONNX graph, not a file of weights: choose the checkpoint that it was exported from"
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        return "is a web page, not the weights: download the file itself, perhaps after signing in there"
    if _is_text(head):
        if start.startswith((b"{", b"[")):
            return "is JSON text, not the weights: choose the weight file beside it"
        return "is text, not the weights: choose a .safetensors or .pt file"
    if len(head) < 16:
        return f"ends after {len(head)} bytes, before anything is said about weights: download or save it again"
    return "is neither safetensors nor a PyTorch checkpoint: choose one of these, or download it again"


def _is_text(data: bytes) -> bool:
    return all(byte in b"\t\n\r" or 32 <= byte < 127 or byte >= 128 for byte in data) and _decodes(data)


def _decodes(data: bytes) -> bool:
    try:
        data[:-3].decode("utf-8") if len(data) > 16 else data.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return True
