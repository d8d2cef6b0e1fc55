"""Several processes that train together, started as torchrun starts them, and ended when time is up."""

import os
import socket
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.multiprocessing.spawn import start_processes


def run_ranks(function: Callable[..., None], size: int, *args: Any, seconds: float = 120.0) -> None:
    """Call `function(rank, *args)` in `size` new processes; fails if one raises, or if time is up."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = start_processes(_enter, (function, size, port, args), size, join=False, start_method="spawn")
    assert context is not None
    deadline = time.monotonic() + seconds
    while not context.join(timeout=1.0):
        if time.monotonic() > deadline:
            for process in filter(None, context.processes):
                process.kill()
            raise AssertionError(f"{size} ranks did not end within {seconds} seconds.")


def _enter(rank: int, function: Callable[..., None], size: int, port: int, args: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(size),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    function(rank, *args)
