"""Numbers and texts as the page's fields send them: an emptied one sends nothing, and a raw request anything."""

import math
from typing import Any

from models import StudioError


def filled(value: Any, field: str) -> float:
    """The number in a field.

    Raises:
        StudioError: the field is empty, or holds no finite number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        got = "is empty" if value is None else f"holds {str(value)[:40]!r}, which is no number"
        raise StudioError(f"The field “{field}” {got}: write a number.")
    return value


def filled_whole(value: Any, field: str) -> int:
    """The nearest whole number to that in a field.

    Raises:
        StudioError: as `filled`.
    """
    return round(filled(value, field))


def filled_text(value: Any, field: str) -> str:
    """The text in a field, "" of an empty one. Lone surrogates, which a raw request may hold, are replaced: they can be
    neither tokenised nor sent back.

    Raises:
        StudioError: it is no text.
    """
    if not isinstance(value, str | None):
        raise StudioError(f"The field “{field}” holds {str(value)[:40]!r}, which is no text: write one.")
    return (value or "").encode("utf-8", "replace").decode("utf-8")
