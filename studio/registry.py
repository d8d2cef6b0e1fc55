"""Models by name, the last used of them in memory; those that can be loaded again come back by themselves."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from models import LoadedModel, StudioError
from studio.store import BoundedStore

# Of models that people brought; of each only a few words are kept once its weights are let go.
_KNOWN = 500


@dataclass(frozen=True)
class Entry:
    """What is known of a model whether or not its weights are in memory.

    Attributes:
        title: how a person reads it.
        folder: where its log may lie, or None for an upload.
        load: loads it again, or None for an upload, which is gone from the server.
        sha256: of the weights file, where that was worked out when it came.
    """

    title: str
    folder: Path | None
    load: Callable[[], LoadedModel] | None
    sha256: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock, compare=False)


class Registry:
    """Models by name. Those of the start are always known; others are known once they were brought.

    One who loads a model keeps nobody waiting but those who ask for the same one.
    """

    def __init__(self, capacity: int, let_go: Callable[[str], None] = lambda name: None) -> None:
        """`capacity` in bytes of weights; `let_go` is told the name of each model whose weights leave the memory."""
        self._models: BoundedStore[str, LoadedModel] = BoundedStore(capacity)
        self._first: dict[str, Entry] = {}
        self._brought: BoundedStore[str, Entry] = BoundedStore(_KNOWN)
        self._let_go = let_go

    @property
    def used(self) -> int:
        """Bytes of weights in memory."""
        return self._models.used

    @property
    def names(self) -> list[str]:
        """Names of the models of the start; what others brought is theirs and not told."""
        return list(self._first)

    def titled(self, title: str, name: str) -> Entry | None:
        """Another model than `name` that was brought under this title, also where its weights were let go, or None.

        None too if the title is that of `name` itself, which comes again.
        """
        own = self._brought.get(name)
        if own is not None and own.title == title:
            return None
        return next((entry for entry in self._brought.values() if entry.title == title), None)

    def start_with(self, name: str, entry: Entry) -> None:
        """Make a model known to everyone."""
        self._first[name] = entry

    def entry(self, name: str) -> Entry | None:
        """What is known of a model, or None."""
        # A raw request may send anything in the place of a name.
        return self._first.get(name) or self._brought.get(name) if isinstance(name, str) else None

    def held(self, name: str) -> LoadedModel | None:
        """The model if its weights are in memory."""
        return self._models.get(name) if isinstance(name, str) else None

    def bring(self, name: str, entry: Entry, model: LoadedModel) -> None:
        """Keep a model that was just loaded, for those who know its name.

        Raises:
            StudioError: it is larger than all that may be kept.
        """
        size = model_bytes(model)
        if size > self._models.capacity:
            raise StudioError(
                f"{entry.title} has {size / 2**30:.1f} GiB of weights, and this page keeps "
                f"{self._models.capacity / 2**30:.1f} GiB: choose a smaller model."
            )
        self._brought.put(name, entry, 1)
        self._keep(name, model, size)

    def model(self, name: str) -> LoadedModel:
        """The model of that name, loaded again if need be.

        Raises:
            StudioError: there is none of that name, its checkpoint is broken, or it was an upload and was let go.
        """
        model = self.held(name)
        if model is not None:
            return model
        entry = self.entry(name)
        if entry is None:
            raise StudioError(
                f"There is no model {str(name)[:80]!r} here: choose {', '.join(self.names)}, or bring one."
            )
        if entry.load is None:
            raise StudioError(f"{entry.title} was let go to make room for other models: bring its file again.")
        with entry.lock:
            model = self._models.get(name)
            if model is None:
                model = entry.load()
                self._keep(name, model, model_bytes(model))
            return model

    def _keep(self, name: str, model: LoadedModel, size: int) -> None:
        for gone in self._models.put(name, model, size):
            if gone != name:
                self._let_go(gone)


def model_bytes(model: LoadedModel) -> int:
    """Bytes of a model's weights in memory."""
    tensors = (*model.module.parameters(), *model.module.buffers())
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
