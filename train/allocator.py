"""Memory that a training step gives back stays with the process, so that the next step need not fetch it anew.

The activations of a step are tens of megabytes each. The C library of Linux, glibc, returns blocks of that size to the
system when they are freed; each of their pages then costs a fault, and is filled with zeros, in every step.
"""

import ctypes
import platform

# Of glibc's malloc.h: from which size a block is mapped by itself, and how much free memory is returned at the top.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_MOST = 2**31 - 1


def keep_freed_memory() -> bool:
    """Let glibc keep what is freed, up to 2 GiB a block, for the life of the process; whether it does.

    What the process holds then stays at its highest use. Another C library, or one that refuses, is left as it is.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(mallopt(name, _MOST) == 1 for name in (_MMAP_THRESHOLD, _TRIM_THRESHOLD))
