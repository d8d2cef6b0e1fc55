"""The samples of tar shards as arrays: where each one's picture and caption lie.

Members with one key are one sample, in whatever order they stand. The key is webdataset's: the folder, and the base
name up to its first dot; `a/001.jpg` and `a/001.txt` are sample `a/001`. Base names that begin with a dot, or as
`__meta__.json`, belong to no sample.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from train.data.config import KeyRule, TarData
from train.data.decode import MAX_BYTES
from train.data.sample import Reason
from train.data.tar_headers import End, Member, read_headers

RECORD = np.dtype(
    [
        ("header", "<i8"),  # of the picture, from which its name is read when it is wanted
        ("image", "<i8"),
        ("image_size", "<u4"),
        ("caption", "<i8"),
        ("caption_size", "<u4"),
        ("caption_kind", "u1"),  # place in TarData.captions
    ]
)
_SHOWN = 3


@dataclass(frozen=True, eq=False)
class Shard:
    """What the headers of one tar say.

    Attributes:
        path, size, changed: the file, its bytes, and its time of change in ns.
        records: one RECORD a usable sample, in the order of their first members.
        left_out: samples that cannot be used, by reason.
        examples: (key or name, reason) of some of them.
        first: key of the first usable sample, or "".
        end, at: how and where the tar ends.
    """

    path: str
    size: int
    changed: int
    records: NDArray[np.void]
    left_out: Mapping[Reason, int]
    examples: tuple[tuple[str, Reason], ...]
    first: str
    end: End
    at: int

    def digest(self) -> str:
        """Over its name, its size and where its samples lie."""
        digest = hashlib.sha256(f"{Path(self.path).name}\0{self.size}\0".encode("utf-8", "surrogateescape"))
        digest.update(self.records.tobytes())
        return digest.hexdigest()


@dataclass
class _Found:
    """The members of one key so far."""

    image: Member | None = None
    caption: Member | None = None
    rank: int = 255
    dotted: list[str] = field(default_factory=list)


def split_name(name: str, rule: KeyRule) -> tuple[str, str] | None:
    """(key, extension in lower case) of a member's name, or None if it belongs to no sample."""
    name = name.removeprefix("./")
    folder, slash, base = name.rpartition("/")
    if base.startswith(".") or "." not in base:
        return None
    stem, _, extension = base.partition(".") if rule == "first dot" else base.rpartition(".")
    if stem.startswith("__") and stem.endswith("__"):
        return None
    return folder + slash + stem, extension.lower()


def index_shard(path: Path, data: TarData) -> Shard:
    """Read the headers of one tar and group its members.

    Raises:
        StudioError: it is compressed, or cannot be opened.
    """
    status = path.stat()
    headers = read_headers(path)
    kinds = [f".{kind}".rpartition(".")[2].partition(":")[0].lower() for kind in data.captions]
    found: dict[str, _Found] = {}
    last = ""
    for member in headers.members:
        parts = split_name(member.name, data.split)
        if parts:
            last, extension = parts
            _put(found.setdefault(last, _Found()), member, extension, data.images, kinds)
    cut = split_name(headers.cut, data.split)
    last = cut[0] if cut else last
    if cut:
        found.setdefault(last, _Found())

    rows: list[tuple[int, int, int, int, int, int]] = []
    left_out: Counter[Reason] = Counter()
    examples: list[tuple[str, Reason]] = []
    first = ""
    for key, sample in found.items():
        reason, count = _unusable(sample, headers.end != "whole" and key == last)
        if reason:
            left_out[reason] += count
            if len(examples) < _SHOWN:
                examples.append((sample.dotted[0] if reason == "dots in the name" else key, reason))
            continue
        image, caption = sample.image, sample.caption
        assert image is not None
        assert caption is not None
        first = first or key
        rows.append((image.header, image.data, image.size, caption.data, caption.size, sample.rank))
    records = np.array(rows, dtype=RECORD)
    return Shard(
        str(path), status.st_size, status.st_mtime_ns, records, dict(left_out), tuple(examples), first,
        headers.end, headers.at,
    )  # fmt: skip


def _put(sample: _Found, member: Member, extension: str, images: tuple[str, ...], kinds: list[str]) -> None:
    """Add a member to its sample; of two pictures or two captions of one kind the first counts."""
    if extension in images:
        sample.image = sample.image or member
    elif extension in kinds:
        rank = kinds.index(extension)
        if sample.caption is None or (member.size > 0, -rank) > (sample.caption.size > 0, -sample.rank):
            sample.caption, sample.rank = member, rank
    elif extension.rpartition(".")[2] in images:
        sample.dotted.append(member.name)


def _unusable(sample: _Found, ends_in_it: bool) -> tuple[Reason | None, int]:
    """Why a sample cannot be used, and how many samples that are."""
    if sample.image and sample.caption:
        if max(sample.image.size, sample.caption.size) > MAX_BYTES:
            return "too large", 1
        if not sample.image.size:
            return "no image", 1
        return (None, 0) if sample.caption.size else ("empty caption", 1)
    if ends_in_it:
        return "tar cut", 1
    if sample.image:
        return "no caption", 1
    return ("dots in the name", len(sample.dotted)) if sample.dotted else ("no image", 1)
