"""A training run as one file: TOML -> frozen dataclasses, every key checked, any of them overridden by key=value."""

import math
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from models.config import ModelConfig
from models.errors import StudioError
from models.plain import from_plain

Precision = Literal["auto", "float32", "bfloat16"]


@dataclass(frozen=True)
class Stage:
    """A part of a run: `samples` pictures of `image_size` pixels a side.

    Attributes:
        lr: 0 goes on with the cosine of the stages before; above 0, a cosine of its own begins at this rate, after a
            warm-up of a tenth of its steps, and spans the stages up to the next that has a rate.
        drawn: pixels a side at which scenes are drawn and then preprocessed as any picture is; 0 draws them at
            `image_size`.
        weights: how often a scene holds one, two, three and four objects.
    """

    samples: int
    image_size: int
    lr: float = 0.0
    drawn: int = 0
    weights: tuple[float, float, float, float] = (0.45, 0.30, 0.15, 0.10)


@dataclass(frozen=True)
class OptimConfig:
    """AdamW with linear warm-up to `lr` over `warmup_steps`, then a cosine to `final_lr` at the last step.

    `grad_clip` bounds the total gradient norm. Weights that are matrices decay, everything else does not.

    Raises:
        StudioError: a value with which nothing would be learned.
    """

    lr: float
    warmup_steps: int
    final_lr: float = 0.0
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-8
    grad_clip: float = 1.0

    def __post_init__(self) -> None:
        for name, low, high in (
            ("lr", 0.0, math.inf),
            ("grad_clip", 0.0, math.inf),
            ("eps", 0.0, 1.0),
            ("beta1", -1.0, 1.0),
            ("beta2", -1.0, 1.0),
        ):
            if not low < getattr(self, name) < high:
                raise StudioError(
                    f"optim.{name} = {getattr(self, name)} must lie above {max(low, 0)} and below {high}."
                )
        if min(self.warmup_steps, self.final_lr, self.weight_decay) < 0:
            raise StudioError("optim.warmup_steps, final_lr and weight_decay cannot be below 0.")


@dataclass(frozen=True)
class DataConfig:
    """Scenes made on the fly: sample i of the run is scene i of `seed`, so the order is a function of the seed.

    `tokenizer_captions` captions of the same seed train the tokenizer.
    """

    seed: int
    tokenizer_captions: int = 20_000


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides the result of a training run.

    Attributes:
        name: of the run's folder and of the model.
        title: how a person reads it.
        seed: of the initial weights.
        batch_size: samples a step; all of them are each other's negatives.
        precision: "auto" takes bfloat16 autocast where the processor computes in it, float32 elsewhere.
        threads: CPU threads of a process; 0 leaves PyTorch's choice.
        save_minutes: time between two writings of the resume state.
        stop_after: stop after this many steps of the full schedule; 0 runs to the end.

    Raises:
        StudioError: no stage, or a stage that is not a whole number of batches or that patches do not tile.
    """

    name: str
    title: str
    seed: int
    batch_size: int
    model: ModelConfig
    stages: tuple[Stage, ...]
    optim: OptimConfig
    data: DataConfig
    precision: Precision = "auto"
    threads: int = 0
    save_minutes: float = 5.0
    stop_after: int = 0

    def __post_init__(self) -> None:
        if min(self.threads, self.stop_after, self.save_minutes, self.seed, self.data.seed) < 0:
            raise StudioError("threads, stop_after, save_minutes and seeds cannot be below 0.")
        if not self.stages:
            raise StudioError("The run has no stages: add [[stages]] with samples and image_size.")
        if self.batch_size < 2:
            raise StudioError(f"batch_size = {self.batch_size} has no negatives to contrast with: use 2 or more.")
        for stage in self.stages:
            if stage.samples < 1 or stage.samples % self.batch_size:
                raise StudioError(
                    f"A stage of {stage.samples} samples is not a whole number of batches of {self.batch_size}: "
                    f"use {max(1, round(stage.samples / self.batch_size)) * self.batch_size}."
                )
            self.stage_model(stage)
        first = self.cosine_of(0)[2]
        if self.optim.warmup_steps >= first:
            raise StudioError(f"warmup_steps = {self.optim.warmup_steps} leaves nothing of {first} steps: use fewer.")
        if self.stages[0].lr:
            raise StudioError("The first stage takes its rate from optim.lr: leave its lr out.")
        if any(min(stage.lr, stage.drawn) < 0 for stage in self.stages):
            raise StudioError("lr and drawn of a stage cannot be below 0.")

    @property
    def steps(self) -> int:
        """Optimiser steps of all stages."""
        return sum(stage.samples for stage in self.stages) // self.batch_size

    @property
    def samples(self) -> int:
        """Samples of all stages."""
        return sum(stage.samples for stage in self.stages)

    def stage_of(self, step: int) -> Stage:
        """The stage in which step `step` (from 0) is taken."""
        end = 0
        for stage in self.stages:
            end += stage.samples // self.batch_size
            if step < end:
                return stage
        return self.stages[-1]

    def cosine_of(self, step: int) -> tuple[OptimConfig, int, int]:
        """The cosine in which step `step` (from 0) is taken: its settings, the step within it, its steps."""
        parts: list[tuple[OptimConfig, int]] = []
        for stage in self.stages:
            steps = stage.samples // self.batch_size
            if stage.lr > 0 and parts:
                parts.append((replace(self.optim, lr=stage.lr, warmup_steps=max(1, steps // 10)), steps))
            elif parts:
                parts[-1] = (parts[-1][0], parts[-1][1] + steps)
            else:
                parts.append((self.optim, steps))
        for optim, steps in parts:
            if step < steps:
                return optim, step, steps
            step -= steps
        raise IndexError(step)

    def stage_model(self, stage: Stage) -> ModelConfig:
        """The model at a stage's picture size."""
        return replace(self.model, vision=replace(self.model.vision, image_size=stage.image_size))


def load_config(path: Path, overrides: Iterable[str] = ()) -> RunConfig:
    """Read a TOML file and apply overrides such as `optim.lr=5e-4`.

    Raises:
        StudioError: no such file, not TOML, or a key or value that does not fit; the nearest key is named.
    """
    try:
        data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise StudioError(f"There is no config at {path}: see train/configs for those that come along.") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise StudioError(f"{path} is not a TOML config: {error}.") from error
    for override in overrides:
        _override(data, override)
    return from_plain(RunConfig, data, path.name)


def _override(data: dict[str, Any], override: str) -> None:
    """Set one dotted key; the value is read as TOML, or as text where it is not TOML."""
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise StudioError(f"{override!r} is not a setting: write key=value, as optim.lr=5e-4.")
    try:
        value: Any = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    *path, last = key.split(".")
    table = data
    for part in path:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise StudioError(f"{override!r} cannot be set: {part!r} is a value, not a table of settings.")
    table[last] = value
