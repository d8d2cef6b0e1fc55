"""What ranks do one after another or each for itself: the error of one is everybody's, so that none waits for it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from models.errors import StudioError
from train.distributed import World, any_rank, from_all, from_main

T = TypeVar("T")
# Seconds between two signs of life of a rank for which others wait; far below any timeout of a process group.
EVERY = 60.0
_WAIT = "wait"


def main_alone(world: World, act: Callable[[], object], every: float = EVERY) -> None:
    """Let rank 0 act, and the others wait until it has, however long that takes: a collective.

    `act` calls no collective. Rank 0 gives a sign of life every so many seconds meanwhile.

    Raises:
        StudioError: rank 0's, on all ranks; any other exception of rank 0 is one of these on the others.
    """
    if not world.is_main:
        told = _WAIT
        while told == _WAIT:
            told = from_main(world, None)
        if told:
            raise StudioError(told)
        return
    with _signs_of_life(world, every):
        failed = _failure(act)
    from_main(world, _told(failed, "process 0"))
    if failed:
        raise failed


@contextmanager
def _signs_of_life(world: World, every: float) -> Iterator[None]:
    """While open, the ranks that wait for rank 0 hear of it."""
    if world.size == 1:
        yield
        return
    done = threading.Event()

    def tell() -> None:
        while not done.wait(every):
            from_main(world, _WAIT)

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def main_first(world: World, act: Callable[[], T | None]) -> T | None:
    """Let rank 0 act, then the others, who find what it has left, as an index of the data: a collective.

    Where it is None on one rank, because it was stopped, it is None on all; if on rank 0, the others do not act.

    Raises:
        StudioError: that of any rank, on all ranks.
    """
    results: list[T | None] = []
    main_alone(world, lambda: results.append(act()))
    if any_rank(world, world.is_main and results[0] is None):
        return None
    result = each(world, lambda: results[0] if world.is_main else act())
    return None if any_rank(world, result is None) else result


def each(world: World, act: Callable[[], T]) -> T:
    """Let every rank act, without collectives; where one fails, all do: a collective.

    Raises:
        StudioError: that of the rank itself, or else of the first rank that failed.
    """
    results: list[T] = []
    failed = _failure(lambda: results.append(act()))
    told = from_all(world, _told(failed, f"process {world.rank}"))
    if failed:
        raise failed
    for message in filter(None, told):
        raise StudioError(message)
    return results[0]


def agree(world: World, value: Any, problem: str) -> None:
    """Refuse unless all ranks have an equal value, a small object: a collective.

    Raises:
        StudioError: `problem`, on all ranks.
    """
    values = from_all(world, value)
    if any(other != values[0] for other in values):
        raise StudioError(problem)


def _failure(act: Callable[[], object]) -> Exception | None:
    try:
        act()
    except Exception as error:
        return error
    return None


def _told(failed: Exception | None, who: str) -> str:
    """What other ranks hear of a failure; "" for none."""
    if failed is None or isinstance(failed, StudioError):
        return str(failed or "")
    return f"{who.capitalize()} failed ({type(failed).__name__}: {failed}): see its own message."
