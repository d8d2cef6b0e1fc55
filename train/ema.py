"""The exponential moving average of a model's weights, and the model with the averages in place of its weights."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from models.errors import StudioError


class Ema:
    """Averages of all parameters of a module, of their type and on their device.

    With n updates done, the next one keeps min(decay, (1 + n) / (10 + n)) of the average, so that the first weights,
    which know nothing, are soon forgotten. Ranks hold equal weights and so hold equal averages.

    Raises:
        StudioError: `decay` is not in [0, 1).
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        if not 0.0 <= decay < 1.0:
            raise StudioError(f"decay = {decay} of the moving average must be from 0 to below 1, as 0.9999.")
        self.decay = decay
        self.updates = 0
        self.averages = {name: p.detach().clone() for name, p in module.named_parameters()}

    def next_decay(self) -> float:
        """The share of the average that the next update keeps."""
        return min(self.decay, (1 + self.updates) / (10 + self.updates))

    @torch.no_grad()
    def update(self, module: nn.Module) -> None:
        """Take the module's present weights into the averages."""
        share = 1.0 - self.next_decay()
        for name, parameter in module.named_parameters():
            self.averages[name].lerp_(parameter, share)
        self.updates += 1

    @contextmanager
    def in_place_of(self, module: nn.Module) -> Iterator[None]:
        """While open, the module computes with the averages; nothing is copied, its weights wait in their place.

        Neither train nor update while it is open.
        """
        self._swap(module)
        try:
            yield
        finally:
            self._swap(module)

    def _swap(self, module: nn.Module) -> None:
        for name, parameter in module.named_parameters():
            parameter.data, self.averages[name] = self.averages[name], parameter.data

    def state_dict(self) -> dict[str, Any]:
        """What resuming needs, as tensors and numbers."""
        return {"decay": self.decay, "updates": self.updates, "averages": dict(self.averages)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state; the decay is the one given at construction.

        Raises:
            StudioError: other parameters, or other shapes.
        """
        averages: Mapping[str, Tensor] = state["averages"]
        wrong = sorted(averages.keys() ^ self.averages.keys())
        wrong += [name for name, own in self.averages.items() if name in averages and own.shape != averages[name].shape]
        if wrong:
            raise StudioError(
                f"The saved moving average is of another model: {wrong[0]} differs; resume with the run's own config."
            )
        for name, own in self.averages.items():
            own.copy_(averages[name])
        self.updates = int(state["updates"])
