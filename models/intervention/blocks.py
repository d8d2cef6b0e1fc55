"""Transformer blocks without their residual or their FFN, by hooks that leave the block as it is."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from open_clip.transformer import CustomResidualAttentionBlock, ResidualAttentionBlock
from timm.models.vision_transformer import Block as TimmBlock
from torch import Tensor, nn

from models.errors import UnsupportedAttentionError
from models.loaded import Tower


@dataclass(frozen=True)
class Halves:
    """The two terms that a pre-norm block adds to its stream x: x + branch(attention), then x + ffn(x).

    Attributes:
        branch: what the attention module answered -> the first term.
        ffn: the stream after attention -> the second term.
    """

    branch: Callable[[Tensor], Tensor]
    ffn: Callable[[Tensor], Tensor]


def with_ffn(halves: Halves, stream: Tensor) -> Tensor:
    """The end of a block that keeps its FFN."""
    return stream + halves.ffn(stream)


def without_ffn(halves: Halves, stream: Tensor) -> Tensor:
    """The end of a block that drops its FFN."""
    return stream


def with_residual(halves: Halves, x: Tensor, attention: Tensor) -> Tensor:
    """The stream after attention in a block that keeps its residual."""
    return x + halves.branch(attention)


def without_residual(halves: Halves, x: Tensor, attention: Tensor) -> Tensor:
    """The stream after attention in a block that drops its residual."""
    return halves.branch(attention)


@dataclass(frozen=True)
class BlockForm:
    """How a block goes on from attention: one function for each of its two sums."""

    first: Callable[[Halves, Tensor, Tensor], Tensor] = with_residual
    second: Callable[[Halves, Tensor], Tensor] = with_ffn


def halves_of(block: nn.Module) -> Halves:
    """The two terms of a block of a known type.

    Raises:
        UnsupportedAttentionError: a block of another type; the message names it.
    """
    if isinstance(block, ResidualAttentionBlock):
        return Halves(block.ls_1, lambda x: block.ls_2(block.mlp(block.ln_2(x))))
    if isinstance(block, CustomResidualAttentionBlock):
        return Halves(lambda a: block.ls_1(block.ln_attn(a)), lambda x: block.ls_2(block.mlp(block.ln_2(x))))
    if isinstance(block, TimmBlock):
        return Halves(
            lambda a: block.drop_path1(block.ls1(a)),
            lambda x: block.drop_path2(block.ls2(block.mlp(block.norm2(x)))),
        )
    raise UnsupportedAttentionError(
        f"{type(block).__module__}.{type(block).__name__} is a block whose residual and FFN are not known: use a model "
        "with open_clip's ResidualAttentionBlock or timm's Block."
    )


@contextmanager
def reformed(tower: Tower, forms: Mapping[int, BlockForm]) -> Iterator[None]:
    """Inside the block of code, on this thread, the transformer block of layer l ends as `forms[l]` says.

    What the attention module answers is taken after all replacements that were in place before. Without any form
    there is no hook.

    Raises:
        UnsupportedAttentionError: a block of a type that is not known.
    """
    halves = {layer: halves_of(tower.blocks[layer]) for layer in forms}
    thread, handles = threading.get_ident(), []
    try:
        for layer, form in forms.items():
            answers: list[Tensor] = []
            keep, end = _keeper(answers, thread), _ender(answers, halves[layer], form, thread)
            handles.append(tower.attention[layer].register_forward_hook(keep))
            handles.append(tower.blocks[layer].register_forward_hook(end, with_kwargs=True))
        yield
    finally:
        for handle in handles:
            handle.remove()


def _keeper(answers: list[Tensor], thread: int) -> Any:
    """The hook on the attention module: keeps its answer for the hook on its block."""

    def keep(module: nn.Module, args: Any, output: Any) -> None:
        if threading.get_ident() == thread:
            answers.append(output[0] if isinstance(output, tuple) else output)

    return keep


def _ender(answers: list[Tensor], halves: Halves, form: BlockForm, thread: int) -> Any:
    """The hook on the block: works its two sums out again in another form."""

    def end(block: nn.Module, args: tuple[Any, ...], *rest: Any) -> Any:
        # Another thread that is removing its hook may make PyTorch call this one without keyword arguments.
        if threading.get_ident() != thread:
            return None
        x = args[0] if args else next(iter(rest[0].values()))
        return form.second(halves, form.first(halves, x, answers.pop()))

    return end
