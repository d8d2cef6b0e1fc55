"""Signals that ask a run to stop: noted when they come, answered by the loop when its step is done.

Before the first step there is nothing to finish: what is done then is left at once, if the signal is no Ctrl-C, which
ends the program.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

# SIGINT is Ctrl-C, SIGTERM what torchrun and schedulers send, SIGUSR1 what schedulers can send ahead of the end.
# Windows lacks the last.
STOPPING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name))
# Those that ask for an end in good order also where nothing is to be saved.
ORDERLY = tuple(number for number in STOPPING if number != signal.SIGINT)
T = TypeVar("T")


# torchrun passes on a Ctrl-C that its processes have had from the terminal as well: two within these seconds are one.
_ECHO = 1.0
_TOLD = b"\nstopping after this step, with the state saved; Ctrl-C again ends at once and saves nothing\n"


@contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """While open, a stop signal sets a flag instead of killing the process; yields a function that reads the flag.

    A second SIGINT does what one did before this was opened, which is to end the program at once.
    """
    received: list[tuple[int, float]] = []

    def note(number: int, _: FrameType | None) -> None:
        now = time.monotonic()
        again = [at for got, at in received if got == number == signal.SIGINT]
        received.append((number, now))
        if again and now - again[0] > _ECHO:
            signal.signal(number, before[number])
            signal.raise_signal(number)
        elif number == signal.SIGINT and not again:
            os.write(2, _TOLD)  # a print could be interrupted by itself

    before = {number: signal.getsignal(number) for number in STOPPING}
    for number in STOPPING:
        signal.signal(number, note)
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Left(BaseException):
    """A stop signal came; no `except Exception` on its way may keep it."""


@contextmanager
def stoppable() -> Iterator[tuple[Callable[[], bool], Callable[[Callable[[], T]], T | None]]]:
    """While open, SIGTERM and SIGUSR1 set a flag, and end what is run under it.

    Yields a function that reads the flag, and one that runs an act: it returns the act's result, or None where a signal
    came before or meanwhile. The act may be left anywhere, so it must be one that can be begun again.
    """
    received: list[int] = []
    running: list[bool] = []

    def note(number: int, _: FrameType | None) -> None:
        received.append(number)
        if running:
            running.clear()
            raise _Left

    def run(act: Callable[[], T]) -> T | None:
        try:
            try:
                running.append(True)
                return None if received else act()
            finally:
                running.clear()
        except _Left:
            return None

    before = {number: signal.signal(number, note) for number in ORDERLY}
    try:
        yield lambda: bool(received), run
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
