"""Scenes as tar shards, in the layout that img2dataset writes and webdataset reads.

A shard `00000.tar` holds, for each scene, `000000000.png` (the picture), `.txt` (the caption), `.json` (all
that is known) and `.mask.png` (instances, exact). `00000_stats.json` beside it counts what it holds. The
bytes depend on the arguments alone.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from models.errors import StudioError
from train.durable import write_whole, writing
from train.scenes.describe import describe_scene
from train.scenes.pairs import minimal_pair
from train.scenes.render import LARGEST, SMALLEST, render_scene
from train.scenes.scene import PlacedObject, Scene, SceneOptions

_MOST_PER_SHARD = 10_000  # a key is five digits for the shard and four for the scene in it


def write_shards(
    out: Path,
    count: int,
    seed: int,
    size: int,
    options: SceneOptions = SceneOptions(),  # noqa: B008 (frozen)
    per_shard: int = 1000,
    progress: Callable[[int], object] | None = None,
) -> list[Path]:
    """Writes the scenes 0 to `count` - 1 of the series `seed`, drawn at `size` pixels, as shards in `out`.

    `progress` is called with 1 after each scene. A shard appears under its name only when it is complete.
    Returns the shards' paths.

    Raises StudioError for values out of range, when `out` holds shards already, and when it cannot be written.
    """
    _check(out, count, seed, size, per_shard)
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        return _written(out, count, seed, size, options, per_shard, progress)


def _written(
    out: Path,
    count: int,
    seed: int,
    size: int,
    options: SceneOptions,
    per_shard: int,
    progress: Callable[[int], object] | None,
) -> list[Path]:
    written = []
    for number, start in enumerate(range(0, count, per_shard)):
        indices = range(start, min(count, start + per_shard))
        path = out / f"{number:05d}.tar"
        part = path.with_suffix(".tar.part")
        with tarfile.open(part, "w", format=tarfile.USTAR_FORMAT) as archive:
            for position, index in enumerate(indices):
                for name, content in _sample(f"{number:05d}{position:04d}", seed, index, size, options):
                    archive.addfile(_member(name, len(content)), io.BytesIO(content))
                if progress is not None:
                    progress(1)
        os.replace(part, path)
        stats = {"count": len(indices), "successes": len(indices), "status_dict": {"success": len(indices)}}
        write_whole(out / f"{number:05d}_stats.json", json.dumps(stats, indent=1) + "\n")
        written.append(path)
    return written


def _check(out: Path, count: int, seed: int, size: int, per_shard: int) -> None:
    if count < 1:
        raise StudioError(f"{count} scenes cannot be written: a data set holds at least 1. Give a count from 1.")
    if seed < 0:
        raise StudioError(f"Seed {seed} names no series of scenes: seeds count from 0. Give a whole number from 0.")
    if not SMALLEST <= size <= LARGEST:
        raise StudioError(
            f"Scenes cannot be drawn at {size} pixels a side: sizes go from {SMALLEST} to {LARGEST}. "
            "Choose one within that."
        )
    if not 1 <= per_shard <= _MOST_PER_SHARD:
        raise StudioError(
            f"A shard cannot hold {per_shard} scenes: it holds 1 to {_MOST_PER_SHARD}. Choose within that."
        )
    if count > 100_000 * per_shard:
        raise StudioError(f"{count} scenes need more than 100000 shards of {per_shard}. Give more scenes to a shard.")
    if out.exists() and not out.is_dir():
        raise StudioError(f"{out} is a file, and shards go into a folder. Name a new folder.")
    if out.is_dir():
        held = sorted(path.name for path in out.glob("*.tar"))
        if held:
            raise StudioError(
                f"{out} already holds {len(held)} shards, the first is {held[0]}: two data sets in one "
                "folder would be read as one. Name an empty folder, or remove those shards first."
            )


def object_record(number: int, item: PlacedObject, instances: NDArray[np.uint8] | None) -> dict[str, Any]:
    """What a file says of object `number` (from 1).

    With `instances` its box is in pixels, (top, left, bottom, right), the last two excluded; without, in
    shares of the picture's side.
    """
    box = [round(part, 4) for part in item.box] if instances is None else list(mask_box(instances, number))
    return {
        "id": number,
        "name": item.name,
        "size": item.size,
        "place": item.place,
        "tint": item.tint,
        "orientation": item.orientation,
        "box": box,
    }


def mask_box(instances: NDArray[np.uint8], number: int) -> tuple[int, int, int, int]:
    """(top, left, bottom, right) in pixels of instance `number`; bottom and right are excluded."""
    mask = instances == number
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        return 0, 0, 0, 0
    return int(rows[0]), int(columns[0]), int(rows[-1]) + 1, int(columns[-1]) + 1


def _pair_record(scene: Scene, options: SceneOptions) -> dict[str, Any] | None:
    """The scene's counterpart; None for the rare scene beside which nothing else fits."""
    try:
        attribute, other = minimal_pair(scene, names=options.names)
    except StudioError:
        return None
    objects = [object_record(number, item, None) for number, item in enumerate(other.objects, start=1)]
    return {"attribute": attribute, "caption": other.caption, "objects": objects}


def _sample(key: str, seed: int, index: int, size: int, options: SceneOptions) -> list[tuple[str, bytes]]:
    scene = describe_scene(seed, index, options)
    image, instances = render_scene(scene, size)
    record = {
        "key": key,
        "caption": scene.caption,
        "seed": seed,
        "index": index,
        "size": size,
        "objects": [object_record(number, item, instances) for number, item in enumerate(scene.objects, start=1)],
        "ground": {"kind": scene.ground.kind, "colours": list(scene.ground.names)},
        "minimal_pair": _pair_record(scene, options),
    }
    return [
        (f"{key}.json", json.dumps(record).encode()),
        (f"{key}.mask.png", png_bytes(instances)),
        (f"{key}.png", png_bytes(image)),
        (f"{key}.txt", scene.caption.encode()),
    ]


def png_bytes(pixels: NDArray[np.uint8]) -> bytes:
    """A PNG of (R, C, 3) colours or (R, C) instance numbers."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG", compress_level=4)
    return buffer.getvalue()


def _member(name: str, length: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)  # its time, owner and group are 0 and empty unless set
    member.size, member.mode = length, 0o644
    return member
