"""Record one forward pass of a tower: each attention module's input and output, nothing else.

Hooks go in when the context opens and come out when it closes, also when the forward pass raises. They listen
only to the thread that opened the context, so two people who look at two pictures at once each get their own.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from models.calls import Call, pooled, read_call, tensor_of
from models.errors import RecordingError, UnsupportedAttentionError
from models.loaded import Tower
from models.maps import attention_maps
from models.projections import Projections, reconstruct
from models.projectors import project

# How far weights @ V may miss the module's output, relative to its largest entry, by the dtype of the output. Sums in
# another order cost float32 some 4e-7. In half precision the module rounds Q, K, V, the weighted sum and the output to
# 2**-11 (float16) or 2**-8 (bfloat16) each, and a differential head divides what A1 - lambda A2 leaves, about a fifth
# of what was rounded, by its own size. The worst of all types of attention at random weights is 2e-3 and 1e-2; six
# times that is allowed, where another mask, scale, lambda or pairing of heads misses by a tenth or more.
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 6e-2}


@dataclass(frozen=True)
class _Layer:
    """What one attention module was given and what it answered, or why it cannot be read."""

    call: Call | UnsupportedAttentionError
    output: Tensor
    versions: tuple[int, ...]


class Recording:
    """The recorded layers of one tower and one forward pass; `recording[layer]` gives its `Projections`."""

    def __init__(self, tower: Tower) -> None:
        self.tower = tower
        self._layers: dict[int, _Layer] = {}
        self._projections: dict[int, Projections] = {}
        self._misses: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self.tower.attention)

    @property
    def nbytes(self) -> int:
        """Bytes that the kept inputs and outputs take; projections are worked out when asked for."""
        kept = [layer.output for layer in self._layers.values()]
        kept += [layer.call.x for layer in self._layers.values() if isinstance(layer.call, Call)]
        return sum(tensor.nbytes for tensor in kept)

    def __iter__(self) -> Iterator[Projections]:
        """The projections of every layer, in order."""
        return (self[layer] for layer in range(len(self)))

    def __getitem__(self, layer: int) -> Projections:
        """Q, K, V of a layer; on first use it is checked that they give the recorded output.

        Raises:
            RecordingError: no such layer, it did not run, the weights changed since, or the output is not met.
            UnsupportedAttentionError: the attention module is of a type that is not known.
        """
        if not 0 <= layer < len(self):
            raise RecordingError(
                f"Layer {layer} does not exist in the {self.tower.name} tower: choose 0-{len(self) - 1}."
            )
        if layer not in self._layers:
            raise RecordingError(
                f"Layer {layer} of the {self.tower.name} tower did not run while recording: "
                "encode inside the record() block."
            )
        module, record = self.tower.attention[layer], self._layers[layer]
        if _versions(module) != record.versions:
            raise RecordingError(
                f"The weights of layer {layer} of the {self.tower.name} tower changed since they were recorded: "
                "record again."
            )
        if layer not in self._projections:
            self._projections[layer] = self._checked(layer, module, record)
        return self._projections[layer]

    def miss(self, layer: int) -> float:
        """How far weights @ V of a layer is from the module's own output, relative to the output's largest entry.

        Raises:
            RecordingError: as for `recording[layer]`, and where it is further than is allowed.
        """
        self[layer]
        return self._misses[layer]

    def _checked(self, layer: int, module: nn.Module, record: _Layer) -> Projections:
        with torch.no_grad():
            try:
                if not isinstance(record.call, Call):
                    raise record.call
                projections = project(module, record.call.x, record.call.mask)
            except UnsupportedAttentionError as error:
                raise UnsupportedAttentionError(f"Layer {layer} of the {self.tower.name} tower: {error}") from error
            again = pooled(module, reconstruct(projections, attention_maps(projections).weights))
        wide = torch.promote_types(again.dtype, torch.float32)
        ours, output = again.to(wide), record.output.to(wide)
        miss = float((ours - output).abs().max() / output.abs().max().clamp(min=1e-12))
        allowed = TOLERANCE[record.output.dtype]
        if not miss <= allowed:
            raise RecordingError(
                f"Layer {layer} of the {self.tower.name} tower: weights @ V misses the module's own output by "
                f"{miss:.1e} of its largest entry, {allowed:.0e} is allowed; "
                "its maps would not be true, so none are given."
            )
        self._misses[layer] = miss
        return projections


@contextmanager
def record(tower: Tower) -> Iterator[Recording]:
    """Record the forward pass of `tower` that runs inside the block, on this thread.

    In a run that is changed by `replacing`, each layer's own answer to its changed input is recorded.

    Raises:
        RecordingError: a tower without attention, with the tower's own reason; a layer that runs twice in one block.
    """
    if not tower.attention:
        raise RecordingError(
            tower.reason or f"The {tower.name} tower has no attention to record: choose another model or tower."
        )
    recording, thread, handles = Recording(tower), threading.get_ident(), []
    try:
        for layer, module in enumerate(tower.attention):
            hook = _keeper(recording, layer, thread)
            # In front of every hook that replaces the output, so that the module's own is seen.
            handles.append(module.register_forward_hook(hook, with_kwargs=True, prepend=True))
        yield recording
    finally:
        for handle in handles:
            handle.remove()


def _keeper(recording: Recording, layer: int, thread: int) -> Any:
    """The hook of one layer: keeps input, mask and output as they are, without a copy."""

    def keep(module: nn.Module, args: tuple[Any, ...], *rest: Any) -> None:
        # Another thread that is removing its hook may make PyTorch call this one without keyword arguments.
        if threading.get_ident() != thread:
            return
        kwargs, output = rest
        if layer in recording._layers:
            raise RecordingError(f"Layer {layer} ran twice inside one record() block: open one block a forward pass.")
        try:
            call = read_call(module, args, kwargs)
            call = Call(call.x.detach(), call.mask)
        except UnsupportedAttentionError as error:
            # The model runs on; the layer is refused when it is asked for.
            call = error
        recording._layers[layer] = _Layer(call, tensor_of(module, output).detach(), _versions(module))

    return keep


def _versions(module: nn.Module) -> tuple[int, ...]:
    """PyTorch's in-place change counters of the parameters: they grow when a weight is written to."""
    return tuple(parameter._version for parameter in module.parameters())
