"""The state of PyTorch's random generators: kept, put back, and replayed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class RngState:
    """The generator of the CPU, and that of a CUDA device where one is used."""

    cpu: Tensor
    cuda: Tensor | None = None


def rng_state(device: torch.device) -> RngState:
    """The present state of the generators that a computation on `device` draws from."""
    return RngState(torch.get_rng_state(), torch.cuda.get_rng_state(device) if device.type == "cuda" else None)


def set_rng_state(state: RngState, device: torch.device) -> None:
    """Let the generators go on from a state."""
    torch.set_rng_state(state.cpu)
    if state.cuda is not None:
        torch.cuda.set_rng_state(state.cuda, device)


@contextmanager
def replayed(state: RngState, device: torch.device) -> Iterator[None]:
    """Random numbers as they came from `state` on; afterwards the generators go on as if nothing had been drawn."""
    before = rng_state(device)
    set_rng_state(state, device)
    try:
        yield
    finally:
        set_rng_state(before, device)
