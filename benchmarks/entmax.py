"""How fast `Normalizer(1.5)` is beside the entmax package: `python benchmarks/entmax.py [--check]`.

Scores are those of one picture in a ViT-B/16 layer, (12, 197, 197): normal with standard deviation 1, 2 and 4, which is
from spread-out to peaked attention. One thread, and its processor time, which leaves out the time in which other
programs ran. The three functions are timed in turn in each round, and a round's ratio is that of the fastest call of
each in as long a time, so that what else slows the machine meets all; the number that counts is the median over rounds.
Prints the ratios and writes `benchmarks/results/entmax.json`; with `--check` it exits with 1 and names each bound that
is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Python puts this script's folder first, where `import entmax` would find the script itself.
sys.path.remove(str(Path(__file__).resolve().parent))
sys.path.insert(0, str(ROOT))

import entmax  # noqa: E402
import torch  # noqa: E402
from torch import Tensor  # noqa: E402

from models.normalizers import Normalizer  # noqa: E402

# What must hold, for every spread of the scores.
LEAST_RATIO = {"entmax15": 4.0, "entmax_bisect": 8.0}
GREATEST_ERROR = 1e-6

SHAPE = (12, 197, 197)
SPREADS = (1.0, 2.0, 4.0)
TRIED_K = (None, 6, 8, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128)
ROUNDS = 25
RESULTS = ROOT / "benchmarks" / "results" / "entmax.json"

Function = Callable[[], Tensor]


def fastest(function: Function, budget: float = 0.15) -> float:
    """Seconds of the fastest of at least two calls, and of as many as the budget of seconds allows."""
    seconds: list[float] = []
    while len(seconds) < 2 or sum(seconds) < budget:
        start = time.thread_time()
        function()
        seconds.append(time.thread_time() - start)
    return min(seconds)


def oracle(scores: Tensor) -> Tensor:
    """1.5-entmax in float64, by 60 halvings of the interval that holds tau."""
    z = scores.double() / 2
    low, high = z.amax(-1, keepdim=True) - 1, z.amax(-1, keepdim=True)
    for _ in range(60):
        middle = (low + high) / 2
        over = (z - middle).clamp(min=0).square().sum(-1, keepdim=True) > 1
        low, high = torch.where(over, middle, low), torch.where(over, high, middle)
    return (z - low).clamp(min=0).square()


def fewest_iterations(scores: Tensor, right: Tensor) -> int:
    """Iterations with which bisection comes within the greatest error that we allow ourselves."""
    for count in range(5, 61):
        if error(entmax.entmax_bisect(scores, 1.5, dim=-1, n_iter=count), right) <= GREATEST_ERROR:
            return count
    raise SystemExit(f"entmax_bisect does not come within {GREATEST_ERROR:g} in 60 iterations: give it other scores.")


def error(weights: Tensor, right: Tensor) -> float:
    """The greatest difference of any weight."""
    return float((weights.double() - right).abs().max())


def best_k(scores: Tensor) -> int | None:
    """The k at which entmax15 is fastest on these scores: each is tried in three turns."""
    times = {k: float("inf") for k in TRIED_K}
    for _ in range(3):
        for k in TRIED_K:
            times[k] = min(times[k], fastest(lambda k=k: entmax.entmax15(scores, dim=-1, k=k), 0.06))
    return min(times, key=lambda k: times[k])


def measure(spread: float) -> dict[str, object]:
    """Times, ratios and errors for scores of one spread."""
    scores = torch.randn(SHAPE, generator=torch.Generator().manual_seed(int(10 * spread))) * spread
    right = oracle(scores)
    k, iterations = best_k(scores), fewest_iterations(scores, right)
    functions: dict[str, Function] = {
        "ours": lambda: Normalizer(alpha=1.5)(scores),
        "entmax15": lambda: entmax.entmax15(scores, dim=-1, k=k),
        "entmax_bisect": lambda: entmax.entmax_bisect(scores, 1.5, dim=-1, n_iter=iterations),
    }
    rounds = [{name: fastest(function) for name, function in functions.items()} for _ in range(ROUNDS)]
    found: dict[str, object] = {"spread": spread, "k": k, "iterations": iterations}
    found["error"] = {name: error(function(), right) for name, function in functions.items()}
    found["milliseconds"] = {name: 1e3 * statistics.median(each[name] for each in rounds) for name in functions}
    ratios = {name: [each[name] / each["ours"] for each in rounds] for name in LEAST_RATIO}
    found["ratio"] = {name: statistics.median(values) for name, values in ratios.items()}
    found["ratio_quartiles"] = {name: statistics.quantiles(values, n=4)[::2] for name, values in ratios.items()}
    return found


def missed(found: dict) -> list[str]:
    """A sentence for each bound that scores of one spread miss."""
    where = f"with scores of standard deviation {found['spread']:g}"
    sentences = [
        f"{found['ratio'][name]:.2f} times as fast as {name} {where}: at least {least:g} is wanted."
        for name, least in LEAST_RATIO.items()
        if found["ratio"][name] < least
    ]
    if not found["error"]["ours"] <= GREATEST_ERROR:
        sentences.append(f"An error of {found['error']['ours']:.1e} {where}: at most {GREATEST_ERROR:g} is wanted.")
    return sentences


def cpu_model() -> str:
    """The processor's name, as far as the system tells it."""
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text(encoding="utf-8").splitlines() if listing.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def main() -> None:
    """Measures every spread, prints and writes what was found, and checks the bounds if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bound is missed")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    load = round(os.getloadavg()[0], 1)
    results = []
    for spread in SPREADS:
        found: dict = measure(spread)
        results.append(found)
        print(f"scores of standard deviation {spread:g}: {found['milliseconds']['ours']:.2f} ms, ", end="")
        print(f"error {found['error']['ours']:.1e}")
        for name, setting in (
            ("entmax15", f"k = {found['k']}"),
            ("entmax_bisect", f"{found['iterations']} iterations"),
        ):
            low, high = found["ratio_quartiles"][name]
            print(f"  {found['ratio'][name]:6.2f} x {name}, {setting} ({low:.2f} to {high:.2f})")
    machine = {"cpu": cpu_model(), "cores": os.cpu_count(), "load_before": load, "threads": 1}
    machine |= {"torch": torch.__version__, "entmax": version("entmax")}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"machine": machine, "shape": SHAPE, "results": results}, indent=2) + "\n", "utf-8")
    sentences = [sentence for found in results for sentence in missed(found)]
    for sentence in sentences:
        print(f"missed: {sentence}")
    if arguments.check and sentences:
        sys.exit(1)


if __name__ == "__main__":
    main()
