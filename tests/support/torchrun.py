"""torchrun as a person starts it: a launcher with two ranks in the background, and an end to all of them."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from same_runs import lines_of

from train.distributed import VARIABLES

ROOT = Path(__file__).parents[2]
# Every process that comes of a launcher inherits this variable, also those that open a session of their own.
MARK = "STARTED_BY_TEST"


@dataclass(frozen=True)
class Launcher:
    """A launcher that was started, and the file with what it and its ranks print."""

    process: subprocess.Popen[bytes]
    mark: str
    printed: Path

    def ranks(self) -> dict[int, int]:
        """Process ids of the ranks, by rank: those that `pgrep -P LAUNCHER` lists."""
        listed = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True, check=False)
        found = {int(pid): _environment(int(pid)) for pid in listed.stdout.split()}
        return {int(environment["RANK"]): pid for pid, environment in found.items() if "RANK" in environment}

    def wait_for_step(self, run: Path, step: int, seconds: float = 200.0) -> None:
        """Return once step `step` is in the run's log; fails if the launcher ends before, or when time is up."""
        self._until(
            lambda: (run / "log.jsonl").exists() and len(lines_of(run)) >= step, f"step {step} was logged", seconds
        )

    def end(self, seconds: float) -> int:
        """The exit status of the launcher, after which no process of it is left; fails when time is up."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"The launcher did not end within {seconds} seconds:\n{self.told()}") from error
        deadline = time.monotonic() + seconds
        while left := self.left():
            assert time.monotonic() < deadline, f"Processes {left} outlive the launcher:\n{self.told()}"
            time.sleep(0.05)
        return status

    def told(self) -> str:
        """What it and its ranks have printed."""
        return self.printed.read_text(errors="replace")

    def left(self) -> list[int]:
        """Process ids of all that came of this launcher and live."""
        pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
        return [pid for pid in pids if _environment(pid).get(MARK) == self.mark]

    def _until(self, holds: Callable[[], bool], what: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            assert self.process.poll() is None, f"The launcher ended before {what}:\n{self.told()}"
            assert time.monotonic() < deadline, f"{what}: not within {seconds} seconds:\n{self.told()}"
            time.sleep(0.005)


@contextmanager
def torchrun(folder: Path, *arguments: str) -> Iterator[Launcher]:
    """While open, two ranks of `python -m torch.distributed.run --standalone ... ARGUMENTS`, from the project's root.

    Whatever is left of them at the end is killed. What they print goes into a file in `folder`.
    """
    mark = uuid.uuid4().hex
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    environment |= {MARK: mark, "OMP_NUM_THREADS": "1"}
    environment |= {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "tests" / "support")))}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *arguments]
    printed = folder / f"{mark}.txt"
    with printed.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    launcher = Launcher(process, mark, printed)
    try:
        yield launcher
    finally:
        while left := launcher.left():
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.poll()
            time.sleep(0.02)
        process.wait()


def _environment(pid: int) -> dict[str, str]:
    """The environment that a process was started with; empty for one that is gone, or not ours."""
    try:
        content = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (item.partition("=") for item in content.decode(errors="replace").split("\0") if item)
    return {name: value for name, _, value in pairs}
