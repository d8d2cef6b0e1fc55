"""The settings of the tabs as parts of a query string, read back: what an address holds beside Compare's view.

Pure: a value that a field cannot have is left out with a sentence about it, as in `studio.link`. What differs from a
field's default is written by the page (viewer/address.js); the rest is absent.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Prompts and classes of a page fit; an address of more is refused by servers on the way.
MOST_TEXT = 2000
_WRONG = object()


@dataclass(frozen=True)
class OneOf:
    """One of some values."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class SomeOf:
    """Any of some values; the key stands once for each, and once without a value for none of them."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class Within:
    """A finite number from `low` to `high`, whole where `whole` says so."""

    low: float
    high: float
    whole: bool = False


@dataclass(frozen=True)
class Below:
    """A layer or a head: a number from 0, of which the chosen models have so many; or one of some words."""

    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Words:
    """A text."""


@dataclass(frozen=True)
class Named:
    """A picture by its name, as `studio.examples.picture_token` gives it."""


@dataclass(frozen=True)
class Edits:
    """The table of edits of one model; see `studio.edit_link`."""


Rule = OneOf | SomeOf | Within | Below | Words | Named | Edits


@dataclass(frozen=True)
class Field:
    """A setting that an address can hold.

    Attributes:
        key: under which it stands.
        rule: which values it can have.
        default: what it is where the address says nothing.
    """

    key: str
    rule: Rule
    default: Any


@dataclass(frozen=True)
class Settings:
    """What an address asks for.

    Attributes:
        values: by key; a table of edits is its text still, which is read when its model is there.
        remarks: sentences on what was left out.
        left_out: its keys.
    """

    values: Mapping[str, Any]
    remarks: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def written(value: Any) -> str:
    """A value as it stands in an address, as JavaScript's `String` writes it; nothing is an empty text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def read_settings(
    parameters: Iterable[tuple[str, str]], fields: Sequence[Field], counts: Mapping[str, int] | None = None
) -> Settings:
    """The settings in query parameters; keys that are none of the fields' are left alone.

    Args:
        parameters: keys and values as they stand in the address.
        fields: what can be set.
        counts: how many layers or heads there are, by the key of each `Below` that the address holds.
    """
    given: dict[str, list[str]] = {}
    for key, value in parameters:
        if isinstance(value, str):
            given.setdefault(key, []).append(value)
    values: dict[str, Any] = {}
    remarks: dict[str, str] = {}
    for each in fields:
        texts = given.get(each.key)
        if not texts or (texts == [""] and not isinstance(each.rule, SomeOf | Words)):
            continue
        value = _value(each.rule, texts, (counts or {}).get(each.key, 0))
        if value is _WRONG:
            said = rule_in_words(each.rule, (counts or {}).get(each.key, 0))
            remarks[each.key] = f"The link's {each.key} “{texts[-1][:80]}” is left out: it is not {said}."
        else:
            values[each.key] = value
    return Settings(values, tuple(remarks.values()), tuple(remarks))


def _value(rule: Rule, texts: Sequence[str], count: int) -> Any:
    """What texts mean under a rule, of which most take the last; `_WRONG` where they mean nothing."""
    text = texts[-1]
    match rule:
        case OneOf(values):
            return {written(value): value for value in values}.get(text, _WRONG)
        case SomeOf(values):
            known = {written(value): value for value in values}
            wanted = [each for each in texts if each]
            return [known[each] for each in dict.fromkeys(wanted)] if all(each in known for each in wanted) else _WRONG
        case Within():
            return _number(text, rule)
        case Below(words):
            number = _whole(text)
            return text if text in words else number if number is not None and number < count else _WRONG
        case Named():
            return text if is_token(text) else _WRONG
        case Words() | Edits():
            return text if len(text) <= MOST_TEXT else _WRONG


def rule_in_words(rule: Rule, count: int) -> str:
    """What the value of a field must be."""
    match rule:
        case OneOf(values) | SomeOf(values):
            return "one of " + ", ".join(map(written, values))
        case Within(low, high, whole):
            return f"a {'whole ' if whole else ''}number from {low:g} to {high:.10g}"
        case Below(words):
            return " or ".join([*words, *([f"a whole number from 0 to {count - 1}"] if count else [])]) or "there"
        case Named():
            return "the sha256 of a picture as this page writes it"
        case Words() | Edits():
            return f"at most {MOST_TEXT} characters"


def _number(text: str, rule: Within) -> Any:
    try:
        number = float(text)
    except ValueError:
        return _WRONG
    if not text.isascii() or not math.isfinite(number) or not rule.low <= number <= rule.high:
        return _WRONG
    if rule.whole:
        return int(number) if number == round(number) else _WRONG
    return number


def is_token(text: str) -> bool:
    """Whether a text can be the name of a picture."""
    return len(text) == 32 and set(text) <= set("0123456789abcdef")


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 4 else None
