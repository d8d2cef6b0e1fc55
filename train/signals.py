"""Signals that ask a run to stop: noted when they come, answered by the loop when its step is done."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# SIGINT is Ctrl-C, SIGTERM what torchrun and schedulers send, SIGUSR1 what schedulers can send ahead of the end.
# Windows lacks the last.
STOPPING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name))


@contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """While open, a stop signal sets a flag instead of killing the process; yields a function that reads the flag."""
    received: list[int] = []
    before = {number: signal.signal(number, lambda got, _: received.append(got)) for number in STOPPING}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
