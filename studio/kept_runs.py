"""Long runs that were left before their end, kept for a while: who asks for the same again goes on where the run was.

A connection that is cut, a page that is loaded anew and Stop all leave a run between two of its passes, where it holds
no lock and no hook. It is kept there as it is, together with what it told last, and one that ended is kept with its
result. Who has the picture and all settings may have it, and nobody else can name it.
"""

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from torch import Tensor

from studio.store import BoundedStore
from studio.upload import Upload

T = TypeVar("T")

KEPT_BYTES = 64 * 2**20
_LEAST = 64 * 2**10  # what a run takes beside arrays and texts, generously


@dataclass(frozen=True)
class RunKey:
    """What a run depends on: the models' names, the picture's, and a hash of the kind of run and all settings."""

    names: tuple[str, ...]
    token: str
    digest: str


@dataclass
class _Run(Generic[T]):
    """A run: the steps that are still to be made, the last that was made, if one was, and whether to keep it."""

    steps: Iterator[T]
    told: list[T] = field(default_factory=list)
    forgotten: bool = False


@dataclass(frozen=True)
class Begun(Generic[T]):
    """A run that begins or goes on.

    Attributes:
        steps: what it tells; one that goes on tells first what it told last.
        remembered: whether it goes on, so that a part of it, or all, is not worked out now.
    """

    steps: Iterator[T]
    remembered: bool

    @property
    def note(self) -> str:
        """Tells that a part comes from memory, so that no time is mistaken; "" of a new run."""
        return "From memory: taken up where the same run was left." if self.remembered else ""


class KeptRuns:
    """The runs that were left last, bounded in bytes, by what they depend on."""

    def __init__(self, weigh: Callable[[RunKey], int], capacity: int = KEPT_BYTES) -> None:
        """Nothing is kept yet.

        Args:
            weigh: bytes of what a run with such a key holds beside what it tells.
            capacity: bytes of all that is kept.
        """
        self._weigh = weigh
        self._runs: BoundedStore[RunKey, _Run[Any]] = BoundedStore(capacity)
        self._going: list[tuple[RunKey, _Run[Any]]] = []
        # Python may close a run that nobody holds any more at any moment, also while this thread is in here.
        self._lock = threading.RLock()

    @property
    def used(self) -> int:
        """Bytes that are kept now."""
        return self._runs.used

    def begin(self, key: RunKey, make: Callable[[], Iterator[T]]) -> Begun[T]:
        """A run that was left, or a new one, which `make` gives. While it goes on nobody else can take it up."""
        with self._lock:
            known = self._runs.get(key)
            self._runs.drop(lambda other: other == key)
            run = known or _Run(make())
            self._going.append((key, run))
        steps = self._steps(key, run)
        next(steps)  # a generator that never began would not put back what it was given
        return Begun(steps, known is not None)

    def forget(self, name: str) -> None:
        """Let go of all runs of a model; those under way go on and are not kept, since they hold its weights."""
        with self._lock:
            for key, run in self._going:
                run.forgotten = run.forgotten or name in key.names
            self._runs.drop(lambda key: name in key.names)

    def _steps(self, key: RunKey, run: _Run[T]) -> Iterator[T]:
        """The steps of a run, after one that is there to begin the generator."""
        try:
            yield None  # pyright: ignore[reportReturnType]
            yield from run.told
            while True:
                try:
                    step = next(run.steps)
                except StopIteration:
                    return
                except BaseException:
                    run.told.clear()  # a run that failed is not taken up again
                    raise
                run.told[:] = [step]
                yield step
        finally:
            size = _LEAST + 2 * _weight(run.told) + self._weigh(key)
            with self._lock:
                self._going = [each for each in self._going if each[1] is not run]
                if run.told and not run.forgotten:
                    self._runs.put(key, run, size)


def run_key(kind: str, names: Sequence[str], picture: Upload, *settings: Any) -> RunKey:
    """The key of a run.

    Args:
        kind: which run.
        names: of the models.
        picture: the picture.
        settings: everything else that its result depends on: plain values, uploads, and lists and dataclasses of them.

    Raises:
        TypeError: a setting of another kind, whose text might not tell all of it.
    """
    told = repr((kind, [_plain(each) for each in settings]))
    return RunKey(tuple(names), picture.token, hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest())


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Upload):
        return ("picture", value.token)
    if isinstance(value, Mapping):
        return ("map", sorted((str(key), repr(_plain(each))) for key, each in value.items()))
    if isinstance(value, Sequence):
        return [_plain(each) for each in value]
    if is_dataclass(value) and not isinstance(value, type):
        return (type(value).__name__, [_plain(getattr(value, each.name)) for each in fields(value)])
    raise TypeError(f"A run cannot be told by {type(value).__name__}: give plain values, uploads or dataclasses.")


def _weight(value: Any) -> int:
    """Bytes of arrays and texts in what a run tells; what models did with the picture is weighed apart."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(_weight, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(_weight, value))
    if is_dataclass(value) and not isinstance(value, type):
        return sum(_weight(getattr(value, each.name)) for each in fields(value) if each.name != "look")
    return 0
