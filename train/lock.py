"""One program at a time writes into a run's folder."""

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from models.errors import StudioError
from train.durable import writing

try:
    import fcntl
except ImportError:  # Windows has none, and no lock is taken there
    fcntl = None

LOCK = "lock"


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Hold the lock of a run's folder, which is made if need be; it ends with the context, or with the process.

    The lock is the process's own: what it has started, as loader workers, neither holds it nor keeps it.

    Raises:
        StudioError: another process holds it, or the folder cannot be written.
    """
    path = run / LOCK
    with ExitStack() as held:
        with writing(run):
            run.mkdir(parents=True, exist_ok=True)
            file = held.enter_context(path.open("a+", encoding="utf-8"))
            _take(path, file.fileno())
            file.truncate(0)
            file.write(f"process {os.getpid()} on {platform.node()}\n")
            file.flush()
        yield


def _take(path: Path, handle: int) -> None:
    if fcntl is None:
        return
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError) as error:
        holder = path.read_text(encoding="utf-8", errors="replace").strip() or "another process"
        raise StudioError(
            f"{path.parent} is being written by {holder}: wait until that run ends, stop it, or choose another --out."
        ) from error
    except OSError as error:
        print(f"warning: {path.parent} cannot be locked ({error.strerror}): start only one run in it.", file=sys.stderr)
