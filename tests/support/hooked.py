"""What tests ask about hooks, and by hooks: how many there are, what a module gives, what models read; slow models."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from open_clip.transformer import VisionTransformer
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook


def hooks_of(module: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in module.modules())


def output_of(module: nn.Module, run: Callable[[], object]) -> Tensor:
    """What `module` gives in a run, after every hook that is there already."""
    kept: list[Tensor] = []

    def keep(_module: nn.Module, _args: object, output) -> None:
        kept.append(output[0] if isinstance(output, tuple) else output)

    handle = module.register_forward_hook(keep)
    try:
        run()
    finally:
        handle.remove()
    return kept[-1]


@contextmanager
def pictures_read() -> Iterator[list[int]]:
    """While open, a list that grows with every batch of pictures that any model of this process reads."""
    runs: list[int] = []

    def count(module: nn.Module, _args: object, output) -> None:
        if isinstance(module, VisionTransformer):
            runs.append(len(output))

    handle = register_module_forward_hook(count)
    try:
        yield runs
    finally:
        handle.remove()


@contextmanager
def slow_models(seconds: float) -> Iterator[None]:
    """While open, every batch of pictures takes so much longer, as with larger models."""

    def rest(module: nn.Module, _args: object, _output: object) -> None:
        if isinstance(module, VisionTransformer):
            time.sleep(seconds)

    handle = register_module_forward_hook(rest)
    try:
        yield
    finally:
        handle.remove()
