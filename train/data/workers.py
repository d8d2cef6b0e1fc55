"""Worker processes that read ahead: deaf to the signals that stop a run, gone when whoever asked for them is done."""

import multiprocessing
import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from torch.utils.data import DataLoader, Dataset, Sampler

from train.signals import STOPPING

PREFETCH = 2
_SECONDS = 5.0

T = TypeVar("T")


def read_by_workers(
    dataset: Dataset[T], slots: Sampler[Any] | None, workers: int, pin: bool = False
) -> Generator[T, None, None]:
    """The items of a dataset in order, or of its `slots`, each made as a whole by one of `workers` processes.

    Workers start with the first item and end when the iterator is closed or exhausted, whatever the reason: whoever may
    leave it early closes it, best with `contextlib.closing`, since a traceback keeps alive what is merely dropped. A
    worker that does not end by itself is killed.
    """
    loader = DataLoader(
        dataset,
        batch_size=None,
        sampler=slots,
        num_workers=workers,
        collate_fn=_as_it_is,
        pin_memory=pin,
        worker_init_fn=_ignore_signals,
        prefetch_factor=PREFETCH,
    )
    others = set(multiprocessing.active_children())
    with _held_back():
        iterator = iter(loader)
    started = set(multiprocessing.active_children()) - others
    try:
        yield from iterator
    finally:
        # What its destructor does, which comes too late where a traceback holds the iterator.
        iterator._shutdown_workers()  # type: ignore[attr-defined]
        for worker in started:
            worker.kill()
        for worker in started:
            worker.join(_SECONDS)


@contextmanager
def _held_back() -> Iterator[None]:
    """Processes that start meanwhile are born deaf to stop signals, which this one gets afterwards."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ignore_signals(_: int) -> None:
    """A stop is the main process's to handle: workers save nothing, and without them it could not end its step."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)


def _as_it_is(batch: Any) -> Any:
    return batch
