"""How long runs wait for their turn and end, by Stop or another picture or model; short results are made again."""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.components import Component

from studio.looked_at import EACH_TIME, LONG_EVENT, LookedAt
from studio.stopping import Stops
from studio.turns import Turns

# JavaScript that gives an event the page's time in the place of its first input.
TIMED = "(at, ...given) => [performance.now(), ...given]"
# Milliseconds, less than a person needs to press twice.
_MOMENT = 50
# Seconds between two looks of a run that waits: whether it was stopped, whether its page is gone, what its place is.
_LOOK = 0.5
WAITING = "waiting for its turn …"
STOPPED_WAITING = "Stopped before its turn."
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
        turns: the line in which this run and all other long ones wait.
    """

    clock: gr.Number
    stops: Stops
    turns: Turns

    def begun_by(
        self,
        event: Callable[..., Any],
        run: Callable[..., Iterator[tuple[Any, ...]]],
        inputs: list[Component],
        outputs: list[Component],
        line: gr.HTML,
        since: gr.Number | None = None,
    ) -> None:
        """Have an event (`button.click`, or the `then` of another) begin the run when it has its turn.

        Args:
            event: what is pressed.
            run: the handler; each of its steps has a value for each output.
            inputs: what it is given after time and request.
            outputs: what it writes.
            line: the output that says how long the run waits; a run that fails leaves it empty.
            since: for a run that goes on from what another event showed: holds the page's time when that was asked
                for, which counts as the run's, so that what is asked for later ends it; None where there is nothing to
                run. Without it the time is that of the event.
        """
        private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
        at, timed = (self.clock, TIMED) if since is None else (since, None)
        place = outputs.index(line)
        waiting = self._in_turn(run, place, len(outputs))
        if since is not None:
            waiting = _if_asked(waiting, place, len(outputs))
        begun = event(waiting, [at, *inputs], outputs, js=timed, **LONG_EVENT, **private)
        begun.failure(None, None, line, js="() => ''", **private)

    def _in_turn(
        self, run: Callable[..., Iterator[tuple[Any, ...]]], line: int, outputs: int
    ) -> Callable[..., Iterator[tuple[Any, ...]]]:
        """The handler, which waits for its turn and says so in output number `line` of so many."""

        @functools.wraps(run)
        def waiting(asked: Any, request: gr.Request, *given: Any) -> Iterator[tuple[Any, ...]]:
            with self.turns.in_line() as before:
                told, seconds = 0, 0.0
                while others := before(seconds):
                    if self.stops.asked(asked, request):
                        yield _only(STOPPED_WAITING, line, outputs)
                        return
                    # Also where nothing is new: Gradio sees between two steps whether the page is still there.
                    yield _only(gr.skip() if others == told else place_in_line(others), line, outputs)
                    told, seconds = others, _LOOK
                yield from run(asked, request, *given)

        return waiting

    def ended_by(self, *events: Callable[..., Any], before: int = 0) -> None:
        """Have events end what was asked for up to `before` milliseconds before them.

        Not through the queue, where they would wait.
        """
        private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "queue": False, **EACH_TIME}
        gr.on(list(events), self.stops.stop, self.clock, js=f"() => performance.now() - {before}", **private)

    def begun_anew_by(self, *events: Callable[..., Any]) -> None:
        """Have the events that begin the run end the one that is under way, so that what is set now is run at once.

        The moment between keeps a press from ending its own run, whichever of the two the server hears of first.
        """
        self.ended_by(*events, before=_MOMENT)


def _if_asked(
    run: Callable[..., Iterator[tuple[Any, ...]]], line: int, outputs: int
) -> Callable[..., Iterator[tuple[Any, ...]]]:
    """The handler, which does nothing where there is no time at which it was asked for, and then empties the line."""

    @functools.wraps(run)
    def needed(asked: Any, request: gr.Request, *given: Any) -> Iterator[tuple[Any, ...]]:
        if asked is None:
            yield _only("", line, outputs)
        else:
            yield from run(asked, request, *given)

    return needed


def long_run(turns: Turns) -> LongRun:
    """Make one, in the blocks that are open.

    Args:
        turns: the line of all long runs of the server.
    """
    return LongRun(gr.Number(visible=False), Stops(), turns)


def say_waiting(line: gr.HTML, *events: Callable[..., Any]) -> None:
    """Have the line that says how long a run waits say at once that it was asked for; others may be before it."""
    private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    gr.on(list(events), None, None, line, js=f"() => {WAITING!r}", **private)


def place_in_line(others: int) -> str:
    """How long a run waits, in words: how many runs are before it, the one that is under way among them."""
    return f"waiting for its turn: {others} other {'runs are' if others > 1 else 'run is'} before this one …"


def _only(value: Any, at: int, outputs: int) -> tuple[Any, ...]:
    """A step that changes one of so many outputs."""
    return tuple(value if each == at else gr.skip() for each in range(outputs))


def passes_ended(made: int, seconds: float, remembered: int = 0) -> str:
    """What a run took, in words; of all passes made so many come from memory, and took their time before."""
    beside = f", {remembered} more from memory" if remembered else ""
    return f"{made - remembered} passes in {seconds:.1f} s{beside}"


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
    # Without a picture there is no run, and what is there stays old.
    begun = "(picture, said) => (picture === null ? said : '')"
    gr.on([run.click for run in runs], None, [at.picture, line], line, js=begun, **private)
