"""A view of Compare as a query string, and back: what is written into the address of the page.

Pure: names and numbers are checked against what there is, and what cannot be is left out with a sentence about it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from models import LoadedModel, StudioError
from models.layout import TokenGrid
from studio.asked import LONGEST_TEXT, alpha_asked
from studio.overview import OVERS
from studio.overview_statistics import STATISTICS
from studio.panels import FEWEST, MOST, SOURCES, Known, checked_panel, kinds_of
from studio.tab_link import is_token

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
        parameters: keys and values as they stand in the address; `p` stands once a panel, as "kind.head.model", with
            "own." before the model for one with a colour range of its own, and "control." for relevance whose numbers
            stand beside those with A2 shuffled.
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
            panels.append(_panel(value, known))
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
    if picture and not is_token(picture):
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


def beyond(link: Link, models: Mapping[str, LoadedModel]) -> list[str]:
    """Sentences on what a link names that its models do not have; the viewer shows something else in its place.

    Args:
        link: as `read_link` gives it.
        models: the left, the right and those of the panels, by their names; those that are not here are missing.
    """
    towers = {name: model.vision for name, model in models.items()}
    last = max((tower.layers for tower in towers.values()), default=0) - 1
    said: list[str] = []
    for key in ("layer", "from"):
        asked = link.state.get(key, 0)
        if asked > last >= 0:
            said.append(f"The link's {key} {asked} is past the last one of these models: shown is {last}.")
    for panel in link.state.get("panels", []):
        tower, kind, head = towers.get(panel["model"]), panel["kind"], panel["head"]
        if tower is None:
            continue
        title = models[panel["model"]].title
        if kind not in kinds_of(tower.differential):
            said.append(f"The link's map {kind} does not exist in {title}, which has one map: shown is A.")
        if head != "mean" and head >= tower.heads:
            said.append(f"The link's head {head} does not exist in {title}: shown is the mean over heads.")
    row, col, name = link.state.get("query", (0, 0, ""))
    if name in models:
        grid = models[name].vision.layout
        if isinstance(grid, TokenGrid) and not (row < grid.rows and col < grid.cols):
            said.append(
                f"The link's query {row}.{col} is no patch of {models[name].title}, which has {grid.rows} × "
                f"{grid.cols}: shown is CLS."
            )
    return list(dict.fromkeys(said))


def _panel(text: str, known: Known) -> dict[str, Any]:
    """A panel as the browser holds it."""
    kind, _, rest = text.partition(".")
    head, _, name = rest.partition(".")
    said = {}
    for word in ("own", "control") if kind == "relevance" else ("own",):
        said[word] = name.startswith(f"{word}.") and not known(name)
        name = name.removeprefix(f"{word}.") if said[word] else name
    asked = {"kind": kind, "head": head if head == "mean" else _whole(head), "model": name, "own": said["own"]}
    return checked_panel(asked, known).plain() | ({"control": True} if said.get("control") else {})


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
