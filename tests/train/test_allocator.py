"""A process of its own, since the allocator's settings cannot be taken back."""

import platform
import subprocess
import sys

import pytest

COUNT = """
import resource, sys, torch
from train.allocator import keep_freed_memory
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
