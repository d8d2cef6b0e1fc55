"""A bar with the time that is left, on the terminal; sparse lines where the output goes to a file."""

import sys
from collections.abc import Callable

from tqdm import tqdm


def progress_bar(name: str, first: int, end: int, shown: bool) -> tqdm:
    """A bar over the steps `first` to `end`; nothing is printed unless `shown`.

    The time that is left goes by the speed of this start, whatever was done before it.
    """
    often = 0.1 if sys.stderr.isatty() else 60.0
    return tqdm(total=end, initial=first, unit="step", desc=name, disable=not shown, mininterval=often, miniters=1)


def shard_progress(delay: float = 5.0) -> Callable[[int, int], None]:
    """To be called with (shards done, shards in all) while tars are indexed; a bar, if that takes over `delay` s."""
    bars: list[tqdm] = []
    often = 0.1 if sys.stderr.isatty() else 10.0

    def tell(done: int, count: int) -> None:
        if not bars:
            bars.append(
                tqdm(total=count, unit="shard", desc="indexing tars", delay=delay, mininterval=min(often, delay))
            )
        bars[0].update()
        if done == count:
            bars[0].close()

    return tell
