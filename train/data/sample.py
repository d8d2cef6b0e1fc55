"""What a source of captioned pictures is: samples by index, each either read or skipped for a stated reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from PIL import Image

Reason = Literal[
    "no caption",
    "empty caption",
    "caption not text",
    "no image",
    "not a picture",
    "truncated picture",
    "damaged picture",
    "too large",
    "dots in the name",
    "tar cut",
    "unreadable file",
]
REASONS: tuple[Reason, ...] = get_args(Reason)


@dataclass(frozen=True, eq=False)
class Sample:
    """An upright RGB picture and its captions, at least one, each with text in it."""

    picture: Image.Image
    captions: tuple[str, ...]


@dataclass(frozen=True)
class Skip:
    """A sample that cannot be used. `index` is -1 for one that was left out before it got a number."""

    index: int
    key: str
    reason: Reason


class Source(Protocol):
    """Samples 0 to len - 1, each readable by itself and in any process, so that any order can be made of them."""

    def __len__(self) -> int:
        """Number of samples that have a number; those in `left_out` have none."""
        ...

    def read(self, index: int, least_side: int = 0) -> Sample | Skip:
        """Sample `index`.

        A `least_side` above 0 allows a JPEG to be decoded at a half, a quarter or an eighth of its size, as long as
        both sides keep at least that many pixels; 0 decodes it whole.
        """
        ...

    @property
    def left_out(self) -> Mapping[Reason, int]:
        """How many samples are known to be unusable without reading them, by reason."""
        ...

    @property
    def examples(self) -> tuple[Skip, ...]:
        """Some of those that are left out."""
        ...

    def fingerprint(self) -> str:
        """A sha256 that changes when the data do; what it covers is said by each source."""
        ...

    def describe(self) -> str:
        """What it is, for a person, in one line."""
        ...


def counted(count: int, noun: str) -> str:
    """ "1 shard", "1,234 shards"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def told(counts: Mapping[Reason, int]) -> str:
    """Counts by reason for a person, the most frequent first: "3 no caption, 1 too large"; or "none"."""
    some = sorted((item for item in counts.items() if item[1]), key=lambda item: -item[1])
    return ", ".join(f"{count:,} {reason}" for reason, count in some) or "none"
