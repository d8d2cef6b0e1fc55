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


def asked_with(at: LookedAt, *events: Callable[..., Any]) -> gr.Textbox:
    """What was chosen when one of these events came last, as `LookedAt.changed` holds it; never shown."""
    asked = gr.Textbox(visible=False)
    private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    gr.on(list(events), None, at.changed, asked, js="(chosen) => chosen", **private)
    return asked


def click_if_new(elem_id: str) -> str:
    """The same, and only where what is chosen is not what was asked for last.

    It is given the picture, what was asked for last and what is chosen, as `LookedAt.changed` holds it.
    """
    return f"(picture, asked, chosen) => asked === chosen ? undefined : ({click_if_seen(elem_id)})(picture)"


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
        turn: is never shown; a page whose run waits has it begun whenever this changes.
        stops: who asked for a stop.
        turns: the line in which this run and all other long ones wait.
    """

    clock: gr.Number
    again: gr.Number
    turn: gr.Number
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
        page then asks for its place until the turn comes. It asks past the queue: for each event in the queue Gradio's
        client opens and closes a stream, and what is pressed while one closes can be lost.

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
        quick: dict[str, Any] = {"queue": False, "api_name": f"{_name(run)}_looks", **EACH_TIME, **private}
        looked = self.again.change(self._look, [self.again, line], [line, self.again, self.turn], js=later, **quick)
        begin_in_turn, queued = self._in_turn(run, place, len(outputs)), {**LONG_EVENT, **EACH_TIME, **private}
        turn = self.turn.change(begin_in_turn, self.turn, [*outputs, self.again], **queued)
        for failed in (looked.failure, turn.failure):
            failed(None, None, line, js="() => ''", **private)

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

    def _look(self, again: Any, said: Any, request: gr.Request) -> tuple[Any, Any, Any]:
        """The handler that looks for the turn of a run that waits.

        Gives what the line says, `again`, which has it called again, and `turn`, which has the run begun.
        """
        place = self.turns.find(self._of(request))
        if place is None:
            lost = isinstance(said, str) and said.startswith(_PLACE)
            return LET_GO if lost else gr.skip(), gr.skip(), gr.skip()
        if again is None or again < (place.asked or 0):
            # Looks for a run that was asked for before this one, which is looked for as well.
            return gr.skip(), gr.skip(), gr.skip()
        if not place.going and self.stops.asked(place.asked, request):
            self.turns.leave(place)
            return STOPPED_WAITING, gr.skip(), gr.skip()
        others = self.turns.ahead(place)
        if others:
            # Also where nothing is new: an earlier run of the page may have said its last word since.
            return place_in_line(others), again + 1, gr.skip()
        return gr.skip(), gr.skip(), again if others == 0 else gr.skip()

    def _in_turn(
        self, run: Callable[..., Iterator[tuple[Any, ...]]], line: int, outputs: int
    ) -> Callable[..., Iterator[tuple[Any, ...]]]:
        """The handler that begins a run whose turn has come; its last output is `again`, which has it looked for."""

        def in_turn(turn: Any, request: gr.Request) -> Iterator[tuple[Any, ...]]:
            place = self.turns.find(self._of(request))
            others = None if place is None else self.turns.before(place)
            if place is not None and others == 0:
                with closing(self._through(place, run, request)) as steps:
                    for step in steps:
                        yield (*step, gr.skip())
            elif others and turn is not None:
                # Another run of which nothing had been heard was faster.
                yield (*_only(place_in_line(others), line, outputs), turn + 1)
            else:
                yield _only(gr.skip(), line, outputs + 1)

        in_turn.__name__ = f"{_name(run)}_in_turn"
        return in_turn

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


def long_run(at: LookedAt, turns: Turns) -> LongRun:
    """Make one, in the blocks that are open; a change of picture or models ends it.

    A run that went on would answer for a picture that is no longer chosen.

    Args:
        at: the picture and the models.
        turns: the line of all long runs of the server.
    """
    # One that is not on the page at all would not be heard to change.
    clock, again, turn = gr.Number(visible=False), gr.Number(visible="hidden"), gr.Number(visible="hidden")
    return LongRun(clock, again, turn, Stops(at.stops), turns)


def say_waiting(line: gr.HTML, *events: Callable[..., Any]) -> None:
    """Have the line that says how long a run waits say at once that it was asked for; others may be before it."""
    private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    gr.on(list(events), None, None, line, js=f"() => {WAITING!r}", **private)


def place_in_line(others: int) -> str:
    """How long a run waits, in words: how many runs are before it, the one that is under way among them."""
    return f"{_PLACE}{others} other {'runs are' if others > 1 else 'run is'} before this one …"


def _name(run: Callable[..., Any]) -> str:
    return getattr(run, "__name__", "run")


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


def say_outdated(at: LookedAt, line: gr.HTML, result: Component, runs: Sequence[gr.Button]) -> None:
    """Have the results of a long run called old by a change of picture or models, which ends the run itself.

    Args:
        at: the picture and the models.
        line: made by `outdated_line`.
        result: what the run writes first, be it how far it is; while that is empty there is nothing that could be old.
        runs: the buttons that begin a run, which makes the line empty.
    """
    private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    said = f"(result) => (result ? {OUTDATED!r} : '')"
    at.changed.change(None, result, line, js=said, **private)
    # Without a picture there is no run, and what is there stays old.
    begun = "(picture, said) => (picture === null ? said : '')"
    gr.on([run.click for run in runs], None, [at.picture, line], line, js=begun, **private)
