"""What every tab asks about: one picture and two models, chosen once at the side of the page."""

from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.components import Component

from studio.bring_field import bring_field
from studio.examples import Example
from studio.service import Service
from studio.turns import MOST_IN_LINE
from studio.uploads import picture_field
from studio.viewer.gallery import gallery

LEFT, RIGHT = "clip-scenes", "diffclip-scenes"
# Events that run a model for a moment share these, so that they wait for each other and not for cores.
RUNS_MODEL = "model"
MODEL_EVENT: dict[str, Any] = {"concurrency_id": RUNS_MODEL, "concurrency_limit": 1}
# Runs of many passes wait for each other, in `studio.turns`. They let go of the models between passes, so that short
# ones come between.
RUNS_LONG = "long"
# One that is asked for while the same page's runs begins when that has ended.
LONG_EVENT: dict[str, Any] = {
    "concurrency_id": RUNS_LONG,
    "concurrency_limit": MOST_IN_LINE,
    "trigger_mode": "always_last",
}
# Of all listeners of one event at most one may be `always_last`: what Gradio puts off for one of them it starts anew
# for all of them, so two that put each other off never come to rest. Every tab listens to a change of the models.
EACH_TIME: dict[str, Any] = {"trigger_mode": "multiple"}


@dataclass(frozen=True)
class LookedAt:
    """The widgets at the side.

    Attributes:
        picture: reaches handlers as an `Upload`, or None where there is none.
        scenes: the gallery of examples; its value is the index of the chosen one, -1 for none.
        left, right: names of the two models, as `Service.model` takes them. They also change when a model was
            brought, so tabs that draw by themselves listen to `change`.
        brought: the models that this page brought; see `studio.bring_field.view_of`.
    """

    picture: gr.Image
    scenes: gr.HTML
    left: gr.Dropdown
    right: gr.Dropdown
    brought: gr.HTML

    @property
    def inputs(self) -> list[Component]:
        """Picture, left and right model: what handlers take first."""
        return [self.picture, self.left, self.right]


def choose_what_is_looked_at(service: Service, examples: tuple[Example, ...]) -> LookedAt:
    """Make the widgets, in the column that is open; the first example is chosen."""
    names = service.names
    choices = [(service.title(name), name) for name in names]
    first = str(examples[0].picture) if examples else None
    picture = picture_field(value=first, label="Picture", height=230, elem_id="picture", interactive=True)
    scenes = gallery(examples, elem_id="scenes", visible=bool(examples))
    with gr.Group():
        left = _model_field(choices, LEFT if LEFT in names else names[0], "Left model", "left")
        right = _model_field(choices, RIGHT if RIGHT in names else names[-1], "Right model", "right")
    return LookedAt(picture, scenes, left, right, bring_field(service, left, right))


def _model_field(choices: list[tuple[str, str]], value: str, label: str, elem_id: str) -> gr.Dropdown:
    return gr.Dropdown(choices, value=value, label=label, elem_id=elem_id, interactive=True)
