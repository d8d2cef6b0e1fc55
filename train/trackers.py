"""Where the log goes beside its file: TensorBoard, Weights & Biases, trackio. None of them can stop or delay a run.

Each tracker lives on a thread of its own with a short queue. Whatever it raises is told once and ends it; while it
hangs, lines are dropped, and at the end it has ten seconds to send what it holds. The file has every line anyway.
"""

import hashlib
import importlib
import netrc
import os
import queue
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol
from urllib.parse import urlsplit

from train.settings import TrackerName

QUEUE, OPENING, CLOSING = 1000, 30.0, 10.0


class Tracker(Protocol):
    """Something that keeps numbers by step."""

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Take the numbers of a step."""
        ...

    def close(self) -> None:
        """Send what is left."""
        ...


@dataclass(frozen=True)
class About:
    """What a tracker is told of the run.

    Attributes:
        project: what it is filed under.
        settings: its record.
        step: after how many steps it goes on; trackers that can forget later ones do.
    """

    run: Path
    name: str
    project: str
    settings: Mapping[str, Any]
    step: int = 0

    @property
    def key(self) -> str:
        """The same at every start of a run, another for every other run."""
        return hashlib.sha256(f"{self.name}:{self.run.absolute()}".encode()).hexdigest()[:12]


class _TensorBoard:
    def __init__(self, about: About) -> None:
        module = importlib.import_module("torch.utils.tensorboard")
        self._writer = module.SummaryWriter(str(about.run / "tensorboard"), purge_step=about.step + 1)

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class _Wandb:
    def __init__(self, about: About) -> None:
        wandb = importlib.import_module("wandb")
        # Without a key it would ask for one on the terminal; offline files can be sent later with `wandb sync`.
        mode = os.environ.get("WANDB_MODE") or (None if _has_wandb_key() else "offline")
        self._run = wandb.init(
            project=about.project,
            name=about.name,
            id=about.key,
            resume="allow",
            dir=str(about.run),
            config=dict(about.settings),
            mode=mode,
        )

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        self._run.log(dict(numbers), step=step)

    def close(self) -> None:
        self._run.finish()


def _has_wandb_key() -> bool:
    """Whether `wandb login` was done for the service that is used, or the environment has the key."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai").netloc.partition(":")[0]
    try:
        return netrc.netrc().authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


class _Trackio:
    def __init__(self, about: About) -> None:
        self._trackio = importlib.import_module("trackio")
        name = f"{about.name}-{about.key}"
        self._trackio.init(project=about.project, name=name, config=dict(about.settings), resume="allow")

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        self._trackio.log(dict(numbers), step=step)

    def close(self) -> None:
        self._trackio.finish()


OPENERS: Mapping[TrackerName, Callable[[About], Tracker]] = MappingProxyType(
    {"tensorboard": _TensorBoard, "wandb": _Wandb, "trackio": _Trackio}
)


class Guarded:
    """A tracker on a thread of its own; no call raises, and none waits longer than its bound."""

    def __init__(self, name: str, opener: Callable[[About], Tracker], about: About, opening: float = OPENING) -> None:
        self.name = name
        self._lines: queue.Queue[tuple[dict[str, float], int] | None] = queue.Queue(QUEUE)
        self._opened, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(opener, about), name=f"tracker {name}", daemon=True)
        self._thread.start()
        # It imports and opens before processes are forked, which must not happen in the middle of an import.
        if not self._opened.wait(opening):
            self._tell(f"has not answered for {opening:g} seconds; the run does not wait for it.")

    @property
    def is_over(self) -> bool:
        """Whether it failed or was closed."""
        return self._over.is_set()

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Hand over the numbers of a step; they are dropped where the tracker lags a thousand steps behind."""
        self._put((dict(numbers), step))

    def close(self, seconds: float = CLOSING) -> None:
        """Let it send what it holds, for so many seconds at most."""
        self._put(None)
        if not self.is_over:
            self._thread.join(seconds)
            if self._thread.is_alive():
                self._tell(f"did not finish within {seconds:g} seconds.")

    def _put(self, item: tuple[dict[str, float], int] | None) -> None:
        if self.is_over:
            return
        try:
            self._lines.put_nowait(item)
        except queue.Full:
            return

    def _serve(self, opener: Callable[[About], Tracker], about: About) -> None:
        try:
            tracker = opener(about)
            self._opened.set()
            while (item := self._lines.get()) is not None:
                tracker.log(*item)
            tracker.close()
        except BaseException as error:  # some of them leave with SystemExit
            reason = " ".join(str(error).split()) or type(error).__name__
            advice = f": pip install {self.name}" if isinstance(error, ImportError) else ""
            self._tell(f"is left out from here on ({type(error).__name__}: {reason}){advice}.")
        finally:
            self._over.set()
            self._opened.set()

    def _tell(self, what: str) -> None:
        print(f"warning: {self.name} {what} log.jsonl has every line.", file=sys.stderr)


def open_trackers(names: Sequence[TrackerName], about: About) -> list[Guarded]:
    """The trackers of these names."""
    return [Guarded(name, OPENERS[name], about) for name in names]


def flat(line: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """A log line as numbers by path: {"norms": {"vision block 0": 1}} is {"norms/vision block 0": 1}."""
    numbers: dict[str, float] = {}
    for key, value in line.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            numbers |= flat(value, f"{path}/")
        elif isinstance(value, list | tuple):
            numbers |= flat({str(index): item for index, item in enumerate(value)}, f"{path}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            numbers[path] = float(value)
    return numbers
