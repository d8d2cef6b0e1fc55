"""Safetensors files: a bounded header, read by the safetensors library; written in one step."""

import json
import os
import struct
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from models.errors import CheckpointError
from models.files.sniff import Limits, open_size

DTYPES: dict[str, torch.dtype] = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I16": torch.int16,
    "U16": torch.uint16,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I32": torch.int32,
    "U32": torch.uint32,
    "F32": torch.float32,
    "I64": torch.int64,
    "U64": torch.uint64,
    "F64": torch.float64,
    "C64": torch.complex64,
}
ALIASES = "studio.aliases"
_LENGTH = struct.Struct("<Q")


def read_safetensors(path: Path, limits: Limits) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors by name, and the metadata without our record of tied tensors.

    The safetensors library checks and reads the file, which it maps; every tensor is a copy, so nothing depends on the
    file afterwards. Names that `write_safetensors` found tied share one tensor again.

    Raises:
        CheckpointError: the file is cut off, breaks a rule of the format, or is beyond the limits.
    """
    _check_header(path, limits)
    try:
        with safe_open(path, "pt") as file:
            metadata = dict(file.metadata() or {})
            names = file.keys()
            if len(names) > limits.tensors:
                raise _broken(path, f"it holds {len(names):,} tensors, more than the {limits.tensors:,} allowed")
            state = {name: file.get_tensor(name).clone() for name in names}
    except (CheckpointError, OSError):
        raise
    except Exception as error:  # the library has its own, and a type that PyTorch lacks raises others
        reason = " ".join(str(error)[:200].split())
        raise CheckpointError(f"{path} is incomplete or damaged ({reason}): download or export it again.") from error
    for name, tensor in state.items():
        if tensor.dtype not in DTYPES.values():
            raise _broken(path, f"{name[:200]!r} has a type other than {', '.join(DTYPES)}")
    for alias, kept in _aliases(metadata.pop(ALIASES, "{}"), state, path).items():
        state[alias] = state[kept]
    return state, metadata


def write_safetensors(state: Mapping[str, Tensor], path: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors as one safetensors file, which appears whole or not at all; the same input gives the same bytes.

    Each tensor is written contiguous. Names of one and the same tensor (tied weights) are written once, and the
    metadata entry `studio.aliases` says which name stands for which; other overlaps become copies.

    Raises:
        CheckpointError: a tensor's type has no name in the format, a tensor holds no data (meta device) or is not
            dense, a name or a metadata value is not text, or the file cannot be written.
    """
    notes = dict(metadata or {})
    for key, value in notes.items():
        if not isinstance(key, str) or not isinstance(value, str) or key == ALIASES:
            raise CheckpointError(f"Metadata {key!r} = {value!r} cannot be stored: keys and values must be text.")
    names = {dtype: name for name, dtype in DTYPES.items()}
    kept, aliases = _tied({name: _writable(name, tensor, names) for name, tensor in state.items()})
    if aliases:
        notes[ALIASES] = json.dumps(aliases, sort_keys=True)
    # Wide types first keep every tensor aligned to its own width, as readers that map the file want it.
    order = sorted(kept, key=lambda name: (-kept[name].dtype.itemsize, name))
    header: dict[str, Any] = {"__metadata__": dict(sorted(notes.items()))} if notes else {}
    at = 0
    for name in order:
        tensor = kept[name]
        end = at + tensor.numel() * tensor.dtype.itemsize
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    text += b" " * (-len(text) % 8)
    _write_whole(path, [_LENGTH.pack(len(text)), text], [kept[name] for name in order])


def _check_header(path: Path, limits: Limits) -> None:
    """Bounds the header before anything reads it."""
    size = open_size(path, limits)
    with path.open("rb") as file:
        prefix = file.read(_LENGTH.size)
    (length,) = _LENGTH.unpack(prefix.ljust(_LENGTH.size, b"\0"))
    if length > limits.header_bytes:
        raise _broken(path, f"its header claims {length:,} bytes, more than the {limits.header_bytes:,} allowed")
    if _LENGTH.size + length > size:
        raise CheckpointError(
            f"{path} is incomplete: its header takes {_LENGTH.size + length:,} bytes and {size:,} are there; "
            "download or save it again."
        )


def _aliases(text: str, state: dict[str, Tensor], path: Path) -> dict[str, str]:
    try:
        aliases = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _broken(path, f"its {ALIASES} are not JSON") from error
    if not isinstance(aliases, dict) or not all(
        isinstance(kept, str) and kept in state and alias not in state for alias, kept in aliases.items()
    ):
        raise _broken(path, f"its {ALIASES} do not name tensors that it holds")
    return aliases


def _writable(name: object, tensor: Tensor, names: dict[torch.dtype, str]) -> Tensor:
    if not isinstance(name, str) or name == "__metadata__":
        raise CheckpointError(f"A tensor cannot be named {name!r} in a safetensors file: give it another name.")
    if tensor.layout != torch.strided or tensor.is_meta or tensor.dtype not in names:
        raise CheckpointError(
            f"{name} is a {tensor.layout} tensor of {tensor.dtype} on {tensor.device}, which safetensors cannot hold: "
            "make it dense, of a plain type, with data."
        )
    return tensor.detach().resolve_conj().resolve_neg()


def _tied(state: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors to write, and name -> kept name for those that are one and the same memory."""
    first: dict[tuple, str] = {}
    kept: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    for name, tensor in state.items():
        same = (tensor.device, tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
        if tensor.numel() and same in first:
            aliases[name] = first[same]
        else:
            first[same] = name
            kept[name] = tensor
    return kept, aliases


def _write_whole(path: Path, head: list[bytes], tensors: list[Tensor]) -> None:
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
    try:
        try:
            with partial.open("xb") as file:
                for piece in head:
                    file.write(piece)
                for tensor in tensors:
                    file.write(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be written ({error}): check the folder and the free space.") from error


def _broken(path: Path, reason: str) -> CheckpointError:
    return CheckpointError(f"{path} is not a sound safetensors file ({reason}): download or export it again.")
