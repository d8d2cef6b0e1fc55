"""Numbers as the page's fields send them: a field that a person emptied sends nothing."""

import math
from abc import ABCMeta
from typing import Any

import gradio as gr

from models import StudioError
from studio.failures import told


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


@told
def _nearest(field: gr.Slider, payload: Any) -> float:
    """What the number box of a slider sends -> the nearest value that the slider has."""
    if payload is None:
        return field.minimum
    return min(max(filled(payload, str(field.label)), field.minimum), field.maximum)


# Made past Gradio's metaclass, which writes a stub file next to the source of each subclass. It must be a class:
# where an answer gives a slider another maximum, Gradio makes a new one of the same class.
_Slider: Any = ABCMeta.__new__(type(gr.Slider), "Slider", (gr.Slider,), {"preprocess": _nearest})


def number_slider(minimum: float, maximum: float, value: float, **settings: Any) -> gr.Slider:
    """A `gr.Slider` that a person can type into.

    While a number is being typed it is empty, or too large, for a moment. Gradio's own refuses that with an error for
    each key; this one takes the nearest value that it has, which is what its box will show when the person leaves it.
    """
    return _Slider(minimum, maximum, value, **settings)
