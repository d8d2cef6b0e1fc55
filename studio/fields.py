"""Sliders that a person can type into, and what they make of what is typed."""

from abc import ABCMeta
from collections.abc import Sequence
from typing import Any

import gradio as gr

from studio.failures import told
from studio.filled import filled

MOST_LAYERS = 64


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


def layer_slider(label: str, **settings: Any) -> gr.Slider:
    """A slider of layers that stands at the last one, however many there are: whoever fills it knows the models."""
    return number_slider(0, MOST_LAYERS, MOST_LAYERS, step=1, label=label, interactive=True, **settings)


def layer_to_show(asked: int, depths: Sequence[int]) -> tuple[int, int]:
    """(the deepest layer of any model, the layer to show) for the layer that is asked for, as on Compare.

    One past the last layer, as a slider has that nobody moved, becomes the last one that all models have.

    Args:
        asked: the layer.
        depths: of the models, in layers; a tower without any has no part in it.
    """
    there = [depth for depth in depths if depth] or [1]
    deepest = max(there) - 1
    return deepest, asked if 0 <= asked <= deepest else min(there) - 1


def untouched(layer: Any) -> bool:
    """Whether what a `layer_slider` holds was neither chosen nor filled: its tab was not opened yet.

    What such a tab is filled with when other models are chosen comes when it is opened. An answer before that, which
    may come after seconds in which models are loaded, would take the place of what the address sets meanwhile.
    """
    return layer == MOST_LAYERS
