"""What ends a run: what its page pressed after asking for it, and nothing else."""

import itertools
from collections.abc import Iterator
from typing import Any

import gradio as gr
import pytest

from studio.stopping import PAGES, Stopped, Stops


def page(name: str) -> gr.Request:
    return gr.Request(session_hash=name)


def counted(made: list[int], closed: list[bool]) -> Iterator[int]:
    try:
        for step in itertools.count():
            made.append(step)
            yield step
    finally:
        closed.append(True)


def test_a_run_ends_before_its_next_step_and_its_own_finally_runs() -> None:
    stops, made, closed = Stops(), list[int](), list[bool]()
    steps = stops.until(10.0, page("a"), counted(made, closed))
    assert [next(steps), next(steps)] == [0, 1]
    stops.stop(10.5, page("a"))
    with pytest.raises(Stopped):
        next(steps)
    assert (made, closed) == ([0, 1], [True])


def test_a_run_that_waited_while_stop_was_pressed_makes_no_step() -> None:
    stops, made = Stops(), list[int]()
    stops.stop(10.5, page("a"))
    with pytest.raises(Stopped):
        next(stops.until(10.0, page("a"), counted(made, [])))
    assert made == []


@pytest.mark.parametrize(("name", "at"), [("another page", 99.0), ("a", 9.0)])
def test_neither_another_page_nor_an_earlier_press_ends_a_run(name: str, at: float) -> None:
    stops = Stops()
    stops.stop(at, page(name))
    assert list(stops.until(10.0, page("a"), iter([1, 2, 3]))) == [1, 2, 3]


def test_what_was_asked_for_earlier_ends_and_what_is_asked_for_now_goes_on() -> None:
    stops = Stops()
    stops.stop_earlier(10.0, page("a"))
    assert stops.asked(9.999, page("a"))
    assert not stops.asked(10.0, page("a"))
    stops.stop_earlier("soon", page("b"))
    assert not stops.asked(0.1, page("b"))


def test_a_late_answer_does_not_take_back_a_later_press() -> None:
    stops = Stops()
    stops.stop(20.0, page("a"))
    stops.stop(5.0, page("a"))
    assert stops.asked(10.0, page("a"))


@pytest.mark.parametrize("nonsense", [None, "soon", float("nan"), True, [1]])
def test_times_that_are_none_end_nothing_and_are_never_ended(nonsense: Any) -> None:
    stops = Stops()
    stops.stop(nonsense, page("a"))
    assert not stops.asked(10.0, page("a"))
    stops.stop(20.0, page("a"))
    assert not stops.asked(nonsense, page("a"))


def test_pages_that_are_gone_are_forgotten() -> None:
    stops = Stops()
    for number in range(PAGES + 5):
        stops.stop(1.0, page(str(number)))
    assert not stops.asked(0.5, page("4"))
    assert stops.asked(0.5, page("5"))


def test_what_stops_all_runs_stops_each_and_its_own_stop_no_other() -> None:
    changes = Stops()
    first, second = Stops(changes), Stops(changes)
    changes.stop(20.0, page("a"))
    assert first.asked(20.0, page("a"))
    assert second.asked(20.0, page("a"))
    assert not first.asked(20.1, page("a"))
    assert not first.asked(10.0, page("b"))
    first.stop(30.0, page("a"))
    assert not second.asked(25.0, page("a"))
