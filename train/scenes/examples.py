"""`python -m train.scenes.examples FOLDER`: the example pictures, from a series that no training uses."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from train.scenes.describe import describe_scene
from train.scenes.render import render_scene
from train.scenes.shards import object_record, png_bytes

EXAMPLE_SEED = 90001
EXAMPLE_SIZE = 448
# One to four objects, every kind of ground, tints, an upside-down pair; chosen by eye, the first for the first page.
EXAMPLE_INDICES = (27, 2, 14, 81, 25, 49, 18, 78)


def write_examples(folder: Path) -> Path:
    """Writes `scene-K.png`, `scene-K.mask.png` and `examples.json` into `folder`; returns the latter's path.

    Each entry of the list in `examples.json` has image, mask, caption and objects, boxes in pixels as
    (top, left, bottom, right).
    """
    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for number, index in enumerate(EXAMPLE_INDICES):
        scene = describe_scene(EXAMPLE_SEED, index)
        image, instances = render_scene(scene, EXAMPLE_SIZE)
        names = {"image": f"scene-{number}.png", "mask": f"scene-{number}.mask.png"}
        (folder / names["image"]).write_bytes(png_bytes(image))
        (folder / names["mask"]).write_bytes(png_bytes(instances))
        objects = [object_record(at, item, instances) for at, item in enumerate(scene.objects, start=1)]
        entries.append({**names, "caption": scene.caption, "objects": objects})
    path = folder / "examples.json"
    path.write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
    return path


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the examples into the folder that `arguments` (or the command line) name; returns 0."""
    parser = argparse.ArgumentParser(prog="python -m train.scenes.examples", description="Writes the example pictures.")
    parser.add_argument("folder", type=Path, nargs="?", default=Path("assets/examples"))
    print(write_examples(parser.parse_args(arguments).folder))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
