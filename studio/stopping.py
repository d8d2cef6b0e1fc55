"""A run of many passes is asked to stop, and stops itself between two of them.

Gradio's own way of cancelling an event breaks off the stream of its answers, which its client may take for an error
or not notice at all; and what a run that was cut in the middle has to say is never heard. A run that stops itself
ends like any other: its last words reach the page.
"""

import math
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, TypeVar

import gradio as gr

T = TypeVar("T")
# How many pages are remembered; a page that pressed Stop before so many others has no run left that could heed it.
PAGES = 10_000


class Stopped(Exception):
    """A run was asked to stop and has done so."""


class Stops:
    """Who asked the runs of one button to stop, and when.

    Times are milliseconds of the page's own clock, which begins with the page: a run is stopped by what was pressed
    after it was asked for, also when it still waits for another run to end, and never by what was pressed before.
    """

    def __init__(self, *others: "Stops") -> None:
        """`others` are heeded as well: whom they stop is stopped here."""
        self._others = others
        self._last: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()

    def stop(self, at: Any, request: gr.Request) -> None:
        """End the runs that this page asked for until `at`; a handler, so what it is given may be anything."""
        page = _page(request)
        with self._lock:
            self._last[page] = max(_milliseconds(at, 0.0), self._last.pop(page, 0.0))
            while len(self._last) > PAGES:
                self._last.popitem(last=False)

    def stop_earlier(self, at: Any, request: gr.Request) -> None:
        """End the runs that this page asked for before `at`, and none that it asked for at that very time."""
        self.stop(math.nextafter(_milliseconds(at, 0.0), -math.inf), request)

    def asked(self, at: Any, request: gr.Request) -> bool:
        """Whether the run that this page asked for at `at` is to stop."""
        with self._lock:
            own = _milliseconds(at, math.inf) <= self._last.get(_page(request), -math.inf)
        return own or any(other.asked(at, request) for other in self._others)

    def until(self, at: Any, request: gr.Request, steps: Iterator[T]) -> Iterator[T]:
        """The steps of a run that was asked for at `at`, one by one.

        Raises:
            Stopped: the page asked for it before the next step; the steps are closed.
        """
        while not self.asked(at, request):
            try:
                step = next(steps)
            except StopIteration:
                return
            yield step
        close = getattr(steps, "close", None)
        if close is not None:
            close()
        raise Stopped


def _page(request: gr.Request) -> str:
    return str(request.session_hash)


def _milliseconds(at: Any, otherwise: float) -> float:
    number = isinstance(at, int | float) and not isinstance(at, bool) and math.isfinite(at)
    return float(at) if number else otherwise
