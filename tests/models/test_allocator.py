"""A process of its own, since the allocator's settings cannot be taken back."""

import platform
import subprocess
import sys

import pytest

COUNT = """
import resource, sys, torch
from models.allocator import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
def faults(times):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        torch.zeros(16_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
# The first blocks lie beside each other, until free ones are found again.
faults(20)
print(faults(5))
"""


def faults_of_freed_blocks(mode: str) -> int:
    done = subprocess.run([sys.executable, "-c", COUNT, mode], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library is left as it is")
def test_a_block_that_is_freed_and_taken_again_costs_no_page_faults() -> None:
    pages = 5 * 16_000_000 * 4 // 4096
    assert faults_of_freed_blocks("leave") > pages // 2
    assert faults_of_freed_blocks("keep") < pages // 100


OUTSIDE = """
import ctypes, sys, threading
from models.allocator import share_one_heap
if sys.argv[1] == "share":
    assert share_one_heap()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
found = []
threads = [threading.Thread(target=lambda: found.append(libc.malloc(1000))) for _ in range(4)]
for thread in threads:
    thread.start()
    thread.join()
line = next(line for line in open("/proc/self/maps") if line.rstrip().endswith("[heap]"))
low, high = (int(end, 16) for end in line.split()[0].split("-"))
print(sum(not low <= address < high for address in found))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library is left as it is")
def test_threads_that_share_a_heap_take_from_the_one_that_there_is() -> None:
    def outside(mode: str) -> int:
        done = subprocess.run([sys.executable, "-c", OUTSIDE, mode], capture_output=True, text=True, check=True)
        return int(done.stdout)

    assert outside("leave") == 4
    assert outside("share") == 0
