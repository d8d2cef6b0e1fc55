"""Numbers as the page's fields send them: a field that a person emptied sends nothing."""

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
