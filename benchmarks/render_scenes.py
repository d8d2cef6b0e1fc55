"""How many scenes one core describes and draws in a second: `python benchmarks/render_scenes.py`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from train.scenes import describe_scene, render_scene

SCENES = 2000
SEED = 70001


def main() -> None:
    """Prints images a second at 64 and 112 pixels, with every sprite in the cache."""
    warm = [describe_scene(SEED, index) for index in range(SCENES)]
    start = time.perf_counter()
    scenes = [describe_scene(SEED + 1, index) for index in range(SCENES)]
    describing = (time.perf_counter() - start) / SCENES
    print(f"describe: {1 / describing:.0f} scenes/s")
    for size in (64, 112):
        for scene in [*warm, *scenes]:
            render_scene(scene, size)
        start = time.perf_counter()
        for scene in scenes:
            render_scene(scene, size)
        drawing = (time.perf_counter() - start) / SCENES
        both = describing + drawing
        print(f"size {size}: draw {1 / drawing:.0f} images/s, describe and draw {1 / both:.0f} images/s")


if __name__ == "__main__":
    main()
