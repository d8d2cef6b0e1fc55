"""What a page makes of the steps of a handler that yields, of which Gradio sends it the differences."""

import copy
from collections.abc import Iterable
from typing import Any

from gradio.utils import diff


def as_a_page_gets(steps: Iterable[Any]) -> list[Any]:
    """Each step as the page has it: the first as it is, further ones by the edits that Gradio sends for them."""
    shown: list[Any] = []
    before: Any = None
    for step in steps:
        if shown:
            now = copy.deepcopy(shown[-1])
            for action, path, value in diff(before, step):
                now = _edited(now, action, path, copy.deepcopy(value))
            shown.append(now)
        else:
            shown.append(copy.deepcopy(step))
        before = step
    return shown


def _edited(whole: Any, action: str, path: list[Any], value: Any) -> Any:
    """One edit, as Gradio's client makes it (`apply_edit` in its stream.ts)."""
    if not path:
        return whole + value if action == "append" else value
    place = whole
    for key in path[:-1]:
        place = place[key]
    last = path[-1]
    if action == "delete":
        del place[last]
    elif action == "append":
        place[last] += value
    elif action == "add" and isinstance(place, list):
        place.insert(last, value)
    else:
        place[last] = value
    return whole
