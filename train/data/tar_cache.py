"""The index of tar shards on disk, so that headers are read once. A shard is read again when its size or time changed.

A folder holds, for each set of shards and settings, `tars-NAME.npy` with the records and `tars-NAME.json` with the
rest. NAME follows from paths, sizes and times, so a file is never wrong, only superseded; the JSON is written last. It
is written every so many shards, so that a scan that is cut goes on from there.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from train.data.config import TarData
from train.data.tar_index import RECORD, Shard, index_shard
from train.durable import writing

_VERSION = 2
_KEPT_EVERY = 100


def index_shards(
    paths: Sequence[Path], data: TarData, cache: Path | None, progress: Callable[[int, int], object] | None = None
) -> list[Shard]:
    """The shards' indices, from `cache` where it holds them, and kept there unless it is None.

    Raises:
        StudioError: a shard is compressed or cannot be opened, or the cache cannot be written.
    """
    rule = [_VERSION, list(data.captions), list(data.images), data.split]
    states = [(str(path), status.st_size, status.st_mtime_ns) for path in paths for status in [path.stat()]]
    known = _known(cache, rule) if cache else {}
    shards, fresh = [], 0
    for done, (path, state) in enumerate(zip(paths, states, strict=True), start=1):
        fresh += state not in known
        shards.append(known.get(state) or index_shard(path, data))
        if cache and (done == len(paths) or fresh == _KEPT_EVERY):
            fresh = 0
            name = hashlib.sha256(json.dumps([rule, states[:done]]).encode()).hexdigest()[:16]
            if not (cache / f"tars-{name}.json").exists():
                with writing(cache):
                    _keep(cache, name, rule, shards)
        if progress:
            progress(done, len(paths))
    return shards


def _known(cache: Path, rule: list[Any]) -> dict[tuple[str, int, int], Shard]:
    """Every shard that the cache knows by this rule, by its (path, size, time)."""
    known: dict[tuple[str, int, int], Shard] = {}
    for path in sorted(cache.glob("tars-*.json")):
        # A file that is broken, or that another process replaces at this moment, is as good as none.
        with suppress(OSError, ValueError, KeyError, TypeError):
            plain = json.loads(path.read_text(encoding="utf-8"))
            if plain["rule"] != rule:
                continue
            records = np.load(path.with_suffix(".npy"), mmap_mode="r", allow_pickle=False)
            if records.dtype != RECORD or len(records) != sum(entry["samples"] for entry in plain["shards"]):
                continue
            start = 0
            for entry in plain["shards"]:
                samples = entry.pop("samples")
                examples = tuple((key, reason) for key, reason in entry.pop("examples"))
                shard = Shard(records=records[start : start + samples], examples=examples, **entry)
                known[shard.path, shard.size, shard.changed] = shard
                start += samples
    return known


def _keep(cache: Path, name: str, rule: list[Any], shards: Sequence[Shard]) -> None:
    """Write the index, then remove those of the same rule that hold nothing but earlier states of these shards."""
    cache.mkdir(parents=True, exist_ok=True)
    records = np.concatenate([shard.records for shard in shards]) if shards else np.empty(0, RECORD)
    entries = [
        {
            "path": shard.path,
            "size": shard.size,
            "changed": shard.changed,
            "samples": len(shard.records),
            "left_out": dict(shard.left_out),
            "examples": list(shard.examples),
            "first": shard.first,
            "end": shard.end,
            "at": shard.at,
        }
        for shard in shards
    ]
    part = cache / f"tars-{name}.{secrets.token_hex(4)}.part"
    with part.open("wb") as file:
        np.save(file, records, allow_pickle=False)
    os.replace(part, cache / f"tars-{name}.npy")
    part.write_text(json.dumps({"rule": rule, "shards": entries}), encoding="utf-8")
    os.replace(part, cache / f"tars-{name}.json")
    here = {shard.path for shard in shards}
    for path in cache.glob("tars-*.json"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            plain = json.loads(path.read_text(encoding="utf-8"))
            superseded = path.stem != f"tars-{name}" and {entry["path"] for entry in plain["shards"]} <= here
            if superseded and plain["rule"] == rule:
                path.unlink()
                path.with_suffix(".npy").unlink()
