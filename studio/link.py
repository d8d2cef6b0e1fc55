"""A view of Compare as a query string, and back: what is written into the address of the page.

Pure: names and numbers are checked against what there is, and what cannot be is left out with a sentence about it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from models import StudioError
from studio.asked import LONGEST_TEXT, alpha_asked
from studio.overview import OVERS
from studio.overview_statistics import STATISTICS
from studio.panels import FEWEST, MOST, SOURCES, Known, Panel, checked_panel

# The viewer writes the same keys (viewer/link.js).
CHOICES: dict[str, tuple[str, ...]] = {
    "direction": ("reads", "read by"),
    "source": tuple(SOURCES),
    "scale": ("raw", "uniform", "row"),
    "ramp": ("linear", "root"),
    "drawing": ("patches", "smooth"),
    "aside": ("none", "sinks", "prefix"),
    "overview": tuple(each.name for each in STATISTICS),
    "over": OVERS,
}
_RULES = {
    "layer": "a whole number from 0",
    "from": "a whole number from 0",
    "alpha": "a number from 1 to 2",
    "opacity": "a whole number of percent from 0 to 100",
    "query": "“row.column.model” with a model that is here",
    "swipe": "“left.right.percent” of two panels, counted from 1",
}
_LARGEST = 9999


@dataclass(frozen=True)
class Link:
    """What a link asks for.

    Attributes:
        picture: the picture's token, "" for none.
        left: name of the left model, "" for none.
        right: likewise.
        state: the viewer's settings that the link names; what it does not name is absent.
        remarks: sentences on what was left out.
    """

    picture: str = ""
    left: str = ""
    right: str = ""
    state: dict[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def read_link(parameters: Iterable[tuple[str, str]], known: Known) -> Link:
    """The link that query parameters make; unknown parameters are none of ours and are left alone.

    Args:
        parameters: keys and values as they stand in the address; `p` stands once a panel, as "kind.head.model", or
            "kind.head.own.model" for one with a colour range of its own.
        known: tells whether a model is here.
    """
    given = [(key, value) for key, value in parameters if isinstance(value, str)]
    single = dict(given)
    remarks: list[str] = []
    panels: list[dict[str, Any]] = []
    named = [value for key, value in given if key == "p"]
    if len(named) > MOST:
        remarks.append(f"The link names {len(named)} panels: the first {MOST} are looked at.")
    for value in named[:MOST]:
        try:
            panels.append(_panel(value, known).plain())
        except StudioError:
            remarks.append(f"The link's panel “{value[:80]}” cannot be shown here: its model or map is not here.")
    state: dict[str, Any] = {}
    if len(panels) >= FEWEST:
        state["panels"] = panels
    read = {key: single[key] if single.get(key) in choices else None for key, choices in CHOICES.items()}
    read |= {key: _whole(single.get(key)) for key in ("layer", "from")}
    read |= {"opacity": _percent(single.get("opacity"))}
    read |= {"alpha": _alpha(single.get("alpha")), "query": _query(single.get("query", ""), known)}
    read |= {"swipe": _swipe(single.get("swipe", ""))}
    for key, value in read.items():
        if value is not None:
            state[key] = value
        elif single.get(key):
            remarks.append(f"The link's {key} “{single[key][:80]}” is left out: it is not {_rule(key)}.")
    text = single.get("text", "").strip()
    if text:
        state["text"] = text[:LONGEST_TEXT]
    if len(text) > LONGEST_TEXT:
        remarks.append(f"The link's text is longer than {LONGEST_TEXT} characters: the rest is left out.")
    picture = single.get("picture", "")
    if picture and not (len(picture) == 32 and set(picture) <= set("0123456789abcdef")):
        remarks.append("The link's picture is not named as this page names pictures, so it is left out.")
        picture = ""
    sides = [single.get(side, "") for side in ("left", "right")]
    left, right = (side if known(side) else "" for side in sides)
    remarks += [
        f"The link's model “{side[:80]}” is not here: bring it first."
        for side in sides
        if side not in ("", left, right)
    ]
    return Link(picture, left, right, state, tuple(dict.fromkeys(remarks)))


def _panel(text: str, known: Known) -> Panel:
    kind, _, rest = text.partition(".")
    head, _, name = rest.partition(".")
    own = name.startswith("own.") and not known(name)
    asked = {"kind": kind, "head": head if head == "mean" else _whole(head), "model": name[4:] if own else name}
    return checked_panel(asked | {"own": own}, known)


def _rule(key: str) -> str:
    """What the value of a key must be, in words."""
    return " or ".join(CHOICES[key]) if key in CHOICES else _RULES[key]


def _whole(text: str | None) -> int | None:
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > 4:
        return None
    return min(int(text), _LARGEST)


def _percent(text: str | None) -> float | None:
    number = _whole(text)
    return None if number is None or number > 100 else number / 100


def _alpha(text: str | None) -> float | None:
    try:
        return alpha_asked(float(text)) if text is not None else None
    except (ValueError, StudioError):
        return None


def _swipe(text: str) -> list[int | float] | None:
    """[left, right, share] of "left.right.percent": places of two panels, from 0, and how much the left one covers."""
    left, right, percent = ([_whole(part) for part in text.split(".")] + [None] * 3)[:3]
    if text.count(".") != 2 or left is None or right is None or percent is None:
        return None
    places = left - 1, right - 1
    return [*places, percent / 100] if percent <= 100 and left != right and {*places} <= {*range(MOST)} else None


def _query(text: str, known: Known) -> list[int | str] | None:
    """[row, column, model] of "row.column.model"."""
    row, _, rest = text.partition(".")
    col, _, model = rest.partition(".")
    places = _whole(row), _whole(col)
    return None if None in places or not known(model) else [*places, model]  # type: ignore[list-item]
