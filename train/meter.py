"""How fast a run goes: what the WALL_CLOCK fields of a log line hold."""

import sys
import time
from dataclasses import dataclass

import torch

from train.logbook import rounded


@dataclass(frozen=True)
class Meter:
    """Turns a step's times into numbers.

    Attributes:
        batch: samples a step over all devices.
        devices: number of processes.
        flops: operations that training takes for a sample.
        rate: operations a second that one device was measured to do in matrix products; 0 where it was not.
    """

    batch: int
    devices: int
    device: torch.device
    flops: int
    rate: float

    def entries(self, began: float, received: float) -> dict[str, float]:
        """Of a step that began to wait for data at `began`, received them at `received`, and is done now.

        "data_wait" is the share of the time that was waited for data, "mfu" the share of the measured rate that went
        into the model's own matrix products, "memory_mib" the highest use so far: of the GPU, or of this process.
        """
        seconds = max(time.perf_counter() - began, 1e-9)
        each = self.batch / seconds / self.devices
        numbers = {
            "seconds": rounded(seconds),
            "samples_per_second": round(self.batch / seconds, 1),
            "samples_per_second_per_device": rounded(each),
            "data_wait": round((received - began) / seconds, 4),
            "memory_mib": round(peak_memory(self.device) / 2**20),
        }
        if self.rate:
            numbers["mfu"] = rounded(each * self.flops / self.rate)
        return numbers


def peak_memory(device: torch.device) -> int:
    """Bytes: the most that PyTorch held on a GPU, or that this process held of main memory."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if sys.platform == "win32":
        return 0  # which has no such count
    import resource

    # In kibibytes, but for macOS.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
