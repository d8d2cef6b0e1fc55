"""The step log: one JSON object a line, written as the run goes, cut back to the resumed step.

A line holds "step" and "samples" so far, "image_size", "loss" of the global batch, "lr", "logit_scale", "grad_norm"
before clipping, "valid" samples; "lambda" and "lambda_terms" of differential towers; "norms" and "probe" every so many
steps; "unprobed" with the reason, at the step from which on nothing is probed; "ema_decay" with a moving average,
"loss_scale" in float16; "skipped" with the reason, where a step was left out; "unusable", samples so far by reason; and
the WALL_CLOCK fields, of `train.meter`: "data_wait" is the share of "seconds" in which the step had to wait for its
batch, and that time counts in "samples_per_second" too.
"""

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from models.build import ClipModule, text_blocks, vision_blocks
from models.diff_attention import DifferentialAttention
from models.errors import StudioError
from train.durable import sync_folder, write_whole, writing
from train.ema import Ema
from train.finite import layer_of

# What differs between two runs that are the same otherwise.
WALL_CLOCK = ("seconds", "samples_per_second", "samples_per_second_per_device", "data_wait", "mfu", "memory_mib")


class Logbook:
    """Appends lines to `path`; at construction, lines of steps after `step` are dropped."""

    def __init__(self, path: Path, step: int) -> None:
        lines, broken = _lines_of(path) if path.exists() else ([], [])
        for number in broken:
            print(f"warning: line {number} of {path} cannot be read and is left out.", file=sys.stderr)
        kept = [line for line in lines if line["step"] <= step]
        self.path = path
        self.last: dict[str, Any] | None = kept[-1] if kept else None
        with writing(path):
            write_whole(path, "".join(json.dumps(line) + "\n" for line in kept))
            sync_folder(path.parent)
            self._file = path.open("a", encoding="utf-8")

    def write(self, line: dict[str, Any]) -> None:
        """Append one line and hand it to the operating system at once; what is not finite becomes null.

        Raises:
            StudioError: the disk is full, or the file cannot be written.
        """
        with writing(self.path):
            self._file.write(json.dumps(_finite(line), allow_nan=False) + "\n")
            self._file.flush()
        self.last = line

    def sync(self) -> None:
        """Flush to the disk, so that a state that is saved afterwards is never ahead of its log.

        Raises:
            StudioError: the disk is full, or the file cannot be written.
        """
        with writing(self.path):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file; what could not be written was told when it was."""
        with suppress(OSError):
            self._file.close()


def read_log(path: Path) -> list[dict[str, Any]]:
    """The lines of a step log; those that cannot be read are left out, as a last one that was cut while written."""
    return _lines_of(path)[0]


def _lines_of(path: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """The lines, and the numbers (from 1) of those that cannot be read, but for a last one that was cut."""
    lines, broken = [], []
    try:
        texts = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        raise StudioError(
            f"{path} cannot be read ({error.strerror or error}): make it readable, or move it away."
        ) from error
    for number, text in enumerate(texts, start=1):
        try:
            line = json.loads(text)
        except ValueError:
            line = None
        if isinstance(line, dict) and isinstance(line.get("step"), int):
            lines.append(line)
        elif number < len(texts):
            broken.append(number)
    return lines, broken


def _finite(value: Any) -> Any:
    """JSON knows no NaN and no infinity."""
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def rounded(value: float) -> float:
    """Five digits, as many as a curve shows."""
    return float(f"{value:.5g}")


@torch.no_grad()
def lambda_entries(model: ClipModule) -> dict[str, dict[str, list[Any]]]:
    """lambda and its two exponential terms, of every differential layer of both towers; empty for CLIP.

    `lambda_terms` are exp(q1 . k1) and exp(q2 . k2); lambda is their difference plus lambda_init.
    """
    values: dict[str, list[Any]] = {}
    terms: dict[str, list[Any]] = {}
    for tower, blocks in (("vision", vision_blocks(model)), ("text", text_blocks(model))):
        modules = [block.attn for block in blocks if isinstance(block.attn, DifferentialAttention)]
        if modules:
            # One copy from the device for all layers.
            pairs = torch.stack([torch.stack(module.lambda_terms()) for module in modules]).tolist()
            lams = torch.stack([module.lam() for module in modules]).tolist()
            values[tower] = [round(lam, 6) for lam in lams]
            terms[tower] = [[round(term, 6) for term in pair] for pair in pairs]
    return {"lambda": values, "lambda_terms": terms} if values else {}


@torch.no_grad()
def weight_norms(clip: ClipModule, before: Mapping[str, Tensor] | None = None) -> dict[str, float]:
    """L2 norm of every layer's weights, or of what they are away from `before`; layers by `finite.layer_of`."""
    layer = layer_of(clip)
    named = list(clip.named_parameters())
    norms = torch.stack([(p - before[n] if before else p).norm(dtype=torch.float64) for n, p in named]).tolist()
    squares: dict[str, float] = {}
    for (name, _), norm in zip(named, norms, strict=True):
        squares[layer(name)] = squares.get(layer(name), 0.0) + norm**2
    return {label: rounded(square**0.5) for label, square in squares.items()}


def average_entry(ema: Ema | None) -> dict[str, float]:
    """The share of the moving average that the next update keeps, where there is one."""
    return {"ema_decay": rounded(ema.next_decay())} if ema else {}
