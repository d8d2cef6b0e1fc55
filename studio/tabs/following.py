"""How long runs wait for their turn and end, by Stop or another picture or model; short results are made again."""

import functools
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.components import Component

from studio.failures import told_steps
from studio.looked_at import EACH_TIME, LONG_EVENT, LookedAt
from studio.stopping import Stops
from studio.turns import Place, Turns

# JavaScript that gives an event the page's time in the place of its first input.
TIMED = "(at, ...given) => [performance.now(), ...given]"
# Milliseconds, less than a person needs to press twice.
_MOMENT = 50
# Milliseconds between two looks of a page whose run waits: whether it is stopped, what its place is.
_LOOK = 700
WAITING = "waiting for its turn …"
STOPPED_WAITING = "Stopped before its turn."
_PLACE = "waiting for its turn: "
LET_GO = "It waited without a word of its page and was let go: press again."
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
        again: is never shown; a page whose run waits asks for its place whenever this changes.
        stops: who asked for a stop.
        turns: the line in which this run and all other long ones wait.
    """

    clock: gr.Number
    again: gr.Number
    stops: Stops
    turns: Turns

    def begun_by(
        self,
        events: Sequence[Callable[..., Any]],
        run: Callable[..., Iterator[tuple[Any, ...]]],
        inputs: list[Component],
        outputs: list[Component],
        line: gr.HTML,
        since: gr.Number | None = None,
    ) -> None:
        """Have events (`button.click`, or the `then` of another) begin the run when it has its turn; once for a run.

        A run that has to wait ends its event and keeps no connection, of which a browser has six to one server; the
        page then asks for its place until the turn comes.

        Args:
            events: what is pressed.
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
        begin = self._begin(run, place, len(outputs))
        if since is not None:
            begin = self._if_asked(begin, place, len(outputs))
        for event in events:
            begun = event(begin, [at, *inputs], outputs, js=timed, **LONG_EVENT, **private)
            begun.failure(None, None, line, js="() => ''", **private)
            # Whether it ran or waits is for the server to say: the line may hold the last word of an earlier run.
            begun.then(None, None, self.again, js="() => performance.now()", **EACH_TIME, **private)
        later = f"(...given) => new Promise((look) => setTimeout(() => look(given), {_LOOK}))"
        poll, asking = self._poll(run, place, len(outputs)), {**LONG_EVENT, **EACH_TIME, **private}
        turn = self.again.change(poll, [self.again, line], [*outputs, self.again], js=later, **asking)
        turn.failure(None, None, line, js="() => ''", **private)

    def _of(self, request: gr.Request) -> tuple[str, int]:
        """Whose a place in the line is: a page's, for this run."""
        return str(request.session_hash), self.again._id

    def _begin(
        self, run: Callable[..., Iterator[tuple[Any, ...]]], line: int, outputs: int
    ) -> Callable[..., Iterator[tuple[Any, ...]]]:
        """The handler, which runs if nobody is before it; else it takes a place, says so in output `line` and ends."""

        @told_steps
        @functools.wraps(run)
        def begin(asked: Any, request: gr.Request, *given: Any) -> Iterator[tuple[Any, ...]]:
            place = self.turns.take(self._of(request), asked, given)
            others = self.turns.before(place)
            if others == 0:
                yield from self._through(place, run, request)
            else:
                yield _only(place_in_line(others) if others else gr.skip(), line, outputs)

        return begin

    def _poll(
        self, run: Callable[..., Iterator[tuple[Any, ...]]], line: int, outputs: int
    ) -> Callable[..., Iterator[tuple[Any, ...]]]:
        """The handler that looks for the turn of a run that waits; its last output is `again`, which has it called."""

        def poll(again: Any, said: Any, request: gr.Request) -> Iterator[tuple[Any, ...]]:
            place = self.turns.find(self._of(request))
            if place is None:
                lost = isinstance(said, str) and said.startswith(_PLACE)
                yield _only(LET_GO if lost else gr.skip(), line, outputs + 1)
            elif again is None or again < (place.asked or 0):
                # Looks for a run that was asked for before this one, which is looked for as well.
                yield _only(gr.skip(), line, outputs + 1)
            elif not place.going and self.stops.asked(place.asked, request):
                self.turns.leave(place)
                yield _only(STOPPED_WAITING, line, outputs + 1)
            elif (others := self.turns.before(place)) == 0:
                with closing(self._through(place, run, request)) as steps:
                    for step in steps:
                        yield (*step, gr.skip())
            elif others:
                # Also where nothing is new: an earlier run of the page may have said its last word since.
                yield (*_only(place_in_line(others), line, outputs), again + 1)
            else:
                yield _only(gr.skip(), line, outputs + 1)

        poll.__name__ = f"{getattr(run, '__name__', 'run')}_in_turn"
        return poll

    def _through(
        self, place: Place, run: Callable[..., Iterator[tuple[Any, ...]]], request: gr.Request
    ) -> Generator[tuple[Any, ...], None, None]:
        """The run, which has its turn and gives it up however it ends."""
        try:
            yield from run(place.asked, request, *place.given)
        finally:
            self.turns.leave(place)

    def _if_asked(
        self, begin: Callable[..., Iterator[tuple[Any, ...]]], line: int, outputs: int
    ) -> Callable[..., Iterator[tuple[Any, ...]]]:
        """The handler, which where there is no time at which it was asked for only empties the line.

        A run of the page that waits is given up then: what it was to go on from is not shown any more.
        """

        @functools.wraps(begin)
        def needed(asked: Any, request: gr.Request, *given: Any) -> Iterator[tuple[Any, ...]]:
            if asked is None:
                place = self.turns.find(self._of(request))
                if place is not None and not place.going:
                    self.turns.leave(place)
                yield _only("", line, outputs)
            else:
                yield from begin(asked, request, *given)

        return needed

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


def long_run(turns: Turns) -> LongRun:
    """Make one, in the blocks that are open.

    Args:
        turns: the line of all long runs of the server.
    """
    # One that is not on the page at all would not be heard to change.
    return LongRun(gr.Number(visible=False), gr.Number(visible="hidden"), Stops(), turns)


def say_waiting(line: gr.HTML, *events: Callable[..., Any]) -> None:
    """Have the line that says how long a run waits say at once that it was asked for; others may be before it."""
    private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    gr.on(list(events), None, None, line, js=f"() => {WAITING!r}", **private)


def place_in_line(others: int) -> str:
    """How long a run waits, in words: how many runs are before it, the one that is under way among them."""
    return f"{_PLACE}{others} other {'runs are' if others > 1 else 'run is'} before this one …"


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
