"""Several processes that train together, started as torchrun starts them, and ended when time is up."""

import os
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch.multiprocessing.spawn import start_processes

GROUPS = 16


def run_ranks(function: Callable[..., None], size: int, *args: Any, seconds: float = 120.0) -> None:
    """Call `function(rank, *args)` in `size` new processes; fails if one raises, or if time is up."""
    with ExitStack() as probes:
        ports = []
        for _ in range(GROUPS):
            probe = probes.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            ports.append(probe.getsockname()[1])
    context = start_processes(_enter, (function, size, ports, args), size, join=False, start_method="spawn")
    assert context is not None
    deadline = time.monotonic() + seconds
    while not context.join(timeout=1.0):
        if time.monotonic() > deadline:
            for process in filter(None, context.processes):
                process.kill()
            raise AssertionError(f"{size} ranks did not end within {seconds} seconds.")


def next_group() -> None:
    """Called by all ranks before they open another group: a rank that is ahead must not find the last one's store."""
    port, *rest = os.environ["PORTS"].split(",")
    os.environ.update(MASTER_PORT=port, PORTS=",".join(rest))


def _enter(rank: int, function: Callable[..., None], size: int, ports: list[int], args: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(size),
        MASTER_ADDR="127.0.0.1",
        PORTS=",".join(map(str, ports)),
    )
    next_group()
    function(rank, *args)
