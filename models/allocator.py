"""What glibc, the C library of Linux, does with memory that was freed; each process chooses once, when it starts.

Training wants blocks of tens of megabytes kept, since glibc returns those to the system when they are freed; each of
their pages then costs a fault, and is filled with zeros, in every step. A server wants the opposite: glibc gives
threads heaps of their own, eight for each core, and what one thread freed is of no use to another, so that the process
grows for as long as it has not used every heap at its fullest.
"""

import ctypes
import platform

# Of glibc's malloc.h: from which size a block is mapped by itself, how much free memory is returned at the top, and how
# many heaps there may be.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_MOST = 2**31 - 1


def keep_freed_memory() -> bool:
    """Let glibc keep what is freed, up to 2 GiB a block, for the life of the process; whether it does.

    What the process holds then stays at its highest use. Another C library, or one that refuses, is left as it is.
    """
    return _set({_MMAP_THRESHOLD: _MOST, _TRIM_THRESHOLD: _MOST})


def share_one_heap() -> bool:
    """Let all threads take from the heap that there is, so that what one freed serves the next; whether they do.

    Call it before threads begin: one that has a heap of its own keeps it. Another C library is left as it is.
    """
    return _set({_ARENA_MAX: 1})


def _set(settings: dict[int, int]) -> bool:
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(mallopt(name, value) == 1 for name, value in settings.items())
