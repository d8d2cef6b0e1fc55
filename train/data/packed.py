"""Many texts in two arrays.

A list of millions of Python strings grows in every worker process: reading an object writes its reference count, and
that copies the page it lies on. Arrays have one count for all.
"""

from array import array
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class PackedTexts:
    """Texts as UTF-8: `content` holds their bytes one after another, text i ends before `ends[i]`."""

    content: NDArray[np.uint8]
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> str:
        start = int(self.ends[index - 1]) if index else 0
        return self.content[start : int(self.ends[index])].tobytes().decode("utf-8", "surrogateescape")


class Packer:
    """Takes texts one by one and packs them."""

    def __init__(self) -> None:
        self._content = bytearray()
        self._ends = array("q")

    def add(self, text: str) -> None:
        """Append a text."""
        self._content += text.encode("utf-8", "surrogateescape")
        self._ends.append(len(self._content))

    def packed(self) -> PackedTexts:
        """All texts so far, in their order."""
        return PackedTexts(np.array(self._content, dtype=np.uint8), np.array(self._ends, dtype=np.int64))
