"""The step log: one JSON object a line, written as the run goes, cut back to the resumed step."""

import json
import os
from pathlib import Path
from typing import Any

import torch

from models.build import CLIP, text_blocks, vision_blocks
from models.diff_attention import DifferentialAttention


class Logbook:
    """Appends lines to `path`; at construction, lines of steps after `step` are dropped."""

    def __init__(self, path: Path, step: int) -> None:
        kept = [line for line in read_log(path) if line["step"] <= step] if path.exists() else []
        partial = path.with_suffix(".tmp")
        partial.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
        os.replace(partial, path)
        self._file = path.open("a", encoding="utf-8")

    def write(self, line: dict[str, Any]) -> None:
        """Append one line and hand it to the operating system at once."""
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_log(path: Path) -> list[dict[str, Any]]:
    """The lines of a step log; a last line that was cut off while it was written is left out."""
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(text))
        except ValueError:
            break
    return lines


@torch.no_grad()
def lambda_entries(model: CLIP) -> dict[str, dict[str, list[Any]]]:
    """lambda and its two exponential terms, of every differential layer of both towers; empty for CLIP.

    `lambda_terms` are exp(q1 . k1) and exp(q2 . k2); lambda is their difference plus lambda_init.
    """
    values: dict[str, list[Any]] = {}
    terms: dict[str, list[Any]] = {}
    for tower, blocks in (("vision", vision_blocks(model)), ("text", text_blocks(model))):
        modules = [block.attn for block in blocks if isinstance(block.attn, DifferentialAttention)]
        if modules:
            values[tower] = [round(float(module.lam()), 6) for module in modules]
            terms[tower] = [[round(float(t), 6) for t in module.lambda_terms()] for module in modules]
    return {"lambda": values, "lambda_terms": terms} if values else {}
