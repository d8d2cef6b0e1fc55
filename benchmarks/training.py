"""How fast our training loop is beside open_clip's own: `python benchmarks/training.py [--check]`.

The CLIP and the DiffCLIP of train/configs/*_scenes.toml at 64 pixels, batch 128, float32, one thread, nothing measured
or saved on the way. Both loops read the same tar shards of scenes (png and txt), each with its own reader in the same
process, the same random crop and tokenizer, and train the very same module with AdamW and a bound on the gradient's
norm; CLIP is also trained as open_clip itself builds it. Both log as they do by default, ours every
step, with norms once a turn. (Its look at the attention every 100 steps takes a tenth of a step and is in no turn.)

Each loop has a process of its own (training_loops.py), which stands still while another has its turn of some steps. In
every round all have one turn, every other round in reverse; a round gives one ratio of each pair, and the median over
the rounds counts, by the wall clock and in processor time. The first turn, with the start of the loop in it, counts for
nothing. The packages that open_clip's loop needs stand in requirements-dev.txt.

A loader alone is one worker process. MFU is the share of a measured rate of matrix products that goes into the model's
own. Prints all of it and writes `benchmarks/results/training.json`; with `--check` it exits with 1 and names each
bound that is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# Python puts this script's folder first, where other scripts may have the names of packages.
sys.path[:] = [str(ROOT), *(path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent)]

import torch  # noqa: E402

from models.tokenizer import DomainTokenizer, load_tokenizer  # noqa: E402
from train.config import RunConfig, load_config  # noqa: E402
from train.data.augment import View  # noqa: E402
from train.data.config import RandomCrop, SceneData, TarData  # noqa: E402
from train.data.loader import batches  # noqa: E402
from train.data.open import open_source  # noqa: E402
from train.data.order import Plan  # noqa: E402
from train.data.sample import Source  # noqa: E402
from train.data.scenes import scenes_preprocess  # noqa: E402
from train.feed import tokenizer_of  # noqa: E402
from train.flops import cost_of, matmul_rate  # noqa: E402
from train.scenes.shards import write_shards  # noqa: E402

# What must hold: samples a second of ours over those of the other loop, for each of LOOPS, by both clocks; and those of
# a loader over those that the faster of the models takes.
LEAST = {"loop": 1.0, "loader": 3.0}
AIM = 2.0

LOOPS = {"clip": ("ours", "open_clip", "plain open_clip"), "diffclip": ("ours", "open_clip")}
CLOCKS = ("wall", "processor")
SCENES, SEED = 2560, 7
RESULTS = ROOT / "benchmarks" / "results" / "training.json"

Turn = Mapping[str, float]


def main() -> int:
    """Measure, print, write, and say whether the bounds hold."""
    parser = argparse.ArgumentParser(description="Times our training loop beside open_clip's.")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bound is missed")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each loop that count (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=5, help="steps of a turn (default: %(default)s)")
    parser.add_argument("--models", nargs="+", choices=LOOPS, default=list(LOOPS), help="default: both")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the figures go (default: %(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    began, about = time.perf_counter(), machine()
    rates = {str(dtype): matmul_rate(torch.device("cpu"), dtype, 1.0) for dtype in (torch.float32, torch.bfloat16)}
    rows = {}
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder)
        for kind in options.models:
            rows[kind] = row_of(
                load_config(config_file(kind)), timed(kind, folder, options.rounds, options.steps), options.steps, rates
            )
            print_row(kind, rows[kind])
        loaders = measure_loaders(folder)
    consumed = max(row["samples_per_second"]["ours"]["processor"] for row in rows.values())
    loaders = {name: {**rate, "of_consumed": rate["processor"] / consumed} for name, rate in loaders.items()}
    for name, rate in loaders.items():
        print(
            f"{name} alone: {rate['processor']:.0f} samples a second, {rate['of_consumed']:.1f} of what a model takes"
        )
    seconds = round(time.perf_counter() - began)
    result = {"machine": about, "rounds": options.rounds, "steps": options.steps, "least": LEAST, "aim": AIM}
    result |= {"matmul_rate": rates, "results": rows, "loaders": loaders, "seconds": seconds}
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    sentences = missed(rows, loaders)
    for sentence in sentences:
        print(f"missed: {sentence}", file=sys.stderr)
    return int(options.check and bool(sentences))


def config_file(kind: str) -> Path:
    """The config whose model, optimiser and batch are taken."""
    return ROOT / "train" / "configs" / f"{kind}_scenes.toml"


def write_data(folder: Path) -> None:
    """The shards, holding no more than picture and caption of each scene, and the tokenizer's file."""
    config = load_config(config_file("clip"))
    tars = folder / "tars"
    tars.mkdir()
    for path in write_shards(folder / "drawn", SCENES, SEED, config.stages[0].image_size, per_shard=SCENES // 4):
        with tarfile.open(path) as drawn, tarfile.open(tars / path.name, "w", format=tarfile.USTAR_FORMAT) as kept:
            for member in drawn:
                # What else a scene has, one reader would decode and the other would pass over.
                if member.name.endswith((".png", ".txt")) and not member.name.endswith(".mask.png"):
                    kept.addfile(member, drawn.extractfile(member))
    tokenizer_of(config).save(folder / "tokenizer.json")


def timed(kind: str, folder: Path, rounds: int, steps: int) -> dict[str, list[Turn]]:
    """The turns of each loop, one a round."""
    turns: dict[str, list[Turn]] = {name: [] for name in LOOPS[kind]}
    with ExitStack() as stack:
        loops = {name: stack.enter_context(running(name, kind, folder, steps)) for name in turns}
        for round_ in range(rounds + 1):
            for name in list(loops)[:: 1 if round_ % 2 else -1]:
                turn = next(loops[name])
                if round_:
                    turns[name].append(turn)
    return turns


@contextmanager
def running(name: str, kind: str, folder: Path, steps: int) -> Iterator[Iterator[Turn]]:
    """A loop in its own process; each item is a turn of it."""
    own = folder / f"{kind} {name}"
    own.mkdir()
    task = {"loop": name, "config": str(config_file(kind)), "tars": str(folder / "tars"), "folder": str(own)}
    task |= {"tokenizer": str(folder / "tokenizer.json"), "steps": steps}
    command = [sys.executable, str(Path(__file__).with_name("training_loops.py")), json.dumps(task)]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with (own / "errors.txt").open("w") as errors:
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True, env=one_thread)
    assert process.stdin
    assert process.stdout
    asked, answers = process.stdin, process.stdout

    def turns() -> Iterator[Turn]:
        while True:
            asked.write("\n")
            asked.flush()
            answer = answers.readline()
            if not answer:
                raise SystemExit(f"{name} ended: {(own / 'errors.txt').read_text()[-2000:]}")
            yield json.loads(answer)

    try:
        yield turns()
    finally:
        asked.close()
        process.wait()


def row_of(
    config: RunConfig, turns: Mapping[str, Sequence[Turn]], steps: int, rates: Mapping[str, float]
) -> dict[str, Any]:
    """Samples a second of each loop, ours over the others', and the share of the machine that goes into the model.

    "most" is how many times as fast as each other loop one could be whose only work is the model's matrix products in
    float32 at the measured rate.
    """
    flops = cost_of(config.stage_model(config.stages[0])).training
    samples = steps * config.batch_size
    speed = {
        name: {clock: samples / statistics.median(turn[clock] for turn in found) for clock in CLOCKS}
        for name, found in turns.items()
    }
    others = [name for name in turns if name != "ours"]
    return {
        "samples_per_second": speed,
        "ratio": {name: {clock: ratio(turns, name, clock) for clock in CLOCKS} for name in others},
        "most": {name: rates["torch.float32"] / flops / speed[name]["processor"] for name in others},
        "flops_per_sample": flops,
        "mfu": {dtype: speed["ours"]["processor"] * flops / rate for dtype, rate in rates.items()},
    }


def ratio(turns: Mapping[str, Sequence[Turn]], other: str, clock: str) -> float:
    """The median over rounds of our samples a second over the other's."""
    return statistics.median(b[clock] / a[clock] for a, b in zip(turns["ours"], turns[other], strict=True))


def print_row(kind: str, row: Mapping[str, Any]) -> None:
    """What was found of one model."""
    speed = ", ".join(f"{name} {found['processor']:.1f}" for name, found in row["samples_per_second"].items())
    print(f"{kind}: samples a second of processor time: {speed}")
    for name, found in row["ratio"].items():
        times = "" if min(found.values()) >= AIM else "not "
        print(
            f"  {found['processor']:.3f} of {name} in processor time, {found['wall']:.3f} by the wall clock: {times}"
            f"{AIM:g} times; matrix products alone would allow {row['most'][name]:.2f}"
        )
    print("  MFU " + ", ".join(f"{share:.2f} of {dtype}" for dtype, share in row["mfu"].items()))


def measure_loaders(folder: Path) -> dict[str, dict[str, float]]:
    """Samples a second of a worker process that reads our tars, and of one that draws scenes: medians of three."""
    size = load_config(config_file("clip")).stages[0].image_size
    crop = View(scenes_preprocess(size), RandomCrop((0.9, 1.0), interpolation="bicubic"))
    tars = open_source(TarData(str(folder / "tars")), size)
    scenes = open_source(SceneData(SEED, SCENES), size)
    tokenizer = load_tokenizer(folder / "tokenizer.json")
    plain = View(scenes_preprocess(size))
    return {"tars": loader_rate(tars, crop, tokenizer), "scenes": loader_rate(scenes, plain, tokenizer)}


def loader_rate(source: Source, view: View, tokenizer: DomainTokenizer) -> dict[str, float]:
    """By the wall clock, and by the time of the worker and this process together on a processor."""
    config = load_config(config_file("clip"))
    plan = Plan(len(source), config.batch_size, config.seed)
    rates: dict[str, list[float]] = {clock: [] for clock in CLOCKS}
    for _ in range(3):
        began = time.perf_counter(), busy()
        loader = batches(source, plan, view, tokenizer, range(plan.steps_per_epoch), workers=1)
        samples = sum(int(batch.valid.sum()) for batch in loader)
        # A worker's time is known once it has ended.
        del loader
        for clock, start, end in zip(CLOCKS, began, (time.perf_counter(), busy()), strict=True):
            rates[clock].append(samples / (end - start))
    return {clock: statistics.median(found) for clock, found in rates.items()}


def busy() -> float:
    """Seconds that this process and its ended children have spent on a processor."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def missed(rows: Mapping[str, Mapping[str, Any]], loaders: Mapping[str, Mapping[str, float]]) -> list[str]:
    """A sentence for every bound that does not hold."""
    sentences = [
        f"{kind}: {found[clock]:.3f} times as fast as {name}, {clock} time: at least {LEAST['loop']:g} is wanted."
        for kind, row in rows.items()
        for name, found in row["ratio"].items()
        for clock in CLOCKS
        if not found[clock] >= LEAST["loop"]
    ]
    taken = loaders["tars"]["of_consumed"]
    if not taken >= LEAST["loader"]:
        sentences.append(f"The loader of tars gives {taken:.2f} of what a model takes: {LEAST['loader']:g} is wanted.")
    return sentences


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text(encoding="utf-8").splitlines() if listing.exists() else []
    cpu = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    packages = {name: version(name) for name in ("torch", "open_clip_torch", "webdataset", "pillow")}
    load = round(os.getloadavg()[0], 1)
    return {"cpu": cpu, "cores": os.cpu_count(), "load_before": load, "threads": 1, "dtype": "float32", **packages}


if __name__ == "__main__":
    sys.exit(main())
