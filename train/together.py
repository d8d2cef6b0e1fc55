"""What rank 0 does for all: its error is everybody's, so that no rank waits for one that has gone."""

from collections.abc import Callable
from typing import TypeVar

from models.errors import StudioError
from train.distributed import World, from_main

T = TypeVar("T")


def main_alone(world: World, act: Callable[[], object]) -> None:
    """Let rank 0 act, and the others wait until it has: a collective.

    Raises:
        StudioError: rank 0's, on all ranks.
    """
    failed: StudioError | None = None
    if world.is_main:
        try:
            act()
        except StudioError as error:
            failed = error
    message = from_main(world, str(failed) if failed else "")
    if failed:
        raise failed
    if message:
        raise StudioError(message)


def main_first(world: World, act: Callable[[], T]) -> T:
    """Let rank 0 act, then the others, who find what it has left, as an index of the data: a collective.

    Raises:
        StudioError: rank 0's, on all ranks; or a rank's own.
    """
    results: list[T] = []
    main_alone(world, lambda: results.append(act()))
    return results[0] if world.is_main else act()
