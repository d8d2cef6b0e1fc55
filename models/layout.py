"""What the tokens of a tower are: a grid of patches behind some prefix tokens, or a sentence."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from models.errors import StudioError


@dataclass(frozen=True)
class TokenGrid:
    """Tokens of a vision tower: `prefix` tokens (CLS first), then `rows` x `cols` patches row by row.

    `registers` of the prefix tokens are registers; a prefix that holds nothing else, or nothing, has no CLS. `readout`
    says what the embedding is made from: the CLS token, or the mean over patches; a pooling head is a layer of its own.
    """

    prefix: int
    rows: int
    cols: int
    registers: int = 0
    readout: Literal["cls", "mean"] = "cls"

    @property
    def cls(self) -> int | None:
        """Index of the CLS token, 0, or None in a tower that reads its patches out in another way."""
        return 0 if self.prefix > self.registers else None

    @property
    def patches(self) -> int:
        """Number of patch tokens, R * C."""
        return self.rows * self.cols

    @property
    def tokens(self) -> int:
        """Number of all tokens, N."""
        return self.prefix + self.patches

    def token(self, row: int, col: int) -> int:
        """Index of the token of the patch at (row, col).

        Raises:
            StudioError: the patch lies outside the grid.
        """
        if not (0 <= row < self.rows and 0 <= col < self.cols):
            raise StudioError(
                f"Patch ({row}, {col}) lies outside the {self.rows} x {self.cols} grid: "
                f"choose row 0-{self.rows - 1} and column 0-{self.cols - 1}."
            )
        return self.prefix + row * self.cols + col


@dataclass(frozen=True)
class TokenSequence:
    """Tokens of a text tower: `tokens` positions, one of which is read out.

    Attributes:
        tokens: number of positions, N.
        causal: whether a position sees only itself and what stands before it.
        pool: which position is read out, in open_clip's words: "argmax" (the highest id, CLIP's end of text),
            "eos" (the first position that holds the id `eos`), "first" or "last".
        eos: the end-of-text id, where `pool` is "eos".
    """

    tokens: int
    causal: bool = True
    pool: Literal["argmax", "eos", "first", "last"] = "argmax"
    eos: int = -1

    def readout(self, ids: Tensor) -> Tensor:
        """The position (B,) that is read out of each row of token ids (B, N)."""
        if self.pool == "argmax":
            return ids.argmax(dim=-1)
        if self.pool == "eos":
            return (ids == self.eos).int().argmax(dim=-1)
        return torch.full(ids.shape[:1], 0 if self.pool == "first" else self.tokens - 1, device=ids.device)
