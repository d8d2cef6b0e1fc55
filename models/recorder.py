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

from models.errors import RecordingError, UnsupportedAttentionError
from models.loaded import Tower
from models.maps import attention_maps
from models.projections import Projections, project, reconstruct

# Relative to the largest entry of the output; float32 sums in another order stay far below it.
_TOLERANCE = 1e-4


@dataclass(frozen=True)
class _Layer:
    """What one attention module was given and what it answered."""

    x: Tensor
    mask: Tensor | None
    output: Tensor
    versions: tuple[int, ...]


class Recording:
    """The recorded layers of one tower and one forward pass; `recording[layer]` gives its `Projections`."""

    def __init__(self, tower: Tower) -> None:
        self.tower = tower
        self._layers: dict[int, _Layer] = {}
        self._projections: dict[int, Projections] = {}

    def __len__(self) -> int:
        return len(self.tower.attention)

    @property
    def nbytes(self) -> int:
        """Bytes that the kept inputs and outputs take; projections are worked out when asked for."""
        return sum(t.nbytes for layer in self._layers.values() for t in (layer.x, layer.output))

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

    def _checked(self, layer: int, module: nn.Module, record: _Layer) -> Projections:
        with torch.no_grad():
            try:
                projections = project(module, record.x, record.mask)
            except UnsupportedAttentionError as error:
                raise UnsupportedAttentionError(f"Layer {layer} of the {self.tower.name} tower: {error}") from error
            again = reconstruct(projections, attention_maps(projections).weights)
        miss = float((again - record.output).abs().max() / record.output.abs().max().clamp(min=1e-12))
        if not miss <= _TOLERANCE:
            raise RecordingError(
                f"Layer {layer} of the {self.tower.name} tower: weights @ V misses the module's own output by "
                f"{miss:.1e} of its largest entry, {_TOLERANCE:.0e} is allowed; "
                "its maps would not be true, so none are given."
            )
        return projections


@contextmanager
def record(tower: Tower) -> Iterator[Recording]:
    """Record the forward pass of `tower` that runs inside the block, on this thread.

    Raises:
        RecordingError: a layer runs twice inside one block.
    """
    recording, thread = Recording(tower), threading.get_ident()
    handles = [
        module.register_forward_hook(_keeper(recording, layer, thread), with_kwargs=True)
        for layer, module in enumerate(tower.attention)
    ]
    try:
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
        x = args[0] if args else kwargs["query"]
        out = output[0] if isinstance(output, tuple) else output
        if getattr(module, "batch_first", True) is False:
            x, out = x.transpose(0, 1), out.transpose(0, 1)
        recording._layers[layer] = _Layer(x.detach(), kwargs.get("attn_mask"), out.detach(), _versions(module))

    return keep


def _versions(module: nn.Module) -> tuple[int, ...]:
    """PyTorch's in-place change counters of the parameters: they grow when a weight is written to."""
    return tuple(parameter._version for parameter in module.parameters())
