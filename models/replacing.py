"""Run a tower with other attention: what a module answers is replaced by a function of its projections.

The mechanism behind every intervention and every gradient with respect to a map. No module is changed: forward hooks
go in when the context opens and come out when it closes, also when the forward pass raises, and they listen only to
the thread that opened it.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from models.calls import answer, read_call
from models.errors import RecordingError, UnsupportedAttentionError
from models.loaded import Tower
from models.projections import Projections
from models.projectors import project

Function = Callable[[Projections], Tensor]


@contextmanager
def replacing(tower: Tower, functions: Mapping[int, Function]) -> Iterator[None]:
    """Inside the block, on this thread, layer l of `tower` answers `functions[l](its projections)`.

    The projections belong to what the module is really given, after the layers before it were replaced, and are in the
    graph where gradients are on. A function returns (B, Nq, D), what `Projections.merge` gives; it is put into the
    form in which the module answers (one of a pair, sequence first, pooled). Layers that are not named run as they
    are, and without any function there is no hook.

    The caller holds the model's lock, so that nobody else runs the model meanwhile.

    Raises:
        RecordingError: a layer that does not exist.
        UnsupportedAttentionError: in the forward pass, a module whose projections are not known.
    """
    for layer in functions:
        if not 0 <= layer < tower.layers:
            raise RecordingError(
                f"Layer {layer} does not exist in the {tower.name} tower: "
                f"{tower.reason or f'choose 0-{tower.layers - 1}.'}"
            )
    thread, handles = threading.get_ident(), []
    try:
        for layer, function in functions.items():
            hook = _replacer(f"Layer {layer} of the {tower.name} tower", function, thread)
            handles.append(tower.attention[layer].register_forward_hook(hook, with_kwargs=True))
        yield
    finally:
        for handle in handles:
            handle.remove()


def _replacer(where: str, function: Function, thread: int) -> Any:
    def replace(module: nn.Module, args: tuple[Any, ...], *rest: Any) -> Any:
        # Another thread's hook is not ours to answer, and may come without keyword arguments while it is removed.
        if threading.get_ident() != thread:
            return None
        kwargs, output = rest
        try:
            call = read_call(module, args, kwargs)
            projections = project(module, call.x, call.mask)
        except UnsupportedAttentionError as error:
            raise UnsupportedAttentionError(f"{where}: {error}") from error
        return answer(module, function(projections), output)

    return replace
