"""Weight files of unknown origin, read without running anything: safetensors, and both layouts of torch.save."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torch import Tensor

from models.errors import CheckpointError
from models.files.safetensors_files import read_safetensors, write_safetensors
from models.files.sniff import Limits, sniff
from models.files.state_keys import common_wrapper
from models.files.torch_files import read_torch
from models.files.values import is_dense, label, plain

__all__ = ["Limits", "Weights", "file_sha256", "read_weights", "write_safetensors"]

# Entries that hold the weights in common training code, the most usual first; averaged weights only if alone.
_USUAL = (
    *("state_dict", "model_state_dict", "model", "module", "net", "network", "weights", "params"),
    *("state_dict_ema", "ema_state_dict", "model_ema", "ema"),
)


@dataclass(frozen=True)
class Weights:
    """Tensors by name as a file holds them, on the CPU, with what else it says.

    Attributes:
        state: names without `stripped`; tied tensors are one tensor.
        path: the file.
        container: what kind of file it is.
        stripped: the wrappers that every name carried, as "module.clip_model."; "" if none.
        nested_in: the entry that held the tensors, as "state_dict"; "" if they were at the top.
        extra: plain values beside the weights, as args (a Namespace becomes a dict), epoch, best_acc1.
        metadata: what a safetensors file says about itself.
        left_out: entries that hold other tensors and were not read, as an optimiser's or averaged weights.
    """

    state: dict[str, Tensor]
    path: Path
    container: Literal["safetensors", "pytorch"]
    stripped: str
    nested_in: str
    extra: dict[str, object]
    metadata: dict[str, str]
    left_out: tuple[str, ...] = ()


def read_weights(path: Path, limits: Limits = Limits()) -> Weights:  # noqa: B008 - frozen
    """Read the weights of a file, whatever its name ends in.

    Its kind is seen from its first bytes, and sizes are checked before memory is taken. Only PyTorch's weights-only
    reader opens a pickle, so a file that would run code is refused and runs nothing.

    Raises:
        CheckpointError: the file is no weight file, is incomplete, damaged, beyond the limits, needs code to be
            opened, or holds no state dict, or several among which none has a usual name.
    """
    try:
        kind = sniff(path, limits)
        if kind == "safetensors":
            state, metadata = read_safetensors(path, limits)
            nested_in, extra, left_out = "", {}, ()
        else:
            top = _table(read_torch(path, kind, limits), path)
            nested_in = _place_of_state(top, path)
            state, extra, left_out = _contents(top, nested_in, path, limits)
            metadata = {}
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error}): check that it is still there.") from error
    if not state:
        raise CheckpointError(f"{path} holds no tensors: choose the file with the weights.")
    _check_size(state, path, limits)
    stripped = common_wrapper(state)
    state = {name[len(stripped) :]: tensor for name, tensor in state.items()}
    container = "safetensors" if kind == "safetensors" else "pytorch"
    return Weights(state, path, container, stripped, nested_in, extra, metadata, left_out)


def file_sha256(path: Path) -> str:
    """SHA-256 of a file in hexadecimal, read piece by piece.

    Raises:
        CheckpointError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error}): check the path.") from error


def _table(value: object, path: Path) -> dict[object, object]:
    if not isinstance(value, dict):
        kind = "a single tensor" if isinstance(value, Tensor) else f"a {type(value).__name__}"
        raise CheckpointError(f"{path} holds {kind}, not weights by name: save model.state_dict().")
    # A file can give an OrderedDict attributes that hide its methods; those of dict itself it cannot hide.
    return dict(dict.items(value))


def _place_of_state(top: Mapping[object, object], path: Path) -> str:
    """The entry that is a state dict, by its content; "" if the whole table is one."""
    nested = [key for key, item in top.items() if isinstance(key, str) and _is_state(item)]
    if usual := [name for name in _USUAL if name in nested]:
        return usual[0]
    if _is_state(top):
        return ""
    if len(nested) == 1:
        return nested[0]
    if nested:
        raise CheckpointError(
            f"{path} holds several sets of weights ({', '.join(map(repr, nested[:5]))}): save the one you want alone."
        )
    entries = ", ".join(repr(label(key))[:60] for key in list(top)[:5]) or "nothing"
    raise CheckpointError(f"{path} holds no tensors by name (its entries: {entries}): save model.state_dict().")


def _is_state(value: object) -> bool:
    return (
        isinstance(value, dict)
        and all(isinstance(key, str) for key in dict.keys(value))
        and any(isinstance(item, Tensor) for item in dict.values(value))
    )


def _contents(
    top: Mapping[object, object], nested_in: str, path: Path, limits: Limits
) -> tuple[dict[str, Tensor], dict[str, object], tuple[str, ...]]:
    """The tensors of the state dict, plain values beside and in it, and the names of what was left out."""
    table = _table(top[nested_in], path) if nested_in else top
    state = {label(name): _dense(item, label(name), path) for name, item in table.items() if isinstance(item, Tensor)}
    start = f"{nested_in}." if nested_in else ""
    beside = {f"{start}{label(name)}": item for name, item in table.items() if not isinstance(item, Tensor)}
    if nested_in:
        beside |= {label(name): item for name, item in top.items() if name != nested_in}
    extra: dict[str, object] = {}
    left_out = []
    for name, item in beside.items():
        try:
            extra[name] = plain(item)
        except ValueError:
            left_out.append(name)
    return state, extra, tuple(left_out)


def _dense(tensor: Tensor, name: str, path: Path) -> Tensor:
    """A plain tensor over the same memory, without what a file may have attached to it."""
    if not is_dense(tensor):
        raise CheckpointError(
            f"{path} holds {name[:200]!r} without plain values (sparse, quantised, nested or on the meta device): "
            "save the model's weights dense."
        )
    return Tensor.detach(tensor).resolve_conj().resolve_neg()


def _check_size(state: Mapping[str, Tensor], path: Path, limits: Limits) -> None:
    """Bounds what the tensors become once each is its own copy: a file may repeat a number or a tensor at no cost."""
    total = sum(tensor.numel() * tensor.dtype.itemsize for tensor in state.values())
    if len(state) > limits.tensors or total > limits.total_bytes:
        raise CheckpointError(
            f"{path} holds {len(state):,} tensors of {total:,} bytes, and {limits.tensors:,} of "
            f"{limits.total_bytes:,} may be read: choose a smaller file or raise the limit."
        )
