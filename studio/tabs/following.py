"""How long runs end, by their Stop or because the picture or a model changed; short results are made again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.components import Component

from studio.looked_at import LONG_EVENT, LookedAt
from studio.stopping import Stops

# Milliseconds, less than a person needs to press twice.
_MOMENT = 50
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


@dataclass(frozen=True)
class LongRun:
    """A run of many passes that a page begins and can stop; see `studio.stopping`.

    Its handler takes the page's time and the request first, and goes through its steps by `stops.until`. Of all that
    belongs to one press Gradio begins the next when the one before has ended, in the order in which they are wired: the
    run comes last.

    Attributes:
        clock: is never shown; an event is given the page's time in its stead.
        stops: who asked for a stop.
    """

    clock: gr.Number
    stops: Stops

    def begun_by(self, event: Callable[..., Any], run: Callable[..., Any], inputs: list[Component], **more: Any) -> Any:
        """Have an event (`button.click`, or the `then` of another) begin the run; `more` is for Gradio."""
        settings = {**LONG_EVENT, "api_visibility": "private", "show_progress": "hidden", **more}
        return event(run, [self.clock, *inputs], js="(at, ...given) => [performance.now(), ...given]", **settings)

    def ended_by(self, *events: Callable[..., Any], before: int = 0) -> None:
        """Have events end what was asked for up to `before` milliseconds before them.

        Not through the queue, where they would wait.
        """
        private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "queue": False}
        gr.on(list(events), self.stops.stop, self.clock, js=f"() => performance.now() - {before}", **private)

    def begun_anew_by(self, *events: Callable[..., Any]) -> None:
        """Have the events that begin the run end the one that is under way, so that what is set now is run at once.

        The moment between keeps a press from ending its own run, whichever of the two the server hears of first.
        """
        self.ended_by(*events, before=_MOMENT)


def long_run() -> LongRun:
    """Make one, in the blocks that are open."""
    return LongRun(gr.Number(visible=False), Stops())


def say_waiting(line: gr.HTML, *events: Callable[..., Any]) -> None:
    """Have the line that says how far a run is say at once that it was asked for: others may be at work before it."""
    private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    gr.on(list(events), None, None, line, js="() => 'waiting for its turn …'", **private)


def passes_made(made: int, total: int) -> str:
    """How far a run is, in words; what was estimated too low is full and not more."""
    return f"{made} of {total} passes, {min(made / total, 1):.0%}"


def say_outdated(at: LookedAt, line: gr.HTML, result: Component, runs: Sequence[gr.Button], running: LongRun) -> None:
    """Have a long run ended, and its results called old, by a change of picture or models.

    A run that went on would answer for a picture that is no longer chosen.

    Args:
        at: the picture and the models.
        line: made by `outdated_line`.
        result: what the run writes first, be it how far it is; while that is empty there is nothing that could be old.
        runs: the buttons that begin a run, which makes the line empty.
        running: the run.
    """
    private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    said = f"(result) => (result ? {OUTDATED!r} : '')"
    changes: list[Any] = [at.picture.change, at.left.change, at.right.change]
    gr.on(changes, None, result, line, js=said, **private)
    running.ended_by(*changes)
    gr.on([run.click for run in runs], None, None, line, js="() => ''", **private)
