"""Signals to this process at a certain place of its work."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from open_clip.transformer import VisionTransformer
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from train.data.sample import Sample, Skip, Source


def stopping_at(step: int, number: int) -> Callable[[int], None]:
    """To be called after each step: sends this process a signal after step `step`."""

    def send(done: int) -> None:
        if done == step:
            os.kill(os.getpid(), number)

    return send


@contextmanager
def signal_at_first_measured_batch(number: int, group: int = 0) -> Iterator[list[int]]:
    """While open, the first pictures that are measured bring a signal, to this process or to a group.

    Yields a list that grows by one entry a batch of measured pictures.
    """
    batches: list[int] = []

    def look(module: nn.Module, _: Any, output: Any) -> None:
        if isinstance(module, VisionTransformer) and not module.training:
            batches.append(len(output))
            if len(batches) == 1 and group:
                os.killpg(group, number)
            elif len(batches) == 1:
                os.kill(os.getpid(), number)

    handle = register_module_forward_hook(look)
    try:
        yield batches
    finally:
        handle.remove()


@dataclass(frozen=True)
class Signalling:
    """Scenes; while the first is read, this process gets a signal."""

    whole: Source
    number: int

    def __len__(self) -> int:
        return len(self.whole)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)

    def read(self, index: int, least_side: int = 0) -> Sample | Skip:
        os.kill(os.getpid(), self.number)
        return self.whole.read(index, least_side)
