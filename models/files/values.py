"""What a checkpoint holds beside its weights, as plain values that can be shown and written as JSON."""

import argparse

import numpy as np
import torch
from torch import Tensor

_MOST_VALUES, _MOST_DEPTH = 100_000, 32


def plain(value: object) -> object:
    """A value as dict, list, text, number, truth value or None.

    Bytes, types and devices become text, sets and tuples lists, a Namespace a dict, a tensor of one number that number.

    Raises:
        ValueError: it holds a larger tensor or an unknown object, or is too large or too deep to be a setting; a small
            file can describe endless ones.
    """
    return _plain(value, [_MOST_VALUES], 0)


def label(key: object) -> str:
    """The name of an entry for people, bounded for keys that are no text."""
    return str(key) if isinstance(key, (str, bool, int, float)) else f"({type(key).__name__})"


def is_dense(tensor: Tensor) -> bool:
    """Whether a tensor holds each of its values in memory as it is."""
    special = tensor.is_quantized or tensor.is_nested or tensor.is_meta
    return tensor.layout == torch.strided and not special


def _plain(value: object, left: list[int], depth: int) -> object:
    """See `plain`; `left` is how many values may still be looked at, as one number, `depth` how deep this one lies."""
    left[0] -= 1
    if left[0] < 0 or depth > _MOST_DEPTH:
        raise ValueError("too large or too deep")
    match value:
        case np.generic():  # first, since a NumPy float is a float as well
            return _plain(value.item(), left, depth + 1)
        case None | bool() | float() | str():
            return value
        case int() if value.bit_length() <= 64:
            return value
        case torch.dtype() | torch.device():
            return str(value)
        case bytes():
            return value.decode("latin1")
        case argparse.Namespace():
            return _plain(vars(value), left, depth)
        case list() | tuple() | set():
            return [_plain(item, left, depth + 1) for item in value]
        case dict():
            return {
                key if isinstance(key, str) else str(_plain(key, left, depth + 1)): _plain(item, left, depth + 1)
                for key, item in dict.items(value)
            }
        case Tensor() if depth == 0 and is_dense(value):
            numbers = Tensor.detach(value)
            if numbers.numel() == 1:
                return numbers.item()
    raise ValueError("no plain value")
