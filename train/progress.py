"""A bar with the time that is left, on the terminal; sparse lines where the output goes to a file."""

import sys

from tqdm import tqdm


def progress_bar(name: str, first: int, end: int, shown: bool) -> tqdm:
    """A bar over the steps `first` to `end`; nothing is printed unless `shown`.

    The time that is left goes by the speed of this start, whatever was done before it.
    """
    often = 0.1 if sys.stderr.isatty() else 60.0
    return tqdm(total=end, initial=first, unit="step", desc=name, disable=not shown, mininterval=often, miniters=1)
