"""Files that torch.save wrote, in both of its layouts: PyTorch's weights-only reader behind bounds and a short list.

Since PyTorch 1.6 the file is a zip with the pickle in `NAME/data.pkl` and one entry a storage; before, it is a row of
pickles followed by the storages.
"""

import argparse
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from pickle import UnpicklingError
from typing import Literal

import numpy as np
import torch
from torch.serialization import get_safe_globals, get_unsafe_globals_in_checkpoint, safe_globals

from models.errors import CheckpointError
from models.files.archives import check_archive
from models.files.sniff import Limits

# torch.load reads its list of allowed names from the whole process, so one load at a time may lengthen it.
_LOADING = threading.Lock()
_NAMED = re.compile(r"GLOBAL (\S+)")
_SHOWN = 5
_PATHS = ("pathlib", "pathlib._local")
_NUMBERS = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")


def read_torch(path: Path, kind: Literal["zip", "pickles"], limits: Limits) -> object:
    """What torch.save was given: tensors on the CPU, containers and plain values; paths become text.

    The zip's directory is checked, and its bytes against their checksums, before PyTorch sees it; a file in the old
    layout is bounded by its size alone. No function that the file names is called unless PyTorch or `_allowed` lists
    it. Everything is read, an optimiser too.

    Raises:
        CheckpointError: the file needs code to be opened, the sentence says which; or it is no checkpoint, is cut,
            damaged or beyond the limits.
        OSError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            if kind == "zip":
                check_archive(file, path, limits)
                file.seek(0)
            with _LOADING, _allow(_allowed()):
                if kind == "zip":
                    if names := sorted(get_unsafe_globals_in_checkpoint(file)):
                        raise _runs_code(path, names)
                    file.seek(0)
                return torch.load(file, map_location="cpu", weights_only=True, mmap=False)
    except (CheckpointError, OSError):
        raise
    except Exception as error:  # a damaged pickle can make the reader stumble anywhere
        # PyTorch's own sentences advise to turn the safe reader off, so they are not passed on.
        raise _refusal(path, error) from None


def _allowed() -> list[Callable | tuple[Callable, str]]:
    """What training code puts beside weights and PyTorch does not know by itself, under the names in the file."""
    number = np.float64(0).__reduce__()[0]  # NumPy's maker of scalars, private under two names
    assert callable(number)
    return [
        argparse.Namespace,
        np.dtype,
        *{type(np.dtype(code)) for code in _NUMBERS},
        (number, "numpy.core.multiarray.scalar"),
        (number, "numpy._core.multiarray.scalar"),
        *((_posix_path, f"{module}.{kind}PosixPath") for module in _PATHS for kind in ("", "Pure")),
        *((_windows_path, f"{module}.{kind}WindowsPath") for module in _PATHS for kind in ("", "Pure")),
    ]


def _posix_path(*parts: str) -> str:
    return str(PurePosixPath(*parts))


def _windows_path(*parts: str) -> str:
    """Text, since a path object of another system cannot be made."""
    return PureWindowsPath(*parts).as_posix()


@contextmanager
def _allow(names: list[Callable | tuple[Callable, str]]) -> Iterator[None]:
    """Lengthens PyTorch's list for a while; what was there before stays there afterwards."""
    known = get_safe_globals()
    with safe_globals([name for name in names if name not in known]):
        yield


def _refusal(path: Path, error: Exception) -> CheckpointError:
    said = str(error)
    if isinstance(error, UnpicklingError) and (name := _NAMED.search(said)):
        return _runs_code(path, [name[1]])
    if "magic number" in said:
        return CheckpointError(
            f"{path} is a Python pickle that torch.save did not write: save a state dict as safetensors."
        )
    if isinstance(error, UnpicklingError):
        return CheckpointError(
            f"{path} holds a pickle with steps that PyTorch's safe reader does not know; nothing of it was run: "
            "save the model's state dict with torch.save and its default protocol, or as safetensors."
        )
    return CheckpointError(
        f"{path} is incomplete, damaged or no checkpoint (reading it ended in {type(error).__name__}): "
        "download or save it again."
    )


def _runs_code(path: Path, names: list[str]) -> CheckpointError:
    shown = ", ".join(ascii(name[:200])[1:-1] for name in names[:_SHOWN])
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return CheckpointError(
        f"{path} needs {shown}{more} to be opened, which is code and not weights; nothing of it was run: "
        "where it was made, save the model's state dict as safetensors, and choose that file."
    )
