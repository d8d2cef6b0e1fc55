"""What differential attention costs beside plain attention: `python benchmarks/attention.py [--check]`.

A core is timed forward and backward: from views of the projections, Q, K (B, H, 2, N, d), V (B, H, N, 2d) and lambda
for a differential one, Q, K, V (B, heads, N, d) for a plain one, to the heads' output laid out as (B, N, D), and from a
gradient of that back to gradients of the projections (B, N, D). Head norms, projections and masks are outside. The
transcription is the formula as it is written: both softmaxes over all raw heads, then a view, and the difference. A
step is forward, contrastive loss, backward and AdamW of a whole ViT-B/16 CLIP or DiffCLIP, for eight pairs.

One thread, and its processor time, which leaves out the time in which other programs ran. All that is compared is
timed in turn in every round, as the fastest of some calls; a round gives one ratio for each pair, and the median
over the rounds counts. "paths" are the forms of the differential core that the table in models/attention_core.py
chooses from. Prints the ratios and writes `benchmarks/results/attention.json`; with `--check` it exits with 1 and names
each bound that is missed.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Python puts this script's folder first, where other scripts may have the names of packages.
sys.path.remove(str(Path(__file__).resolve().parent))
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import Tensor  # noqa: E402

from models.attention_core import (  # noqa: E402
    PATHS,
    Explicit,
    TwoCalls,
    Walk,
    Work,
    differential_heads,
    kind_of,
    path_for,
)
from models.attention_core import Path as Form  # noqa: E402
from models.attention_walk import tiling  # noqa: E402
from models.build import build_clip  # noqa: E402
from models.config import ModelConfig, TextConfig, VisionConfig  # noqa: E402

# What must hold, for every shape and dtype: the time of ours over the time of the other.
BOUNDS = {"fastest plain core": 1.15, "transcription": 0.8, "CLIP step": 1.05}

# (B, N, D, raw heads): a layer of ViT-B/16, a layer of a small tower in training, one whose maps fit a tile.
LARGE, SMALL, TINY = (16, 197, 768, 12), (128, 65, 192, 6), (64, 17, 128, 4)
CHUNKS = {LARGE: (1, 4), SMALL: (8, 32)}
DTYPES = (torch.float32, torch.bfloat16)
ROUNDS, CALLS = {"quick": 15, "slow": 5, "step": 9}, {"quick": 3, "slow": 1, "step": 1}
STEP_BATCH = 8
RESULTS = ROOT / "benchmarks" / "results" / "attention.json"

Shape = tuple[int, int, int, int]
Run = Callable[[], None]
Times = dict[str, list[float]]


def timed(runs: Mapping[str, Run], rounds: int, calls: int) -> Times:
    """Seconds of the fastest of `calls` calls of each, for every round; every other round in reverse order."""
    for run in runs.values():
        run()
    seconds: Times = {name: [] for name in runs}
    for turn in range(rounds):
        for name in list(runs)[:: 1 if turn % 2 else -1]:
            taken = []
            for _ in range(calls):
                start = time.thread_time()
                runs[name]()
                taken.append(time.thread_time() - start)
            seconds[name].append(min(taken))
    return seconds


def ratio(times: Times, ours: str, other: str) -> float:
    """The median over rounds of our time over the other's."""
    return statistics.median(a / b for a, b in zip(times[ours], times[other], strict=True))


def milliseconds(times: Times) -> dict[str, float]:
    """The median over rounds of each."""
    return {name: round(1000 * statistics.median(seconds), 2) for name, seconds in times.items()}


def sdpa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """PyTorch's fused attention."""
    return F.scaled_dot_product_attention(q, k, v)


def explicit(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Plain attention with its map as a tensor."""
    return torch.softmax((q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1), -1) @ v


def by_chunks(size: int) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Explicit plain attention for `size` samples at a time."""
    return lambda q, k, v: torch.cat(
        [explicit(*part) for part in zip(q.split(size), k.split(size), v.split(size), strict=True)]
    )


def in_float32(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The fused attention of the tensors in float32: none of the forms that the bound is about, told beside them."""
    return sdpa(q.float(), k.float(), v.float()).to(q.dtype)


def transcription(q: Tensor, k: Tensor, v: Tensor, lam: Tensor) -> Tensor:
    """The differential formula as written: one softmax over all raw heads, a view, the difference."""
    batch, pairs, _, tokens, width = q.shape
    raw_q, raw_k = q.reshape(batch, 2 * pairs, tokens, width), k.reshape(batch, 2 * pairs, tokens, width)
    maps = torch.softmax((raw_q * width**-0.5) @ raw_k.transpose(-2, -1), -1)
    maps = maps.view(batch, pairs, 2, tokens, tokens)
    return (maps[:, :, 0] - lam.to(maps.dtype) * maps[:, :, 1]) @ v


def ours(form: Form | None) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """The differential core in a form, or in that which the table names."""
    return lambda q, k, v, lam: differential_heads(
        q, k, v, lam, q.shape[-1] ** -0.5, None, form if form is not None else path_for(q, None)
    )


def there_and_back(core: Callable[..., Tensor], shape: Shape, dtype: torch.dtype, differential: bool) -> Run:
    """One forward and backward pass of a core over the same random projections."""
    batch, tokens, width, heads = shape
    random = torch.Generator().manual_seed(0)
    leaves = [torch.randn(batch, tokens, width, generator=random).to(dtype).requires_grad_() for _ in range(3)]
    upstream = torch.randn(batch, tokens, width, generator=random).to(dtype)
    lam = torch.tensor(0.8, requires_grad=True)

    def plain() -> Tensor:
        return core(*(x.view(batch, tokens, heads, -1).transpose(1, 2) for x in leaves))

    def paired() -> Tensor:
        q, k = (x.view(batch, tokens, heads // 2, 2, -1).permute(0, 2, 3, 1, 4) for x in leaves[:2])
        return core(q, k, leaves[2].view(batch, tokens, heads // 2, -1).transpose(1, 2), lam)

    forward = paired if differential else plain

    def run() -> None:
        out = forward().transpose(1, 2).reshape(batch, tokens, width)
        out.backward(upstream.to(out.dtype))
        for leaf in (*leaves, lam):
            leaf.grad = None

    return run


def speed(dtype: torch.dtype) -> str:
    """The row of ROUNDS and CALLS: emulated bfloat16 is slow."""
    return "slow" if kind_of(torch.device("cpu"), dtype) == "cpu bfloat16 emulated" else "quick"


def measure_core(shape: Shape, dtype: torch.dtype) -> dict[str, object]:
    """Our core beside plain ones and the transcription."""
    plain = {"SDPA": sdpa, "explicit": explicit, **{f"explicit by {n}": by_chunks(n) for n in CHUNKS[shape]}}
    told = {"SDPA in float32": in_float32} if dtype == torch.bfloat16 else {}
    runs = {name: there_and_back(core, shape, dtype, False) for name, core in {**plain, **told}.items()}
    runs["transcription"] = there_and_back(transcription, shape, dtype, True)
    runs["ours"] = there_and_back(ours(None), shape, dtype, True)
    times = timed(runs, ROUNDS[speed(dtype)], CALLS[speed(dtype)])
    ratios = {name: ratio(times, "ours", name) for name in runs if name != "ours"}
    fastest = max(plain, key=lambda name: ratios[name])
    return {
        "shape": shape,
        "dtype": str(dtype),
        "milliseconds": milliseconds(times),
        "ratios": {name: round(value, 3) for name, value in ratios.items()},
        "fastest plain": fastest,
        "bounded": {"fastest plain core": ratios[fastest], "transcription": ratios["transcription"]},
    }


def measure_paths(shape: Shape, dtype: torch.dtype) -> dict[str, object]:
    """Every form of our core, for the table of paths."""
    forms: tuple[Form, ...] = (Explicit(), TwoCalls(), Walk(None))
    if dtype == torch.bfloat16:
        forms += (Walk(torch.float32),)
    times = timed(
        {repr(form): there_and_back(ours(form), shape, dtype, True) for form in forms},
        ROUNDS[speed(dtype)],
        CALLS[speed(dtype)],
    )
    batch, tokens, width, heads = shape
    q = torch.empty(batch, heads // 2, 2, tokens, width // heads, dtype=dtype)
    kind, taken = kind_of(q.device, dtype), path_for(q, None)
    work: Work = "one tile" if fits(q) else "tiles"
    assert kind is not None
    assert PATHS[kind, work] == taken
    return {"kind": kind, "work": work, "shape": shape, "taken": repr(taken), "milliseconds": milliseconds(times)}


def fits(q: Tensor) -> bool:
    """Whether a batch is one tile of the walk."""
    how = tiling(q, Walk(None).tile_bytes)
    return len(q) <= how.samples and q.shape[1] <= how.pairs


def measure_step() -> dict[str, object]:
    """A training step of DiffCLIP ViT-B/16 beside one of CLIP, in float32."""
    clip = ModelConfig(512, VisionConfig(12, 768, 64, 16, 224), TextConfig(12, 512, 8, 49408, 77))
    diffclip = replace(
        clip,
        vision=replace(clip.vision, attention="differential"),
        text=replace(clip.text, attention="differential"),
    )
    times = timed({"CLIP": step_of(clip), "DiffCLIP": step_of(diffclip)}, ROUNDS["step"], CALLS["step"])
    found = ratio(times, "DiffCLIP", "CLIP")
    return {
        "batch": STEP_BATCH,
        "model": {"clip": asdict(clip)},
        "milliseconds": milliseconds(times),
        "ratios": {"CLIP step": round(found, 3)},
        "bounded": {"CLIP step": found},
    }


def step_of(config: ModelConfig) -> Run:
    """A training step on the same random pictures and texts."""
    model = build_clip(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.1)
    random = torch.Generator().manual_seed(0)
    pixels = torch.randn(STEP_BATCH, 3, *config.vision.input_size, generator=random)
    texts = torch.randint(1, config.text.vocab_size, (STEP_BATCH, config.text.context_length), generator=random)

    def run() -> None:
        image, text = model.encode_image(pixels, normalize=True), model.encode_text(texts, normalize=True)
        logits, labels = model.logit_scale.exp() * image @ text.T, torch.arange(STEP_BATCH)
        optimizer.zero_grad(set_to_none=True)
        ((F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2).backward()
        optimizer.step()

    return run


def machine() -> dict[str, object]:
    """What the numbers were measured on."""
    found = torch.cpu.get_capabilities()
    flags = ("avx2", "fma3", "avx512_f", "avx512_bf16", "amx_bf16")
    return {
        "cpu": found.get("cpu_name") or platform.processor() or platform.machine(),
        "flags": {name: bool(found.get(name)) for name in flags},
        "l2_cache_bytes": found.get("l2_cache_size"),
        "system": platform.system(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }


def missed(title: str, bounded: Mapping[str, float]) -> list[str]:
    """Prints each bounded ratio; sentences about those that are too large."""
    for name, value in bounded.items():
        print(f"{title}: {value:.2f} of the {name}, at most {BOUNDS[name]:g}")
    return [
        f"{title}: {value:.3f} of the {name}, but {BOUNDS[name]:g} is the bound"
        for name, value in bounded.items()
        if value > BOUNDS[name]
    ]


def main() -> int:
    """Measures, prints, writes the results; the exit status."""
    parser = argparse.ArgumentParser(description="Times differential attention beside plain attention.")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a bound is missed")
    check = parser.parse_args().check
    torch.set_num_threads(1)
    failures: list[str] = []
    cores, paths = [], []
    for dtype in DTYPES:
        for shape in (LARGE, SMALL):
            core = measure_core(shape, dtype)
            bounded: dict[str, float] = core.pop("bounded")  # pyright: ignore[reportAssignmentType]
            failures += missed(f"{shape} {dtype}", bounded)
            print(f"  {core['milliseconds']} ms")
            cores.append(core)
    for dtype in (*DTYPES, torch.float64):
        for shape in (LARGE, SMALL, TINY):
            path = measure_paths(shape, dtype)
            print(f"{path['kind']}, {path['work']}, {shape}: {path['milliseconds']} ms, taken {path['taken']}")
            paths.append(path)
    step = measure_step()
    bounded = step.pop("bounded")  # pyright: ignore[reportAssignmentType]
    failures += missed(f"DiffCLIP ViT-B/16 step of {STEP_BATCH}", bounded)
    print(f"  {step['milliseconds']} ms")
    results = {"machine": machine(), "bounds": BOUNDS, "rounds": ROUNDS, "fastest of": CALLS}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(
        json.dumps({**results, "cores": cores, "paths": paths, "step": step}, indent=2) + "\n", encoding="utf-8"
    )
    for sentence in failures:
        print(f"MISSED  {sentence}", file=sys.stderr)
    return int(bool(failures) and check)


if __name__ == "__main__":
    raise SystemExit(main())
