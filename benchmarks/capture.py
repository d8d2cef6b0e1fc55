"""What recording costs: a vision forward of a full ViT-B/16 with and without `record`, and what the record holds.

    python benchmarks/capture.py [--check] [--pairs 25] [--threads 1]

One picture, random weights, inference, CLIP and DiffCLIP. A pair is one plain forward and one recorded forward right
after each other, in turns first and second; the ratio is the median over pairs of recorded by plain, in processor
time, so that what else the machine does meets both alike. Maps are worked out when they are asked for and are not part
of recording; the time of asking for one layer's maps, its check against the module's output included, is given beside
it. Writes benchmarks/results/capture.json; with --check the exit status is 1 if a bound is missed, and it is named.
"""

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from models.build import build_clip  # noqa: E402
from models.config import ModelConfig, TextConfig, VisionConfig  # noqa: E402
from models.maps import attention_maps  # noqa: E402
from models.recorder import Recording, record  # noqa: E402
from models.towers import vision_tower  # noqa: E402

# What must hold: at most this many times the plain forward, and at most this many bytes an image.
BOUNDS = {"ratio": 1.05, "bytes_per_image": 15e6}
RESULTS = ROOT / "benchmarks" / "results" / "capture.json"


def main() -> int:
    """Measure, print, write, and say whether the bounds hold."""
    parser = argparse.ArgumentParser(description="What recording a ViT-B/16 vision forward costs.")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bound is missed")
    parser.add_argument("--pairs", type=int, default=25, help="plain and recorded forwards that are compared")
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = {kind: measure(kind, options.pairs) for kind in ("standard", "differential")}
    for kind, row in rows.items():
        print(
            f"{kind:13} recorded / plain {row['ratio']:.3f} ({row['plain_ms']:.0f} ms plain), "
            f"{row['bytes_per_image'] / 1e6:.2f} MB an image, maps of a layer {row['maps_ms']:.0f} ms, "
            f"bit-equal: {row['bit_equal']}"
        )
    result = {"machine": machine(options.threads), "pairs": options.pairs, "bounds": BOUNDS, "results": rows}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    missed = missed_bounds(rows)
    for line in missed:
        print(line)
    return 1 if options.check and missed else 0


def measure(kind: Any, pairs: int) -> dict[str, Any]:
    """Times, bytes and bit-equality of one kind of attention, "standard" or "differential"."""
    config = ModelConfig(
        embed_dim=512,
        vision=VisionConfig(layers=12, width=768, head_width=64, patch_size=16, image_size=224, attention=kind),
        text=TextConfig(layers=1, width=64, heads=2, vocab_size=300, context_length=8),
    )
    clip = build_clip(config).eval().requires_grad_(False)
    tower, pixels = vision_tower(clip), torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    outputs: dict[str, torch.Tensor] = {}
    recording = Recording(tower)

    def forward(name: str) -> None:
        nonlocal recording
        with record(tower) if name == "recorded" else nullcontext() as found, torch.no_grad():
            outputs[name] = clip.encode_image(pixels)
        recording = found or recording

    times: dict[str, list[float]] = {"plain": [], "recorded": []}
    for turn in range(pairs + 2):
        for name in ("plain", "recorded") if turn % 2 else ("recorded", "plain"):
            times[name].append(seconds(lambda name=name: forward(name)))
    plain, recorded = (times[name][2:] for name in ("plain", "recorded"))
    return {
        "ratio": statistics.median(b / a for a, b in zip(plain, recorded, strict=True)),
        "plain_ms": 1e3 * statistics.median(plain),
        "recorded_ms": 1e3 * statistics.median(recorded),
        "maps_ms": 1e3 * statistics.median(seconds(lambda i=i: attention_maps(recording[i])) for i in range(12)),
        "bytes_per_image": recording.nbytes,
        "bit_equal": torch.equal(outputs["plain"], outputs["recorded"]),
    }


def seconds(act: Callable[[], object]) -> float:
    """Processor time of one call, all threads together."""
    start = time.process_time()
    act()
    return time.process_time() - start


def missed_bounds(rows: dict[str, dict[str, Any]]) -> list[str]:
    """A sentence for every bound that does not hold."""
    lines = [
        f"{kind}: {name} is {row[name]:.4g}, at most {bound:.4g} is allowed."
        for kind, row in rows.items()
        for name, bound in BOUNDS.items()
        if row[name] > bound
    ]
    return lines + [f"{kind}: recording changed the embedding." for kind, row in rows.items() if not row["bit_equal"]]


def machine(threads: int) -> dict[str, Any]:
    """What the figures were measured on."""
    cpu = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        cpu = names[0] if names else cpu
    return {"cpu": cpu, "system": platform.system(), "torch": torch.__version__, "threads": threads, "dtype": "float32"}


if __name__ == "__main__":
    sys.exit(main())
