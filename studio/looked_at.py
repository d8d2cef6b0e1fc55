"""What every tab asks about: one picture and two models, chosen once at the side of the page; and when they change.

Gradio goes through the listeners of one event one after the other, and each waits for the answers to those before. So
a change that is heard of from the fields themselves may come seconds late, twice for two models that change together,
or when the same picture was set once more. Here it is told once, first to what must know at once and then to the rest.
"""

import json
from dataclasses import dataclass, field
from typing import Any

import gradio as gr
from gradio.components import Component

from studio.bring_field import bring_field
from studio.examples import Example
from studio.service import Service
from studio.stopping import Stops
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
_KEY = "(picture, left, right) => JSON.stringify([picture?.path ?? '', left, right])"
# Names as JSON has them, since a field of one line changes others.
_FILE_AND_MODELS = "(picture, left, right) => [picture?.path ?? '', JSON.stringify([left, right])]"


@dataclass(frozen=True)
class LookedAt:
    """The widgets at the side.

    Attributes:
        picture: reaches handlers as an `Upload`, or None where there is none.
        scenes: the gallery of examples; its value is the index of the chosen one, -1 for none.
        left, right: names of the two models, as `Service.model` takes them. They also change when a model was
            brought.
        brought: the models that this page brought; see `studio.bring_field.view_of`.
        changed: never shown; its `change` comes once, and at once, for each change of what is chosen. What listens to
            it must be done in the browser.
        file, models: never shown: where the picture lies, and the names of both models. They change after all that
            listens to `changed`, where the picture, or one or both of the models, became another: what tabs that draw
            by themselves listen to.
        stops: ends the runs that were asked for before the last change.
    """

    picture: gr.Image
    scenes: gr.HTML
    left: gr.Dropdown
    right: gr.Dropdown
    brought: gr.HTML
    changed: gr.Textbox
    file: gr.Textbox
    models: gr.Textbox
    stops: Stops = field(default_factory=Stops)

    @property
    def inputs(self) -> list[Component]:
        """Picture, left and right model: what handlers take first."""
        return [self.picture, self.left, self.right]

    def notice_changes(self, clock: gr.Number) -> None:
        """Wire the fields to `changed`, and that to `stops`; before the tabs, whose listeners come after.

        Args:
            clock: is never shown; an event is given the page's time in its stead.
        """
        private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
        fields: list[Any] = [self.picture.change, self.left.change, self.right.change]
        gr.on(fields, None, self.inputs, self.changed, js=_KEY, **private)
        # Follows on a listener and is none itself: those that come after do not wait for its answer.
        self.changed.change(None, None, None, js="() => []", **private).then(
            self.stops.stop, clock, js="() => performance.now()", queue=False, **EACH_TIME, **private
        )

    def pass_changes_on(self, demo: gr.Blocks) -> None:
        """Wire `changed` to `file` and `models`; after the tabs, whose listeners to `changed` come before."""
        private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
        parts: list[Any] = [self.file, self.models]
        self.changed.change(None, self.inputs, parts, js=_FILE_AND_MODELS, **private)
        # What the page opens with: only the browser knows where its picture lies.
        demo.load(None, self.inputs, self.changed, js=_KEY, **private)


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
    # One that is not on the page at all would not be heard to change.
    changed, file = (gr.Textbox("", visible="hidden", label=label) for label in ("What is chosen", "Where it lies"))
    named = json.dumps([left.value, right.value], ensure_ascii=False, separators=(",", ":"))
    models = gr.Textbox(named, visible="hidden", label="Names of the models")
    at = LookedAt(picture, scenes, left, right, bring_field(service, left, right), changed, file, models)
    at.notice_changes(gr.Number(visible=False))
    return at


def _model_field(choices: list[tuple[str, str]], value: str, label: str, elem_id: str) -> gr.Dropdown:
    return gr.Dropdown(choices, value=value, label=label, elem_id=elem_id, interactive=True)
