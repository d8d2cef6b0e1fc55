"""Frozen dataclasses from plain values (JSON, TOML): every key and type is checked, the nearest key is named."""

import difflib
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, TypeVar

from models.errors import StudioError

T = TypeVar("T")


def nearest(given: object, known: Iterable[str]) -> str:
    """ ", did you mean 'x'?" for the known word most like `given`, or "" if none is alike."""
    found = difflib.get_close_matches(str(given), list(known), n=1, cutoff=0.5)
    return f", did you mean {found[0]!r}?" if found else ""


def from_plain(kind: type[T], data: object, where: str) -> T:
    """Build the dataclass `kind` from a table as read from JSON or TOML, nested dataclasses included.

    Raises:
        StudioError: not a table, an unknown key (the nearest known one is named), a missing key, a wrong type.
    """
    if not isinstance(data, Mapping):
        raise StudioError(f"{where} = {data!r} must be a table of settings.")
    assert is_dataclass(kind)
    known = {f.name: f for f in fields(kind)}
    for key in data:
        if key not in known:
            raise StudioError(
                f"{where} has no setting {key!r}{nearest(key, known)}: it knows {', '.join(sorted(known))}."
            )
    missing = [n for n, f in known.items() if n not in data and f.default is MISSING and f.default_factory is MISSING]
    if missing:
        raise StudioError(f"{where} lacks {', '.join(missing)}: add {'it' if len(missing) == 1 else 'them'}.")
    hints = typing.get_type_hints(kind)
    return kind(**{key: _value(hints[key], value, f"{where}.{key}") for key, value in data.items()})


def _value(hint: Any, value: object, where: str) -> Any:
    """`value` as the annotated type; whole numbers pass as floats, lists as tuples."""
    if is_dataclass(hint) and isinstance(hint, type):
        return from_plain(hint, value, where)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in arguments:
            return None
        return _value(_arm(arguments, value), value, where)
    if origin is Literal:
        if value in arguments:
            return value
        raise StudioError(
            f"{where} = {value!r} is unknown{nearest(value, map(str, arguments))}: "
            f"choose {', '.join(map(str, arguments))}."
        )
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise StudioError(f"{where} = {value!r} must be a list.")
        kinds = [arguments[0]] * len(value) if arguments[1:] == (...,) else list(arguments)
        if len(kinds) != len(value):
            raise StudioError(f"{where} = {value!r} must have {len(kinds)} entries.")
        return tuple(
            _value(kind, item, f"{where}[{i}]") for i, (kind, item) in enumerate(zip(kinds, value, strict=True))
        )
    if origin is dict:
        hint = dict
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    assert isinstance(hint, type)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise StudioError(f"{where} = {value!r} must be of type {hint.__name__}.")
    return value


def _arm(arms: tuple[Any, ...], value: object) -> Any:
    """The member of a union that `value` looks like: a dataclass by its keys, a list for a tuple; else the first."""
    for arm in arms:
        if is_dataclass(arm) and isinstance(value, Mapping) and value.keys() & {f.name for f in fields(arm)[:1]}:
            return arm
        if typing.get_origin(arm) is tuple and isinstance(value, (list, tuple)):
            return arm
        if isinstance(arm, type) and type(value) is arm:
            return arm
    return arms[0]
