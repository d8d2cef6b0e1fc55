"""Long runs go one after another, and each that waits knows how many are before it.

Gradio's own queue would let them wait as well, but what it tells of a place in the line reaches only its own display,
and who waits in it keeps a connection, of which a browser has six to one server. Here a run that waits is a place in a
line and nothing else: its page asks again and again, and each time it is told how many are before it.
"""

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from models import StudioError

# How many events of long runs may be under way at once: one that runs, and others that take a place or ask for theirs.
MOST_IN_LINE = 12
# How many runs may wait. Each holds what it was given, a picture of up to 75 MB among it.
MOST_WAITING = 60
# Seconds after which a place that nobody asked for holds nobody up: its page is gone, or its browser lets it sleep.
QUIET = 4.0
# Seconds after which such a place is given up.
GONE = 600.0


@dataclass(eq=False)
class Place:
    """A run in the line.

    Attributes:
        of: whose it is; of one owner at most one place waits.
        asked: the page's time at which the run was asked for.
        given: what the run is to be given.
        heard: when it was asked for last, in seconds of the line's clock.
        going: whether it has its turn.
    """

    of: Hashable
    asked: Any
    given: tuple[Any, ...]
    heard: float
    going: bool = False


class Turns:
    """A line of runs, in the order in which they came; one at a time has its turn."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Nobody is in the line.

        Args:
            clock: tells seconds.
        """
        self._line: list[Place] = []
        self._clock = clock
        self._lock = threading.Lock()

    def take(self, of: Hashable, asked: Any, given: tuple[Any, ...]) -> Place:
        """A place at the end of the line; one of the same owner that waits is given up.

        Raises:
            StudioError: as many runs wait as may, and the pages of all of them are there.
        """
        with self._lock:
            now = self._clock()
            self._line = [each for each in self._line if each.going or (each.of != of and now - each.heard < GONE)]
            waiting = [each for each in self._line if not each.going]
            if len(waiting) >= MOST_WAITING:
                quietest = min(waiting, key=lambda each: each.heard)
                if now - quietest.heard < QUIET:
                    raise StudioError(
                        f"{len(waiting)} runs are waiting, and no more than {MOST_WAITING} may: press again later."
                    )
                self._line.remove(quietest)
            place = Place(of, asked, given, now)
            self._line.append(place)
            return place

    def find(self, of: Hashable) -> Place | None:
        """The place of an owner that came last, be it that it waits or that it has its turn."""
        with self._lock:
            return next((each for each in reversed(self._line) if each.of == of), None)

    def ahead(self, place: Place) -> int | None:
        """How many runs are before one that waits, whose page asks for it. None for one that does not wait."""
        with self._lock:
            return self._ahead(place)

    def before(self, place: Place) -> int | None:
        """As `ahead`, but with 0 it is its turn, and it stays so until it leaves."""
        with self._lock:
            others = self._ahead(place)
            place.going = place.going or others == 0
            return others

    def _ahead(self, place: Place) -> int | None:
        if place.going or place not in self._line:
            return None
        now = place.heard = self._clock()
        ahead = self._line[: self._line.index(place)]
        # One that has its turn may stand behind places of which nothing is heard.
        going = sum(each.going for each in self._line)
        return going + sum(not each.going and now - each.heard < QUIET for each in ahead)

    def leave(self, place: Place) -> None:
        """Give a place up, if it was not."""
        with self._lock:
            if place in self._line:
                self._line.remove(place)
