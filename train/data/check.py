"""What `python -m train check-data` finds: what data are there, what is wrong with them, and counts, within seconds."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from statistics import median

from models.errors import StudioError
from train.data.config import CsvData, Data, TarData
from train.data.csv_folder import open_csv
from train.data.order import epoch_order
from train.data.remarks import several_kinds
from train.data.sample import Reason, Sample, Skip, Source, counted, told
from train.data.skips import shown
from train.data.tar_headers import BLOCK
from train.data.tar_index import Shard, index_shard
from train.data.tars import TarFolder, find_shards

DECODED = 300  # samples that are read as training would read them
SHOWN = 3


@dataclass(frozen=True)
class Effort:
    """How much is looked at: all headers or rows if `full`, or as many as `seconds` allow; then pictures as long."""

    full: bool = False
    seconds: float = 5.0


@dataclass(frozen=True)
class Report:
    """Lines for a person, and what of it stands in the way of training."""

    lines: tuple[str, ...]
    problems: tuple[str, ...]

    def text(self) -> str:
        """The whole report, with its verdict at the end."""
        verdict = ["verdict: these data can be trained on."]
        if self.problems:
            verdict = [f"verdict: repair this first ({len(self.problems)}):", *(f"  - {it}" for it in self.problems)]
        return "\n".join([*self.lines, *verdict])


def check(data: Data, limit: float, effort: Effort = Effort()) -> Report:
    """Look at tars or a CSV. `limit` is the share of samples that training may skip.

    Raises:
        StudioError: there is nothing to look at, or the data are of a kind that cannot be broken.
    """
    match data:
        case TarData():
            return check_tars(data, limit, effort)
        case CsvData():
            return check_csv(data, limit, effort)
        case _:
            raise StudioError("Scenes are drawn as they are asked for: there is nothing to check.")


def check_tars(data: TarData, limit: float, effort: Effort) -> Report:
    """The headers of shards spread over the whole, sizes of the others, and pictures spread over what was scanned.

    Raises:
        StudioError: no shards, or compressed ones.
    """
    paths = _shards_at(data.tars)
    shards, took = _scan(paths, data, effort)
    source = TarFolder(data, tuple(shards))
    every = len(shards) == len(paths)
    sizes = [path.stat().st_size for path in paths]
    kinds = Counter[str]()
    for shard in shards:
        for kind, count in enumerate(_kind_counts(shard, len(data.captions))):
            kinds[data.captions[kind]] += count
    lines = [
        f"{data.tars}: {counted(len(paths), 'tar shard')}, {_bytes(sum(sizes))}, "
        f"each {_bytes(min(sizes))} to {_bytes(max(sizes))}",
        f"scanned: the headers of {len(shards):,} of {counted(len(paths), 'shard')} in {took:.1f} s"
        + ("" if every else ", spread over the whole; of the others only the sizes (--full scans all)"),
        f"samples: {len(source):,} usable in these"
        + ("" if every else f", about {_estimate(shards, sum(sizes)):,} in all"),
        f"first keys: {', '.join(source.key(i) for i in range(min(SHOWN, len(source)))) or 'none'}",
        *several_kinds(paths),
        f"captions from: {', '.join(f'{kind} {count:,}' for kind, count in kinds.items() if count) or 'none'}",
        f"left out: {told(source.left_out)}{shown(source.examples)}",
    ]
    problems = [*_ends(shards, paths, sizes), *_joined(shards), *_left_out(source, limit)]
    if source.left_out.get("dots in the name"):
        problems.append(
            "names with more than one dot: a key ends at the first dot of the base name, as webdataset has it, so "
            'these have no picture; the setting split="last dot" reads them'
        )
    more, wrong = _decode(source, limit, effort)
    fingerprint = source.fingerprint() if every else "needs all headers (--full)"
    return Report((*lines, *more, f"fingerprint: {fingerprint}"), (*problems, *wrong))


def check_csv(data: CsvData, limit: float, effort: Effort) -> Report:
    """The table, from its start as far as the time allows, and pictures spread over that.

    Raises:
        StudioError: see `open_csv`.
    """
    began = time.monotonic()
    source = open_csv(data, lambda: not effort.full and time.monotonic() - began > effort.seconds)
    took, whole = time.monotonic() - began, source.share == 1.0
    about = int(float(f"{len(source) / source.share:.2g}"))
    lines = (
        source.describe(),
        (
            f"scanned: all rows in {took:.1f} s"
            if whole
            else f"scanned: the first of about {about:,} rows in {took:.1f} s (--full scans all)"
        )
        + "; whether pictures are there, of those decoded below",
        f"first paths: {', '.join(source.paths[i] for i in range(min(SHOWN, len(source)))) or 'none'}",
        f"left out: {told(source.left_out)}{shown(source.examples)}",
    )
    more, wrong = _decode(source, limit, effort)
    problems = (*_left_out(source, limit), *wrong)
    fingerprint = source.fingerprint() if whole else "needs all rows (--full)"
    return Report((*lines, *more, f"fingerprint: {fingerprint}"), problems)


def _shards_at(tars: str) -> list[Path]:
    """The shards, or a sentence that says what is there instead."""
    folder = Path(tars)
    if folder.is_dir() and not any(folder.glob("*.tar")):
        found = Counter(path.suffix.lower() or path.name for path in folder.iterdir())
        tables = sorted(path.name for path in folder.iterdir() if path.suffix.lower() in (".csv", ".tsv"))
        if tables:
            raise StudioError(f"{tars} holds no tars but {', '.join(tables[:SHOWN])}: give the path of that file.")
        if not found.keys() & {".tgz", ".gz"}:
            listed = ", ".join(f"{count:,} {kind}" for kind, count in found.most_common(SHOWN)) or "nothing"
            raise StudioError(
                f"{tars} holds no tars ({listed}): give a folder of *.tar, or a CSV with a column of paths and one of "
                "captions."
            )
    return find_shards(tars)


def _scan(paths: Sequence[Path], data: TarData, effort: Effort) -> tuple[list[Shard], float]:
    """Indices of the first shard and of others, in the order of their names, until the time is over."""
    began = time.monotonic()
    order = [0, *(int(i) for i in epoch_order(len(paths), 0, 0) if i)]
    shards: dict[int, Shard] = {}
    for number in order:
        if shards and not effort.full and time.monotonic() - began > effort.seconds:
            break
        shards[number] = index_shard(paths[number], data)
    return [shards[number] for number in sorted(shards)], time.monotonic() - began


def _kind_counts(shard: Shard, kinds: int) -> list[int]:
    return [int((shard.records["caption_kind"] == kind).sum()) for kind in range(kinds)]


def _estimate(shards: Sequence[Shard], total: int) -> int:
    """Usable samples in all shards, by the bytes a sample takes in the scanned ones; two digits are meant."""
    count = sum(len(shard.records) for shard in shards)
    about = count / max(1, sum(shard.size for shard in shards)) * total
    return int(float(f"{about:.2g}"))


def _ends(shards: Sequence[Shard], paths: Sequence[Path], sizes: Sequence[int]) -> list[str]:
    """Shards that end early, by their headers or, where those were not read, by a size that no tar has."""
    early = [
        f"{Path(shard.path).name} ({shard.end} at byte {shard.at:,} of {shard.size:,})"
        for shard in shards
        if shard.end != "whole"
    ]
    scanned = {shard.path for shard in shards}
    early += [
        f"{path.name} ({size:,} bytes, no multiple of {BLOCK})"
        for path, size in zip(paths, sizes, strict=True)
        if str(path) not in scanned and (size % BLOCK or not size)
    ]
    if not early:
        return []
    more = f" and {len(early) - SHOWN:,} more" if len(early) > SHOWN else ""
    return [
        f"shards that end early, so that what came after is lost: {len(early):,}; fetch them again: "
        f"{', '.join(early[:SHOWN])}{more}"
    ]


def _joined(shards: Sequence[Shard]) -> list[str]:
    """Advice about tars that go on behind an end mark."""
    if not any(shard.end == "more behind its end mark" for shard in shards):
        return []
    return [
        "tars that were joined end to end are read up to the first one's end mark: keep them apart, or join them with "
        "`tar --concatenate`"
    ]


def _left_out(source: Source, limit: float) -> list[str]:
    count = sum(source.left_out.values())
    if not len(source):
        return ["no sample has both a picture and a caption"]
    if count <= limit * (count + len(source)):
        return []
    return [f"{count / (count + len(source)):.1%} of the samples cannot be used, {limit:.1%} may be skipped"]


def _decode(source: Source, limit: float, effort: Effort) -> tuple[list[str], list[str]]:
    """Read samples spread over the source, as training does; lines and problems."""
    began = time.monotonic()
    counts: Counter[Reason] = Counter()
    examples: list[Skip] = []
    sides: list[tuple[int, int]] = []
    tried = 0
    # In a random order, so that wherever time ends the samples are spread.
    chosen = range(len(source)) if len(source) <= DECODED else epoch_order(len(source), 0, 0)[:DECODED]
    for index in chosen:
        if tried and time.monotonic() - began > effort.seconds:
            break
        read = source.read(int(index))
        tried += 1
        if isinstance(read, Sample):
            sides.append(read.picture.size)
        else:
            counts[read.reason] += 1
            examples.append(read)
    if not tried:
        return ["decoded: none"], []
    wrong = sum(counts.values())
    took = time.monotonic() - began
    lines = [
        f"decoded: {tried:,} of {len(source):,} spread out, {tried / max(took, 1e-9):,.0f} a second on one core; "
        f"unreadable: {told(counts)}{shown(examples)}"
    ]
    if sides:
        short = [min(side) for side in sides]
        lines.append(f"shorter sides: {min(short)} to {max(short)} pixels, median {median(short):.0f}")
    share = wrong / tried
    # Of a part, only what chance does not explain counts: two standard errors.
    sure = share if tried == len(source) else share - 2 * sqrt(share * (1 - share) / tried)
    return lines, [f"{share:.1%} of the decoded samples are unreadable, {limit:.1%} may be skipped"] * (sure > limit)


def _bytes(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"
