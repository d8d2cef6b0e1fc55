"""How fast the studio answers a person: `python benchmarks/studio.py [--check]`.

Starts `python app.py` and a Chromium on one machine. Two models of the shapes of ViT-B/16, a CLIP and a DiffCLIP with
random weights, are brought by their paths as a person brings them, and Compare shows one map of each, scores QK and
softmax. Keys and pointer are real events of the browser. Each time runs from the event's own time stamp to the first
animation frame in which the panels have new pixels (benchmarks/studio_watch.js reads and compares them there), so the
driver's round trips are not in it. What counts is the 95th percentile of the steps:

- layer, head, query, scale: the maps are in the browser already;
- unseen: the layers of all pictures of the gallery one after the other, each asked of the server after the key. The
  next key comes when the numbers of the last layer are there, before the page looks ahead by itself;
- hover: until all panels have the outline and the number of the patch under the pointer, from when the page is given
  the pointer's event. Chromium gives it once a frame, so "ms" of this row is up to a frame more.

Relevance and overview are single, of both models: relevance through the last layer and through all, the overview of the
row that is read out and of all rows; they must tell how far they are. Starts are on the shipped models with an empty
browser cache: from the process to its first answer, and from there to the first frame with maps; the slowest counts.

Prints all of it and writes `benchmarks/results/studio.json`; with `--check` it exits with 1 and names each bound that
is missed.
"""

import argparse
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import chain, cycle, islice, repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# Python puts this script's folder first, where this script has the name of a package.
sys.path[:] = [str(ROOT), *(path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent)]

from playwright.sync_api import Browser  # noqa: E402

from benchmarks.studio_page import Compare, Server, chromium, compare_page, serving  # noqa: E402
from models.build import build_clip  # noqa: E402
from models.checkpoints import CheckpointInfo, save_checkpoint  # noqa: E402
from models.config import ModelConfig, TextConfig, VisionConfig  # noqa: E402
from models.preprocess import Preprocess  # noqa: E402
from models.vocabulary import CLIP_VOCABULARY, ClipTokenizer  # noqa: E402
from studio.examples import load_gallery  # noqa: E402

# What must hold: milliseconds at the 95th percentile of steps; seconds of what is done once.
STEPS = {"layer": 50.0, "head": 50.0, "query": 50.0, "scale": 50.0, "unseen": 150.0, "hover": 16.0}
ONCE = {"relevance": 5.0, "relevance, all layers": 5.0, "overview": 5.0, "overview, all rows": 5.0}
STARTS = {"answer": 10.0, "page": 1.5}
KINDS = ("standard", "differential")
LAYERS, GRID = 12, 14
RESULTS = ROOT / "benchmarks" / "results" / "studio.json"

Row = Mapping[str, Any]


def main() -> int:
    """Measure, print, write, and say whether the bounds hold."""
    parser = argparse.ArgumentParser(description="How fast the studio answers a person.")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bound is missed")
    parser.add_argument("--steps", type=int, default=100, help="steps of each kind (default: %(default)s)")
    parser.add_argument("--starts", type=int, default=3, help="starts of the server (default: %(default)s)")
    parser.add_argument("--models", type=Path, help="folder to keep the two models in; made if they are not there")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the figures go (default: %(default)s)")
    options = parser.parse_args()
    about = machine()
    with TemporaryDirectory() as name:
        roots = options.models or Path(name)
        write_models(roots)
        began = time.perf_counter()
        with chromium() as browser:
            starts = [start(browser, roots) for _ in range(options.starts)]
            rows: dict[str, Row] = {
                name: {"seconds": max(each[name] for each in starts), "all": [each[name] for each in starts]}
                for name in STARTS
            }
            with serving(roots) as server:
                for name, row in chain(list(rows.items()), measure(browser, server, roots, options.steps)):
                    rows[name] = row
                    print(line(name, row), flush=True)
    sentences = missed(rows)
    result = {"machine": about, "steps": options.steps, "bounds": {"ms": STEPS, "seconds": ONCE | STARTS}}
    result |= {"results": rows, "seconds": round(time.perf_counter() - began)}
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    for sentence in sentences:
        print(f"missed: {sentence}", file=sys.stderr)
    return int(options.check and bool(sentences))


def write_models(roots: Path) -> None:
    """A CLIP and a DiffCLIP of the shapes of ViT-B/16 with CLIP's vocabulary, as checkpoint folders."""
    roots.mkdir(parents=True, exist_ok=True)
    tokenizer = ClipTokenizer(77)
    for kind in KINDS:
        if (roots / kind).is_dir():
            continue
        config = ModelConfig(
            embed_dim=512,
            vision=VisionConfig(LAYERS, 768, 64, patch_size=16, image_size=16 * GRID, attention=kind),
            text=TextConfig(12, 512, 8, CLIP_VOCABULARY, 77, attention=kind),
        )
        transform = Preprocess(16 * GRID, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
        info = CheckpointInfo(f"ViT-B/16, {kind}", "open", config, transform, tokenizer.rule)
        save_checkpoint(roots / kind, build_clip(config, 0), info, tokenizer)


def start(browser: Browser, roots: Path) -> dict[str, float]:
    """Seconds until a new server answers, and from there until a new browser shows maps."""
    with compare_page(browser) as compare, serving(roots) as server:
        compare.page.goto(server.address, wait_until="commit")
        drawn = compare.page.evaluate("() => usable")
    return {"answer": server.started, "page": drawn / 1e3 - server.answered}


def measure(browser: Browser, server: Server, roots: Path, steps: int) -> Iterator[tuple[str, Row]]:
    """All steps and what is done once, by name, as they are found."""
    with compare_page(browser) as compare:
        compare.open(server.address)
        left, right = (
            compare.bring((roots / kind).resolve(), side) for kind, side in zip(KINDS, ("left", "right"), strict=True)
        )
        both = {"picture": load_gallery()[0].token, "layer": LAYERS - 1}
        panels = [f"weights.mean.{left}", f"weights.mean.{right}"]
        compare.open(server.address, **both, p=panels)
        yield "unseen", unseen(compare, steps)
        yield "layer", seen(compare, "layer", layer_keys(compare.shown()[3]), steps)
        yield "head", seen(compare, "head", repeat("h"), steps)
        yield "query", seen(compare, "query", arrow_keys(), steps)
        # The last picture may be one of which no model saw the edges; of the first they saw all.
        compare.open(server.address, **both, p=panels)
        yield "hover", hovers(compare, steps)
        # A map with signs has a range of its own, so there a scale changes no colour: of A and lambda A2 it does.
        compare.open(server.address, **both, p=[f"weights.mean.{left}", f"subtracted.mean.{right}"])
        compare.viewer.locator(".scale input[value='uniform']").focus()
        yield "scale", seen(compare, "scale", cycle(("ArrowRight", "ArrowLeft")), steps, "some")
        compare.open(server.address, **both, p=panels)
        yield from once(compare)


def unseen(compare: Compare, steps: int) -> Row:
    """Steps to layers that neither the browser nor the server has made maps of."""
    found: list[Row] = []
    for index, picture in enumerate(load_gallery()):
        if index:
            compare.page.locator("#scenes button").nth(index).click()
            compare.settled(picture.token)
            compare.viewer.locator(".stage").focus()
        down = compare.shown()[3] > 0
        for _ in range(LAYERS - 1):
            known = len(compare.asked)
            step = pressed(compare, "layer", "[" if down else "]")
            if sum(name == "get_layer" for name, _ in compare.asked[known:]) == len(KINDS):
                found.append(step)
            compare.settled(picture.token, compare.shown()[3])
        if len(found) >= steps:
            return summary(found[:steps])
    raise SystemExit(f"Only {len(found)} of {steps} steps went to a layer that had not been asked for: ask for fewer.")


def seen(compare: Compare, name: str, order: Iterator[str], steps: int, panels: str = "all") -> Row:
    """Steps by one key each, whose maps the browser has."""
    known, found, layers = len(compare.asked), [], set()
    for key in islice(order, steps):
        found.append(pressed(compare, name, key, panels))
        layers.add(compare.shown()[3])
    # The page may look ahead to a layer that is not shown.
    asked = [layer for name, layer in compare.asked[known:] if name == "get_layer" and layer in layers]
    if asked:
        raise SystemExit(f"{name}: layers {asked} were asked of the server, and this is about maps that are here.")
    return summary(found)


def pressed(compare: Compare, name: str, key: str, panels: str = "all") -> Row:
    """What one key does."""
    compare.watch(name, "keydown", panels)
    compare.page.keyboard.press(key)
    return compare.watched()


def hovers(compare: Compare, steps: int) -> Row:
    """The pointer goes from patch to patch, over the panels in turn."""
    compare.page.mouse.move(1, 1)
    found = []
    canvases = compare.viewer.locator(".panels canvas")
    canvases.first.scroll_into_view_if_needed()
    boxes = [box for i in range(len(KINDS)) if (box := canvases.nth(i).bounding_box())]
    for step in range(steps):
        box = boxes[step % len(boxes)]
        row, col = divmod(7 * step % GRID**2, GRID)
        compare.watch("hover", "pointermove")
        compare.page.mouse.move(
            box["x"] + (col + 0.5) / GRID * box["width"], box["y"] + (row + 0.5) / GRID * box["height"]
        )
        found.append(compare.watched())
    compare.page.mouse.move(1, 1)
    return summary(found, "reached")


def once(compare: Compare) -> Iterator[tuple[str, Row]]:
    """Relevance and overview of both models, each asked once."""

    def timed(name: str, event: str, act: Callable[[], object], panels: str) -> Row:
        compare.watch(name, event, panels)
        act()
        found = compare.watched()
        return {"seconds": found["ms"] / 1e3, "told": found["told"]}

    part = compare.viewer
    toggle, over, origin = part.locator(".overview-toggle"), part.locator(".over"), part.locator("select.from")
    yield "overview", timed("overview", "click", toggle.click, "none")
    yield "overview, all rows", timed("overview", "change", lambda: over.select_option("all"), "none")
    toggle.click()
    for panel in range(len(KINDS)):
        part.locator("select.kind").nth(panel).select_option("relevance")
    compare.page.wait_for_function("() => ENDS.relevance()")
    part.locator(".speaking input.text").fill("a red apple and two keys")
    yield "relevance", timed("relevance", "change", lambda: compare.page.keyboard.press("Tab"), "all")
    yield "relevance, all layers", timed("relevance", "change", lambda: origin.select_option("0"), "all")


def layer_keys(layer: int) -> Iterator[str]:
    """From one end of the layers to the other and back."""
    way = -1 if layer else 1
    while True:
        yield "]" if way > 0 else "["
        layer += way
        if layer in (0, LAYERS - 1):
            way = -way


def arrow_keys() -> Iterator[str]:
    """The first one leaves CLS for the middle; then line by line, so that no step stops at the edge."""
    yield from ["ArrowUp"] * (GRID // 2 + 1)
    yield from ["ArrowLeft"] * (GRID // 2)
    across = cycle(("ArrowRight", "ArrowLeft"))
    for down in cycle(("ArrowDown", "ArrowUp")):
        for _ in range(GRID - 1):
            yield from [next(across)] * (GRID - 1)
            yield down


def summary(found: Sequence[Row], counted: str = "ms") -> Row:
    """Median and 95th percentile of milliseconds from the event's time stamp, and of those that count."""
    return {
        "p95": percentile([step[counted] for step in found]),
        "median": statistics.median(step[counted] for step in found),
        "worst": max(step[counted] for step in found),
        "ms": {"p95": percentile([step["ms"] for step in found]), "median": statistics.median(s["ms"] for s in found)},
        "steps": len(found),
        "changed": statistics.mean(any(step["changed"]) for step in found),
    }


def percentile(values: Sequence[float], share: float = 0.95) -> float:
    """The smallest value that at least that share of all do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def line(name: str, row: Row) -> str:
    """What was found, with its bound and what part of that it takes."""
    if "p95" in row:
        bound = STEPS[name]
        return (
            f"{name}: {row['p95']:.1f} ms at the 95th percentile of {row['steps']} steps, {row['p95'] / bound:.2f} of "
            f"{bound:g} ms; median {row['median']:.1f}, worst {row['worst']:.1f}"
        )
    bound = (ONCE | STARTS)[name]
    told = f"; told {len(row['told'])} times how far it is" if "told" in row else ""
    return f"{name}: {row['seconds']:.2f} s, {row['seconds'] / bound:.2f} of {bound:g} s{told}"


def missed(rows: Mapping[str, Row]) -> list[str]:
    """A sentence for every bound that does not hold."""
    sentences = [
        f"{name}: {rows[name]['p95']:.1f} ms at the 95th percentile, less than {bound:g} ms is wanted."
        for name, bound in STEPS.items()
        if not rows[name]["p95"] < bound
    ]
    sentences += [
        f"{name}: {rows[name]['seconds']:.2f} s, less than {bound:g} s is wanted."
        for name, bound in (ONCE | STARTS).items()
        if not rows[name]["seconds"] < bound
    ]
    silent = [name for name in ONCE if not rows[name]["told"]]
    return sentences + [f"{name}: nothing was told while it was worked out." for name in silent]


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text(encoding="utf-8").splitlines() if listing.exists() else []
    cpu = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    packages = {name: version(name) for name in ("torch", "gradio", "playwright")}
    return {"cpu": cpu, "cores": os.cpu_count(), "load_before": round(os.getloadavg()[0], 1), **packages}


if __name__ == "__main__":
    sys.exit(main())
