"""Long runs go one after another; who waits knows how many are before, and who is gone holds nobody up."""

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr
import pytest

from models import StudioError
from studio.stopping import Stops
from studio.tabs.following import LET_GO, STOPPED_WAITING, LongRun, place_in_line
from studio.turns import GONE, MOST_WAITING, QUIET, Turns

LINE = 1  # of two outputs, the one that says how long a run waits


class Clock:
    """Seconds that go on when they are told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def page(name: str) -> gr.Request:
    return gr.Request(session_hash=name)


def two_steps(asked: float, request: gr.Request, name: str) -> Iterator[tuple[Any, ...]]:
    yield f"{name} 1", ""
    yield f"{name} 2", ""


def rest(run: Iterator[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The steps that are left; of one that would go on for ever only some."""
    return list(itertools.islice(run, 5))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def running(clock: Clock) -> LongRun:
    with gr.Blocks(analytics_enabled=False):
        return LongRun(gr.Number(), gr.Number(), gr.Number(), Stops(), Turns(clock))


def begin(running: LongRun, name: str, asked: float = 10.0) -> Iterator[tuple[Any, ...]]:
    return running._begin(two_steps, LINE, 2)(asked, page(name), name)


def poll(
    running: LongRun,
    name: str,
    again: float | None = 11.0,
    said: str = "",
    run: Callable[..., Iterator[tuple[Any, ...]]] = two_steps,
) -> Iterator[tuple[Any, ...]]:
    """A page looks for the turn of its run, and has it begun when it is told to."""
    line, more, turn = running._look(again, said, page(name))
    if turn == gr.skip():
        yield gr.skip(), line, more
    else:
        yield from running._in_turn(run, LINE, 2)(turn, page(name))


NOTHING = [(gr.skip(), gr.skip(), gr.skip())]


def waits(others: int, again: float = 11.0) -> list[tuple[Any, ...]]:
    """What a page is told whose run waits: its place, and a number by which it asks again."""
    return [(gr.skip(), place_in_line(others), again + 1)]


def ran(name: str) -> list[tuple[Any, ...]]:
    return [(f"{name} 1", "", gr.skip()), (f"{name} 2", "", gr.skip())]


def test_places_are_counted_in_the_order_of_coming_and_move_when_one_leaves() -> None:
    turns = Turns()
    places = [turns.take(name, 1.0, ()) for name in "abc"]
    assert [turns.before(each) for each in places] == [0, 1, 2]
    turns.leave(places[1])
    assert turns.before(places[2]) == 1
    turns.leave(places[0])
    turns.leave(places[0])
    assert turns.before(places[2]) == 0
    assert turns.before(places[2]) is None, "it has its turn already"
    assert turns.before(places[0]) is None, "it has left"


def test_of_many_that_ask_at_once_one_has_its_turn() -> None:
    turns = Turns()
    first = turns.take("first", 1.0, ())
    turns.before(first)
    places, found = [turns.take(name, 1.0, ()) for name in "abcdefgh"], list[int | None]()
    turns.leave(first)
    together = threading.Barrier(2 * len(places))

    def ask(place: Any) -> None:
        together.wait()
        found.append(turns.before(place))

    threads = [threading.Thread(target=ask, args=(place,)) for place in places * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found.count(0) == 1


def test_who_looks_for_its_turn_does_not_take_it() -> None:
    turns = Turns()
    first, second = (turns.take(name, 1.0, ()) for name in "ab")
    assert [turns.ahead(first), turns.ahead(first), turns.ahead(second)] == [0, 0, 1]
    assert turns.before(first) == 0
    assert turns.ahead(first) is None, "it has its turn"


def test_who_is_not_heard_of_holds_nobody_up_and_keeps_its_place(clock: Clock) -> None:
    turns = Turns(clock)
    first, sleeping, third, fourth = (turns.take(name, 1.0, ()) for name in "abcd")
    assert turns.before(first) == 0
    clock.now += QUIET + 1
    assert turns.before(third) == 1, "the one that runs, which need not ask"
    assert turns.before(fourth) == 2
    turns.leave(first)
    assert turns.before(third) == 0
    assert turns.before(sleeping) == 1, "it is back, and one that came later runs"
    assert turns.before(fourth) == 2
    turns.leave(third)
    assert turns.before(sleeping) == 0


def test_who_is_not_heard_of_for_long_is_given_up_and_who_runs_is_not(clock: Clock) -> None:
    turns = Turns(clock)
    first, second = (turns.take(name, 1.0, ()) for name in "ab")
    assert turns.before(first) == 0
    clock.now += GONE + 1
    third = turns.take("c", 1.0, ())
    assert turns.find("b") is None
    assert turns.before(second) is None
    assert turns.find("a") is first
    assert turns.before(third) == 1


def test_no_more_wait_than_may_and_who_is_not_heard_of_makes_room(clock: Clock) -> None:
    turns = Turns(clock)
    first = turns.take("runs", 1.0, ())
    turns.before(first)
    places = [turns.take(name, 1.0, ()) for name in range(MOST_WAITING)]
    with pytest.raises(StudioError, match=f"{MOST_WAITING} runs are waiting.*press again later"):
        turns.take("one more", 1.0, ())
    assert turns.find("one more") is None
    turns.take(0, 2.0, ())  # a press of one that waits takes no more room
    clock.now += QUIET + 1
    for place in places[2:]:
        turns.before(place)
    turns.take("one more", 1.0, ())
    assert turns.find(1) is None
    assert turns.find(2) is places[2]


def test_a_run_alone_says_nothing_of_waiting(running: LongRun) -> None:
    assert list(begin(running, "a")) == [("a 1", ""), ("a 2", "")]
    assert rest(poll(running, "a")) == NOTHING


def test_a_run_that_waits_ends_its_event_and_begins_when_it_is_asked_for_and_those_before_have_ended(
    running: LongRun,
) -> None:
    first = begin(running, "a")
    assert next(first) == ("a 1", "")
    assert rest(begin(running, "b")) == [(gr.skip(), place_in_line(1))]
    assert rest(begin(running, "c")) == [(gr.skip(), place_in_line(2))]
    assert rest(poll(running, "b")) == waits(1)
    assert rest(poll(running, "c", 12.5)) == waits(2, 12.5)
    assert rest(first) == [("a 2", "")]
    second = poll(running, "b", 12.0)
    assert next(second)[0] == "b 1"
    assert rest(poll(running, "c", 13.5)) == waits(1, 13.5)
    assert rest(poll(running, "b", 12.0)) == NOTHING, "it has its turn already"
    assert rest(second) == ran("b")[1:]
    assert rest(poll(running, "c", 14.5)) == ran("c")


def test_a_page_that_is_gone_after_it_was_told_of_its_turn_holds_nobody_up(running: LongRun, clock: Clock) -> None:
    first = begin(running, "a")
    for each in (first, begin(running, "b"), begin(running, "c")):
        next(each)
    assert rest(first) == [("a 2", "")]
    assert running._look(11.0, "", page("b"))[2] == 11.0
    clock.now += QUIET + 1
    assert rest(poll(running, "c")) == ran("c")
    assert rest(running._in_turn(two_steps, LINE, 2)(11.0, page("b"))) == ran("b"), "it was asleep and is back"


def test_of_two_that_were_told_of_their_turn_the_slower_one_goes_on_waiting(running: LongRun, clock: Clock) -> None:
    first = begin(running, "a")
    for each in (first, begin(running, "b"), begin(running, "c")):
        next(each)
    rest(first)
    assert running._look(11.0, "", page("b"))[2] == 11.0
    clock.now += QUIET + 1
    faster = poll(running, "c")
    next(faster)
    assert rest(running._in_turn(two_steps, LINE, 2)(11.0, page("b"))) == waits(1)
    assert rest(faster) == ran("c")[1:]
    assert rest(poll(running, "b", 12.0)) == ran("b")


def test_a_run_that_is_stopped_while_it_waits_makes_no_step_and_lets_the_next_one_in(running: LongRun) -> None:
    first = begin(running, "a")
    for each in (first, begin(running, "b"), begin(running, "c")):
        next(each)
    running.stops.stop(20.0, page("b"))
    assert [step[LINE] for step in rest(poll(running, "b"))] == [STOPPED_WAITING]
    assert rest(poll(running, "b")) == NOTHING
    assert rest(first) == [("a 2", "")]
    assert rest(poll(running, "c")) == ran("c")


def test_a_later_press_takes_the_place_of_an_earlier_one_whose_polling_ends(running: LongRun) -> None:
    first = begin(running, "a")
    next(first)
    rest(begin(running, "b", 10.0))
    rest(begin(running, "c"))
    assert rest(begin(running, "b", 500.0)) == [(gr.skip(), place_in_line(2))], "at the end of the line"
    assert rest(poll(running, "b", 11.0)) == NOTHING, "that of the earlier press"
    assert rest(poll(running, "b", 501.0)) == waits(2, 501.0)
    assert rest(first) == [("a 2", "")]
    assert rest(poll(running, "c")) == ran("c")
    assert rest(poll(running, "b", 502.0)) == ran("b")
    assert rest(poll(running, "b", 503.0)) == NOTHING


def test_a_press_while_the_pages_own_run_is_under_way_waits_for_it(running: LongRun) -> None:
    first = begin(running, "z")
    next(first)
    rest(begin(running, "a", 10.0))
    first.close()  # type: ignore[attr-defined]
    earlier = poll(running, "a")
    assert next(earlier)[0] == "a 1"
    assert rest(begin(running, "a", 500.0)) == [(gr.skip(), place_in_line(1))]
    assert rest(poll(running, "a", 501.0)) == waits(1, 501.0)
    assert rest(earlier) == ran("a")[1:]
    assert rest(poll(running, "a", 502.0)) == ran("a")


def test_a_page_that_was_let_go_while_it_slept_is_told_so(running: LongRun, clock: Clock) -> None:
    first = begin(running, "a")
    next(first)
    rest(begin(running, "b"))
    clock.now += GONE + 1
    rest(begin(running, "c"))
    assert [step[LINE] for step in rest(poll(running, "b", said=place_in_line(1)))] == [LET_GO]
    assert rest(poll(running, "b", said="18 passes in 0.2 s")) == NOTHING


def test_two_runs_of_one_page_wait_beside_each_other(running: LongRun) -> None:
    with gr.Blocks(analytics_enabled=False):
        other = LongRun(gr.Number(), gr.Number(), gr.Number(), Stops(), running.turns)
    first = begin(running, "a")
    next(first)
    rest(begin(running, "b"))
    assert rest(begin(other, "b")) == [(gr.skip(), place_in_line(2))]
    assert rest(first) == [("a 2", "")]
    assert rest(poll(running, "b")) == ran("b")
    assert rest(poll(other, "b")) == ran("b")


@pytest.mark.parametrize("again", [None, float("nan")], ids=str)
def test_numbers_that_are_none_begin_nothing_twice(running: LongRun, again: float | None) -> None:
    first = begin(running, "a")
    next(first)
    rest(begin(running, "b"))
    rest(poll(running, "b", again))
    assert rest(first) == [("a 2", "")]
    assert rest(poll(running, "b")) == ran("b")


@pytest.mark.parametrize("polled", [False, True], ids=["begun at once", "begun after waiting"])
@pytest.mark.parametrize("gone", [False, True], ids=["one that failed", "one whose page is gone"])
def test_a_run_whose_page_is_gone_or_that_failed_leaves_the_line(running: LongRun, gone: bool, polled: bool) -> None:
    def failing(asked: float, request: gr.Request, name: str) -> Iterator[tuple[Any, ...]]:
        yield name, ""
        raise RuntimeError("broken")

    first = running._begin(failing, LINE, 2)(10.0, page("a"), "a")
    if polled:
        before = begin(running, "z")
        next(before)
        rest(first)
        rest(before)
        first = poll(running, "a", run=failing)
    next(first)
    rest(begin(running, "b"))
    if gone:
        first.close()  # type: ignore[attr-defined]
    else:
        with pytest.raises(RuntimeError):
            next(first)
    assert rest(poll(running, "b")) == ran("b")


def test_a_run_behind_another_event_waits_only_where_there_is_something_to_run(running: LongRun) -> None:
    first, behind = begin(running, "a"), running._if_asked(running._begin(two_steps, LINE, 2), LINE, 2)
    next(first)
    assert rest(behind(None, page("b"), "b")) == [(gr.skip(), "")]
    assert rest(behind(10.0, page("b"), "b")) == [(gr.skip(), place_in_line(1))]
    assert rest(first) == [("a 2", "")]
    assert rest(poll(running, "b")) == ran("b")


def test_a_run_behind_another_event_is_given_up_where_that_shows_nothing_to_run(running: LongRun) -> None:
    first, behind = begin(running, "a"), running._if_asked(running._begin(two_steps, LINE, 2), LINE, 2)
    next(first)
    rest(behind(10.0, page("b"), "b"))
    assert rest(behind(None, page("b"), "b")) == [(gr.skip(), "")]
    running.stops.stop(20.0, page("b"))
    assert rest(poll(running, "b")) == NOTHING, "its line stays empty"


def test_too_many_runs_are_told_in_a_sentence(running: LongRun) -> None:
    first = begin(running, "a")
    next(first)
    for number in range(MOST_WAITING):
        rest(begin(running, str(number)))
    with pytest.raises(gr.Error, match="press again later"):
        next(begin(running, "one more"))


def test_a_place_is_said_in_words_that_fit_the_number() -> None:
    assert place_in_line(1) == "waiting for its turn: 1 other run is before this one …"
    assert place_in_line(2) == "waiting for its turn: 2 other runs are before this one …"
