"""What tests ask about hooks: how many there are, and what a module gives behind all of them."""

from collections.abc import Callable

from torch import Tensor, nn


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
