"""The folded part at the side of the page in which a person brings a model of their own."""

import json
from collections.abc import Iterator
from typing import Any

import gradio as gr

from models import StudioError
from studio.bring import BESIDE, KINDS, Stage, bring_files, bring_named, recognised
from studio.public import Policy
from studio.sent_files import sent_files
from studio.service import Service
from studio.viewer.brought import brought_list

MOST_BROUGHT = 20
# Events that load a model share these; they wait for each other and not for those who look at pictures.
BRINGS = "bring"
_HINTS = (
    "A shipped name, `hf-hub:organisation/name`, `open_clip:ViT-B-16/openai`, or a path under the folder of the server."
)
_SETTINGS = "lambda_init = 0.8; heads = 12, 8"
_SETTINGS_INFO = "What the file does not say, or what shall be otherwise. Empty takes what is recognised."


def bring_field(service: Service, left: gr.Dropdown, right: gr.Dropdown) -> gr.HTML:
    """Make the widgets, in the column that is open, and wire them: a model that came is chosen left or right.

    Returns:
        The list of what this page brought; its value is what `view_of` makes.
    """
    public = service.policy.public
    with gr.Accordion("Bring a model", open=False, elem_id="bring"):
        named = _named_field(service.policy)
        # In public there is no upload at all; the event refuses files as well.
        files = gr.File(
            label="or a checkpoint file",
            file_types=[*KINDS, *BESIDE],
            file_count="multiple",
            height=132,
            elem_id="bring-files",
            interactive=True,
            visible=not public,
        )
        settings = gr.Textbox(
            label="Settings",
            info=_SETTINGS_INFO,
            placeholder=_SETTINGS,
            lines=1,
            max_lines=4,
            elem_id="bring-settings",
            interactive=True,
        )
        with gr.Row():
            as_left = gr.Button("Load as left", size="sm", min_width=80, elem_id="bring-left")
            as_right = gr.Button("Load as right", size="sm", min_width=80, elem_id="bring-right")
        brought = brought_list(elem_id="brought")
    for button, field, place in ((as_left, left, 0), (as_right, right, 1)):
        _wire(service, button, field, place, [named, files, settings, left, right, brought], [brought, left, right])
    return brought


def _named_field(policy: Policy) -> gr.Dropdown | gr.Textbox:
    if policy.public:
        choices = [(entry.title, entry.reference) for entry in policy.allowed]
        # Any name may be written, so that one that is not on the list gets the sentence that says so.
        return gr.Dropdown(
            choices,
            value=None,
            label="From the Hub",
            allow_custom_value=True,
            elem_id="bring-name",
            interactive=True,
        )
    return gr.Textbox(label="Name or path", info=_HINTS, lines=1, max_lines=1, elem_id="bring-name", interactive=True)


def _wire(
    service: Service, button: gr.Button, field: gr.Dropdown, place: int, inputs: list[Any], outputs: list[Any]
) -> None:
    def bring_model(
        named: str | None, files: list[str] | None, settings: str, left: str, right: str, before: Any
    ) -> Iterator[tuple[Any, ...]]:
        models, chosen = known_of(service, before), [left, right]
        try:
            for stage in stages(service, named, files, settings):
                if not stage.name:
                    yield view_of(service, stage.said, "busy", models), gr.skip(), gr.skip()
                    continue
                models = [stage.name, *(name for name in models if name != stage.name)][:MOST_BROUGHT]
                chosen[place] = stage.name
                choices = choices_of(service, [*models, *chosen])
                fields = [gr.update(choices=choices, value=name) for name in chosen]
                yield view_of(service, stage.said, "", models), *fields
        except StudioError as error:
            yield view_of(service, str(error), "failed", models), gr.skip(), gr.skip()

    button.click(
        bring_model,
        inputs,
        outputs,
        concurrency_id=BRINGS,
        concurrency_limit=2,
        show_progress="hidden",
        api_visibility="private",
    )


def stages(service: Service, named: str | None, files: list[str] | None, settings: str) -> Iterator[Stage]:
    """The stages of bringing what the fields hold.

    Raises:
        StudioError: both a name and a file are given, or neither; or what `studio.bring` raises.
    """
    if files and (named or "").strip():
        raise StudioError("Both a name and a file are given: clear one of them.")
    if files:
        service.policy.check_uploads()
        yield from bring_files(service, sent_files(files), settings or "")
    else:
        yield from bring_named(service, named or "", settings or "")


def known_of(service: Service, value: Any) -> list[str]:
    """Names of the models that this page brought before, of those that are still known."""
    listed = value.get("models") if isinstance(value, dict) else None
    names = [model.get("name") for model in listed if isinstance(model, dict)] if isinstance(listed, list) else []
    return [name for name in names if isinstance(name, str) and service.knows(name)][:MOST_BROUGHT]


def choices_of(service: Service, names: list[str]) -> list[tuple[str, str]]:
    """What the model fields of a page offer: what everyone may choose, then what this page brought."""
    known = dict.fromkeys([*service.names, *(name for name in names if service.knows(name))])
    return [(service.title(name), name) for name in known]


def view_of(service: Service, said: str, state: str, models: list[str]) -> dict[str, Any]:
    """The value of the list of models that were brought; those whose weights were let go keep their title alone.

    The rows go as one text: a handler that yields sends a page the difference to its last step, and Gradio's (6.31) of
    a list within a list that becomes shorter by more than one takes the wrong entries away, so that a model would be
    shown with rows of the one before.
    """
    shown = []
    for name in models:
        model = service.registry.held(name)
        rows = [("weights", "let go to make room for others")] if model is None else recognised(model)
        shown.append({"name": name, "title": service.title(name), "rows": json.dumps(rows)})
    return {"said": said, "state": state, "models": shown}
