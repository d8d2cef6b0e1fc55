"""One process or many: who this one is, and what ranks tell each other.

Every function here is a collective: all ranks must call it, in the same order. With one process none of them
communicates, so that training code reads the same for one process and for many.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from models.errors import StudioError

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
# Flags and messages travel through gloo even beside GPUs, so that no rank waits for its device to tell another.
BACKENDS = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl"}


@dataclass(frozen=True)
class World:
    """This process among those that train together: `rank` of `size`, computing on `device`."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files and prints."""
        return self.rank == 0


@contextmanager
def open_world(device: str = "auto", timeout: timedelta = timedelta(minutes=30)) -> Iterator[World]:
    """This process's world, as torchrun's environment tells it, or a world of one; the group ends with the context.

    `device` is "auto" (CUDA where there is one), "cpu", "cuda" or one GPU as "cuda:1". Ranks of one machine take its
    GPUs in order. `timeout` bounds how long a rank waits for one that does not answer.

    Raises:
        StudioError: a part of torchrun's environment is missing, or there is no such device for this process.
    """
    found = [name for name in VARIABLES if name in os.environ]
    if not found or ("RANK" not in found and "WORLD_SIZE" not in found):
        yield World(device=resolve_device(device, 0))
        return
    if len(found) < len(VARIABLES):
        missing = ", ".join(name for name in VARIABLES if name not in found)
        raise StudioError(
            f"The environment has {', '.join(found)}, but not {missing}: start several processes with torchrun, which "
            "sets all of them, or unset them to train with one."
        )
    rank, size, local_rank = (_whole_number(name) for name in VARIABLES[:3])
    own = resolve_device(device, local_rank)
    if own.type == "cuda":
        torch.cuda.set_device(own)
    dist.init_process_group(BACKENDS[own.type], rank=rank, world_size=size, timeout=timeout)
    try:
        yield World(rank, size, own)
    finally:
        dist.destroy_process_group()


def _whole_number(name: str) -> int:
    """An environment variable as a number from 0 up."""
    text = os.environ[name]
    if not text.isdecimal():
        raise StudioError(f"{name} = {text!r} in the environment must be a whole number: start with torchrun.")
    return int(text)


def resolve_device(device: str, local_rank: int) -> torch.device:
    """The device of the process `local_rank` of this machine.

    Raises:
        StudioError: it is another kind of device, or the machine has no such GPU.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        asked = torch.device(device)
    except RuntimeError as error:
        raise StudioError(f"device = {device!r} is not known to PyTorch: use auto, cpu or cuda.") from error
    if asked.type not in BACKENDS:
        raise StudioError(f"device = {device!r} is not one that training knows: use auto, cpu or cuda.")
    if asked.type == "cpu":
        return asked
    index = local_rank if asked.index is None else asked.index
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if index >= count:
        raise StudioError(
            f"Process {local_rank} of this machine needs GPU {index}, but PyTorch sees {count}: start "
            f"{f'at most {count} processes (--nproc-per-node)' if count else 'with device cpu'}."
        )
    return torch.device("cuda", index)


class _Gather(torch.autograd.Function):
    """Concatenation over ranks; backward sums what all ranks ask of this rank's part."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, world: World) -> Tensor:
        ctx.world, ctx.rows = world, len(tensor)
        return gather(world, tensor)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        # Reducing everything and taking a part is what every backend can do; the features are a few megabytes.
        grad = grads[0].contiguous().clone()
        dist.all_reduce(grad)
        return grad[ctx.world.rank * ctx.rows :][: ctx.rows], None


def gather_with_gradient(world: World, tensor: Tensor) -> Tensor:
    """All ranks' tensors (B, ...), one after another in the order of ranks: (size * B, ...), with exact gradients.

    In backward a rank receives the sum over ranks of the gradients of its own part. The shapes must be equal.
    """
    if world.size == 1:
        return tensor
    out = _Gather.apply(tensor, world)
    assert isinstance(out, Tensor)
    return out


def gather(world: World, tensor: Tensor) -> Tensor:
    """All ranks' tensors (B, ...) in the order of ranks: (size * B, ...), as constants. The shapes must be equal."""
    if world.size == 1:
        return tensor.detach()
    own = tensor.detach().contiguous()
    parts = [torch.empty_like(own) for _ in range(world.size)]
    dist.all_gather(parts, own)
    return torch.cat(parts)


def mean_over_ranks(world: World, value: Tensor) -> Tensor:
    """The mean of a tensor over the ranks, as a constant with the same bits on all of them."""
    mean = value.detach().clone()
    if world.size > 1:
        dist.all_reduce(mean)
        mean /= world.size
    return mean


def any_rank(world: World, flag: bool) -> bool:
    """Whether the flag is set on any rank: the same answer on all, so that all stop, save or skip together.

    It is a barrier too: no rank goes on before all have come here.
    """
    if world.size == 1:
        return flag
    reduced = torch.tensor(int(flag))
    dist.all_reduce(reduced, dist.ReduceOp.MAX)
    return bool(reduced.item())


def barrier(world: World) -> None:
    """Wait until all ranks have come here."""
    any_rank(world, False)


def from_all(world: World, value: Any) -> list[Any]:
    """Every rank's value, a small object that can be pickled, in the order of ranks."""
    if world.size == 1:
        return [value]
    values: list[Any] = [None] * world.size
    dist.all_gather_object(values, value)
    return values


def from_main(world: World, value: Any) -> Any:
    """The value of rank 0, a small object that can be pickled, on all ranks."""
    if world.size == 1:
        return value
    values = [value]
    dist.broadcast_object_list(values, src=0, device=torch.device("cpu"))
    return values[0]
