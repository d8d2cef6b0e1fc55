"""Long runs go one after another; who waits knows how many are before, and who is gone holds nobody up."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import gradio as gr
import pytest

from studio.stopping import Stops
from studio.tabs.following import STOPPED_WAITING, LongRun, _if_asked, place_in_line
from studio.turns import Turns

LINE = 1  # of two outputs, the one that says how long a run waits


def page(name: str) -> gr.Request:
    return gr.Request(session_hash=name)


def two_steps(asked: float, request: gr.Request, name: str) -> Iterator[tuple[Any, ...]]:
    yield f"{name} 1", ""
    yield f"{name} 2", ""


def rest(run: Iterator[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The steps that are left; of one that would wait for ever only some."""
    return list(itertools.islice(run, 5))


@pytest.fixture
def running() -> LongRun:
    with gr.Blocks(analytics_enabled=False):
        return LongRun(gr.Number(visible=False), Stops(), Turns())


def waiting(running: LongRun, name: str) -> Iterator[tuple[Any, ...]]:
    return running._in_turn(two_steps, LINE, 2)(10.0, page(name), name)


def test_places_are_counted_in_the_order_of_coming_and_move_when_one_leaves() -> None:
    turns, places = Turns(), [ExitStack() for _ in range(3)]
    before = [place.enter_context(turns.in_line()) for place in places]
    assert [each(0) for each in before] == [0, 1, 2]
    places[1].close()
    assert [before[0](0), before[2](0)] == [0, 1]
    places[0].close()
    assert before[2](0) == 0
    places[2].close()
    with turns.in_line() as later:
        assert later(0) == 0


def test_who_waits_is_woken_when_the_turn_comes_and_not_when_the_time_is_over() -> None:
    turns, found = Turns(), list[int]()
    with ExitStack() as first:
        assert first.enter_context(turns.in_line())(0) == 0
        with turns.in_line() as before:
            assert before(0.01) == 1
            thread = threading.Thread(target=lambda: found.append(before(60.0)))
            thread.start()
            first.close()
            thread.join(timeout=30)
    assert found == [0]


def test_a_run_alone_says_nothing_of_waiting(running: LongRun) -> None:
    assert list(waiting(running, "a")) == [("a 1", ""), ("a 2", "")]


def test_a_run_says_its_place_once_and_begins_when_those_before_it_have_ended(running: LongRun) -> None:
    first, second, third = (waiting(running, name) for name in "abc")
    assert next(first) == ("a 1", "")
    assert next(second)[LINE] == place_in_line(1)
    assert next(third)[LINE] == place_in_line(2)
    assert next(second) == (gr.skip(), gr.skip()), "nothing is new"
    assert rest(first) == [("a 2", "")]
    assert next(third)[LINE] == place_in_line(1)
    assert rest(second) == [("b 1", ""), ("b 2", "")]
    assert rest(third) == [("c 1", ""), ("c 2", "")]


def test_a_run_that_is_stopped_while_it_waits_makes_no_step_and_lets_the_next_one_in(running: LongRun) -> None:
    first, second, third = (waiting(running, name) for name in "abc")
    for each in (first, second, third):
        next(each)
    running.stops.stop(20.0, page("b"))
    assert [step[LINE] for step in rest(second)] == [STOPPED_WAITING]
    assert rest(first) == [("a 2", "")]
    assert rest(third) == [("c 1", ""), ("c 2", "")]


@pytest.mark.parametrize("gone", ["the one that runs", "one that waits", "one that failed"])
def test_a_run_whose_page_is_gone_or_that_failed_leaves_the_line(running: LongRun, gone: str) -> None:
    def failing(asked: float, request: gr.Request, name: str) -> Iterator[tuple[Any, ...]]:
        yield name, ""
        raise RuntimeError("broken")

    broken = running._in_turn(failing, LINE, 2)(10.0, page("a"), "a")
    first = broken if gone == "one that failed" else waiting(running, "a")
    second, third = waiting(running, "b"), waiting(running, "c")
    for each in (first, second, third):
        next(each)
    if gone == "one that failed":
        with pytest.raises(RuntimeError):
            next(first)
        assert next(second) == ("b 1", "")
    elif gone == "the one that runs":
        first.close()  # type: ignore[attr-defined]
        assert next(second) == ("b 1", "")
    else:
        second.close()  # type: ignore[attr-defined]
        assert next(first) == ("a 2", "")
        assert rest(first) == []
        assert next(third) == ("c 1", "")


def test_a_run_behind_another_event_waits_only_where_there_is_something_to_run(running: LongRun) -> None:
    first, none = waiting(running, "a"), _if_asked(running._in_turn(two_steps, LINE, 2), LINE, 2)
    next(first)
    assert rest(none(None, page("b"), "b")) == [(gr.skip(), "")]
    second = none(10.0, page("b"), "b")
    assert next(second)[LINE] == place_in_line(1)
    assert rest(first) == [("a 2", "")]
    assert rest(second) == [("b 1", ""), ("b 2", "")]


def test_a_place_is_said_in_words_that_fit_the_number() -> None:
    assert place_in_line(1) == "waiting for its turn: 1 other run is before this one …"
    assert place_in_line(2) == "waiting for its turn: 2 other runs are before this one …"
