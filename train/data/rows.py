"""The rows of a CSV or TSV, also where quotes are not meant as quotes, so that no row is swallowed by another.

A quote at the start of a field opens a quoted one (RFC 4180), which may hold separators and line breaks. In tables that
were written without quoting, as tab-separated ones often are, a caption may begin with a quote that nothing closes, and
a reader of CSV then takes the lines up to the next quote for one field.
"""

import csv
from collections import deque
from collections.abc import Iterable, Iterator


def table_rows(lines: Iterable[str], separator: str, columns: int) -> Iterator[tuple[int, list[str]]]:
    """(number of its last line, from 1 for the first of `lines`, fields) of every row but empty ones.

    Where quotes do not match, or lines of a tab-separated table that have all `columns` by themselves would become one
    row, the first of these lines is a row of its own: with its quotes as they are between tabs, and read as far as it
    goes between other separators.

    Raises:
        csv.Error: a line is too long for a field.
    """
    source, again, taken = iter(lines), deque[str](), list[str]()
    number = 0

    def feed() -> Iterator[str]:
        nonlocal number
        while True:
            line = again.popleft() if again else next(source, None)
            if line is None:
                return
            number += 1
            taken.append(line)
            yield line

    while True:
        reader = csv.reader(feed(), delimiter=separator, strict=True)
        try:
            for row in reader:
                if len(taken) > 1 and separator == "\t" and all(line.count("\t") >= columns - 1 for line in taken):
                    break
                taken.clear()
                if row:
                    yield number, row
            else:
                return
        except csv.Error:
            pass
        first, *rest = taken
        number -= len(rest)
        again.extendleft(reversed(rest))
        taken.clear()
        yield number, _alone(first, separator)


def _alone(line: str, separator: str) -> list[str]:
    """The fields of a line whose quotes do not match."""
    quoting = csv.QUOTE_NONE if separator == "\t" else csv.QUOTE_MINIMAL
    return next(csv.reader([line], delimiter=separator, quoting=quoting), [])
