"""A least-recently-used store with a limit in bytes, safe for many threads."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedStore(Generic[K, V]):
    """Keeps the values that were used last, at most `capacity` bytes of them.

    A count of entries says little where one recording takes 2 MB and another 200 MB; bytes are what runs out.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._used = 0
        # Not a plain lock: what Python lets go of in the midst of this may have something to put here in its turn.
        self._lock = threading.RLock()

    @property
    def used(self) -> int:
        """Bytes that are kept now."""
        return self._used

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """The value of `key`, which thereby is the last used, or None if it is not kept."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: K, value: V, nbytes: int) -> tuple[K, ...]:
        """Keep `value`, which takes `nbytes`, and let go of the least recently used beyond the capacity.

        A value larger than the whole capacity is not kept.

        Returns:
            The keys that are no longer kept, `key` itself among them if its value is too large.
        """
        with self._lock:
            self._let_go(key)
            if nbytes > self.capacity:
                return (key,)
            self._entries[key] = value, nbytes
            self._used += nbytes
            gone = []
            while self._used > self.capacity:
                other = next(iter(self._entries))
                self._let_go(other)
                gone.append(other)
            return tuple(gone)

    def values(self) -> list[V]:
        """What is kept, the last used at the end, and this is no use."""
        with self._lock:
            return [value for value, _ in self._entries.values()]

    def drop(self, where: Callable[[K], bool]) -> None:
        """Let go of every value whose key is as `where` says."""
        with self._lock:
            for key in list(self._entries):
                if where(key):
                    self._let_go(key)

    def _let_go(self, key: K) -> None:
        """Let go of a value, if it is kept; it is freed when all is counted, for that may put another one here."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._used -= entry[1]
