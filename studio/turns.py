"""Long runs go one after another, and each that waits knows how many are before it.

Gradio's own queue would let them wait as well, but what it tells of a place in the line reaches only its own display.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# How many runs may stand in the line. Each holds one of the server's 40 threads while it waits, and short requests need
# the others; further runs wait in Gradio's queue, where nothing is known of their place.
MOST_IN_LINE = 12


class Turns:
    """A line of runs, in the order in which they came; the first one has its turn."""

    def __init__(self) -> None:
        self._line: list[object] = []
        self._moved = threading.Condition()

    @contextmanager
    def in_line(self) -> Iterator[Callable[[float], int]]:
        """A place at the end of the line. It is given up when this closes, however the run ends.

        Yields a function that says how many runs are before this one; with 0 it is this one's turn, and it stays so.
        The function waits for that, for as many seconds as it is given and no longer.
        """
        place = object()
        with self._moved:
            self._line.append(place)

        def before(seconds: float) -> int:
            with self._moved:
                self._moved.wait_for(lambda: self._line[0] is place, seconds)
                return self._line.index(place)

        try:
            yield before
        finally:
            with self._moved:
                self._line.remove(place)
                self._moved.notify_all()
