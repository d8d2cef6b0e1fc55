"""Tar shards -> a source: any sample is two reads at known places, so shards may be of any number and length."""

import glob
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.errors import StudioError
from train.data.config import TarData
from train.data.decode import decode_captions, decode_picture
from train.data.lost import ends_early, lost_samples
from train.data.sample import Reason, Sample, Skip, counted
from train.data.tar_cache import index_shards
from train.data.tar_headers import member_name
from train.data.tar_index import Shard, split_name

_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
_SHOWN = 3


@dataclass(frozen=True, eq=False)
class TarFolder:
    """The usable samples of tar shards, shard by shard in the order of their names."""

    data: TarData
    shards: tuple[Shard, ...]

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """The number of samples up to and with each shard."""
        return np.cumsum([len(shard.records) for shard in self.shards])

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def read(self, index: int, least_side: int = 0) -> Sample | Skip:
        """The picture and the captions of sample `index`."""
        path, record = self.place(index)
        try:
            with path.open("rb", buffering=0) as file:
                file.seek(int(record["caption"]))
                text = file.read(int(record["caption_size"]))
                file.seek(int(record["image"]))
                content = file.read(int(record["image_size"]))
        except OSError:
            return Skip(index, self.key(index), "unreadable file")
        if len(text) < record["caption_size"] or len(content) < record["image_size"]:
            return Skip(index, self.key(index), "tar cut")
        captions = decode_captions(text, self.data.captions[record["caption_kind"]].partition(":")[2])
        if isinstance(captions, str):
            return Skip(index, self.key(index), captions)
        picture = decode_picture(content, least_side)
        if isinstance(picture, str):
            return Skip(index, self.key(index), picture)
        return Sample(picture, captions)

    def place(self, index: int) -> tuple[Path, np.void]:
        """The tar that holds sample `index`, and its RECORD there."""
        number = int(np.searchsorted(self.ends, index, side="right"))
        shard = self.shards[number]
        # From the shard's end; records stay in each shard's own array, one for all would be copied by every worker.
        return Path(shard.path), shard.records[index - int(self.ends[number])]

    def key(self, index: int) -> str:
        """The name of sample `index` as it stands in its tar, after the shard's: "00000.tar:000000017"."""
        path, record = self.place(index)
        parts = split_name(member_name(path, int(record["header"])), self.data.split)
        return f"{path.name}:{parts[0] if parts else index}"

    @property
    def left_out(self) -> Mapping[Reason, int]:
        """Samples that headers show to be unusable, and about as many as were lost with the ends of broken shards."""
        counts: Counter[Reason] = Counter()
        for shard in self.shards:
            counts.update(shard.left_out)
        counts["tar cut"] += lost_samples(self.shards)
        return +counts

    @property
    def examples(self) -> tuple[Skip, ...]:
        """Some of those, one of each reason first."""
        every = [
            Skip(-1, f"{Path(shard.path).name}:{key}", reason)
            for shard in self.shards
            for key, reason in shard.examples
        ]
        every += [Skip(-1, Path(shard.path).name, "tar cut") for shard in self.shards if ends_early(shard)]
        firsts = list({skip.reason: skip for skip in reversed(every)}.values())[::-1]
        return (*firsts, *(skip for skip in every if skip not in firsts))[: max(_SHOWN, len(firsts))]

    def fingerprint(self) -> str:
        """Over names and sizes of the shards and where samples lie in them; not over pixels and captions."""
        digest = hashlib.sha256()
        for shard in self.shards:
            digest.update(shard.digest().encode())
        return digest.hexdigest()

    def describe(self) -> str:
        """What it is, in one line."""
        size = sum(shard.size for shard in self.shards)
        early = sum(shard.end != "whole" for shard in self.shards)
        return (
            f"{self.data.tars}: {counted(len(self.shards), 'tar shard')}, {size / 1e9:,.3f} GB, "
            f"{counted(len(self), 'sample')}{f', shards that end early: {early:,}' if early else ''}"
        )


def open_tars(
    data: TarData, cache: Path | None = None, progress: Callable[[int, int], object] | None = None
) -> TarFolder:
    """Find the shards and index them.

    Args:
        cache: a folder that keeps the index for the next time; None keeps nothing.
        progress: called with (shards done, shards in all).

    Raises:
        StudioError: no shards, a shard of a range is missing, or one is compressed.
    """
    return TarFolder(data, tuple(index_shards(find_shards(data.tars), data, cache, progress)))


def find_shards(tars: str) -> list[Path]:
    """The shards that a setting names: a folder, a file, a pattern or a range; sorted by name.

    Raises:
        StudioError: there are none, one of a range is missing, or some in the folder are compressed.
    """
    span = _RANGE.search(tars)
    if span:
        return _of_range(tars, span)
    path = Path(tars)
    if path.is_dir():
        compressed = sorted(item.name for item in path.iterdir() if re.search(r"\.(tar\.\w+|tgz)$", item.name))
        if compressed:
            raise StudioError(
                f"{tars} holds {len(compressed)} compressed tars, the first is {compressed[0]}: samples cannot be read "
                "from them by position, unpack them to plain .tar (gunzip)."
            )
        found = path.glob("*.tar")
    else:
        found = [path] if path.is_file() else map(Path, glob.glob(tars))
    shards = sorted((item.absolute() for item in found), key=lambda item: (item.name, item))
    if not shards:
        raise StudioError(f"There are no tar shards at {tars}: give a folder of *.tar, or a pattern as 'train-*.tar'.")
    return shards


def _of_range(tars: str, span: re.Match[str]) -> list[Path]:
    first, last = span.groups()
    names = [
        Path(f"{tars[: span.start()]}{number:0{len(first)}d}{tars[span.end() :]}")
        for number in range(int(first), int(last) + 1)
    ]
    missing = [path.name for path in names if not path.is_file()]
    if missing or not names:
        raise StudioError(
            f"{tars}: {len(missing)} of {len(names)} shards are not there"
            f"{f', the first is {missing[0]}' if missing else ''}: fetch them, or give the range that is there."
        )
    return [path.absolute() for path in names]
