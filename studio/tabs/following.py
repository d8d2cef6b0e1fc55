"""How long runs end, by their Stop or because the picture or a model changed; short results are made again."""

from collections.abc import Sequence
from typing import Any

import gradio as gr
from gradio.components import Component

from studio.looked_at import LookedAt

OUTDATED = "From before the last change of picture or models: run it again for what is chosen now."
_TEMPLATE = '<p class="studio-outdated" role="status" aria-live="polite">{{value}}</p>'


def click_if_seen(elem_id: str) -> str:
    """JavaScript that presses a button, but only while its tab is the one that is seen; others draw when opened.

    Called with a picture that was taken away (null) it leaves everything as it is: the maps show their own picture.
    """
    return (
        f"(...given) => {{ const button = document.getElementById('{elem_id}'); "
        "if (given[0] !== null && button?.offsetParent) button.click(); }"
    )


def outdated_line(elem_id: str) -> gr.HTML:
    """The line over results of a long run; it is empty while they belong to what is chosen."""
    return gr.HTML(
        "", html_template=_TEMPLATE, elem_id=elem_id, elem_classes="studio-outdated-line", apply_default_css=False
    )


def say_outdated(at: LookedAt, line: gr.HTML, result: Component, runs: Sequence[gr.Button], running: list[Any]) -> None:
    """Have a long run ended, and its results called old, by a change of picture or models.

    A run that went on would answer for a picture that is no longer chosen.

    Args:
        at: the picture and the models.
        line: made by `outdated_line`.
        result: what the run writes first, be it how far it is; while that is empty there is nothing that could be old.
        runs: the buttons that begin a run, which makes the line empty.
        running: the events of a run.
    """
    private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    said = f"(result) => (result ? {OUTDATED!r} : '')"
    gr.on([at.picture.change, at.left.change, at.right.change], None, result, line, js=said, cancels=running, **private)
    gr.on([run.click for run in runs], None, None, line, js="() => ''", **private)


def stopped_by(stop: gr.Button, running: list[Any], said: Component, value: str) -> None:
    """Have a button end a run, and the line that said how far it was hold `value` from then on.

    Not through the queue, where an event that comes while Gradio closes the stream of a cancelled run can be lost. The
    run ends in any case; Gradio's client may still set "Error" beside the line, or its last progress in it.
    """
    stop.click(lambda: value, None, said, cancels=running, queue=False, api_visibility="private")
