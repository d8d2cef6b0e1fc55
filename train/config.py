"""A training run as one file: TOML -> frozen dataclasses, every key checked, any of them overridden by key=value."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from models.config import ModelConfig
from models.errors import StudioError
from models.initialization import Initialization
from models.plain import from_plain
from models.vocabulary import Truncation
from train.data.config import Augment, CsvData, Plain, SceneData, TarData, setting
from train.data.skips import SkipLimit
from train.evaluation.zero_shot import SEED
from train.loss import Gathering
from train.scenes.scene import WEIGHTS
from train.settings import EvaluationConfig, LogConfig, OptimConfig, Pictures, Precision, SceneStream, Stage

CONFIGS = Path(__file__).parent / "configs"


@dataclass(frozen=True)
class RunConfig:
    """A training run. What comes after `skip` decides how and where it runs; the rest decides its result.

    Attributes:
        name: of the run's folder and of the model.
        title: how a person reads it.
        seed: of the initial weights, of the order of the data and of what is drawn in a step.
        batch_size: samples a step over all processes; all of them are each other's negatives.
        pictures: how the model wants them; None for scenes' own, or for `Pictures()` with any other data.
        augment: what is done with pictures in training.
        truncation: what becomes of too long a caption with CLIP's vocabulary.
        initialization: how the weights begin, "matched" or "published".
        gathering: the gradient over processes, "full" or "published".
        accumulation: parts in which a process's batch is encoded.
        precision: what the towers compute in; "auto" takes bfloat16 where the device computes in it, float16 on an
            older GPU, float32 elsewhere.
        patch_dropout: share of patches that the vision tower does not see while it trains.
        ema: decay of the weights' moving average, which then is what the checkpoint holds; 0 for none.
        skip_non_finite: steps in a row that may be left out because they are not finite; 0 stops at the first.
        skip: how many samples may be unreadable.
        grad_checkpointing: compute activations twice instead of keeping them.
        compile: compile the blocks of both towers.
        device: "auto", "cpu", "cuda".
        threads: CPU threads of a process; 0 leaves PyTorch's choice.
        workers: processes of each process that read data.
        save_minutes, save_steps: time and steps between two writings of the resume state; 0 for none.
        keep_every: steps between two copies of the weights that stay, as `models.load_model` opens them, in
            steps/STEP of the run's folder; 0 for none. The page follows the attention of a run through them.
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
    data: SceneStream | TarData | CsvData | SceneData
    pictures: Pictures | None = None
    augment: Augment = field(default_factory=Plain)
    truncation: Truncation = "keep_end"
    initialization: Initialization = "matched"
    gathering: Gathering = "full"
    accumulation: int = 1
    precision: Precision = "auto"
    patch_dropout: float = 0.0
    ema: float = 0.0
    skip_non_finite: int = 0
    skip: SkipLimit = field(default_factory=SkipLimit)
    grad_checkpointing: bool = False
    compile: bool = False
    device: str = "auto"
    threads: int = 0
    workers: int = 0
    save_minutes: float = 5.0
    save_steps: int = 0
    keep_every: int = 0
    stop_after: int = 0
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    log: LogConfig = field(default_factory=LogConfig)

    def __post_init__(self) -> None:
        often = (self.stop_after, self.save_minutes, self.save_steps, self.keep_every)
        counts = (self.threads, self.workers, self.seed, *often)
        if min(*counts, self.skip_non_finite, self.evaluation.every, getattr(self.data, "seed", 0)) < 0:
            raise StudioError(
                "threads, workers, stop_after, save_minutes, save_steps, keep_every, skip_non_finite, evaluation.every "
                "and seeds cannot be below 0."
            )
        if not self.stages:
            raise StudioError("The run has no stages: add [[stages]] with samples and image_size.")
        if self.batch_size < 2:
            raise StudioError(f"batch_size = {self.batch_size} has no negatives to contrast with: use 2 or more.")
        if self.accumulation < 1 or not 0 <= self.ema < 1 or not 0 <= self.patch_dropout < 1:
            raise StudioError(
                f"accumulation = {self.accumulation} must be 1 or more, ema = {self.ema} and patch_dropout = "
                f"{self.patch_dropout} from 0 to below 1."
            )
        _check_seed(self.data)
        for stage in self.stages:
            self._check(stage)
            self.stage_model(stage)
        if self.stages[0].lr:
            raise StudioError("The first stage takes its rate from optim.lr: leave its lr out.")
        if self.is_resolved:
            first = self.cosine_of(0)[2]
            if self.optim.warmup_steps >= first:
                raise StudioError(
                    f"warmup_steps = {self.optim.warmup_steps} leaves nothing of {first} steps: use fewer."
                )

    def _check(self, stage: Stage) -> None:
        """Whether a stage has a length that batches can fill, and only what its data know of."""
        if min(stage.samples, stage.epochs, stage.lr, stage.drawn) < 0:
            raise StudioError("samples, epochs, lr and drawn of a stage cannot be below 0.")
        if (stage.samples > 0) == (stage.epochs > 0):
            raise StudioError(
                f"A stage has samples = {stage.samples} and epochs = {stage.epochs:g}: give one of the two, above 0."
            )
        if stage.samples % self.batch_size:
            raise StudioError(
                f"A stage of {stage.samples} samples is not a whole number of batches of {self.batch_size}: "
                f"use {max(1, round(stage.samples / self.batch_size)) * self.batch_size}."
            )
        stream = isinstance(self.data, SceneStream)
        if stream and stage.epochs:
            raise StudioError("A stage of scenes without end has no epochs: give samples, or data.scenes and count.")
        if not stream and (stage.drawn or stage.weights != WEIGHTS):
            raise StudioError("drawn and weights of a stage are for scenes without end (data.seed): leave them out.")

    @property
    def is_resolved(self) -> bool:
        """Whether every length is in samples and steps."""
        return not self.optim.warmup_epochs and not any(stage.epochs for stage in self.stages)

    @property
    def steps(self) -> int:
        """Optimiser steps of all stages of a resolved config."""
        return self.samples // self.batch_size

    @property
    def samples(self) -> int:
        """Samples of all stages of a resolved config."""
        return sum(stage.samples for stage in self.stages)

    def stage_index(self, step: int) -> int:
        """Which stage step `step` (from 0) is taken in."""
        end = 0
        for index, stage in enumerate(self.stages):
            end += stage.samples // self.batch_size
            if step < end:
                return index
        return len(self.stages) - 1

    def first_step(self, index: int) -> int:
        """The step (from 0) with which stage `index` begins, or the number of steps for the number of stages."""
        return sum(stage.samples for stage in self.stages[:index]) // self.batch_size

    def stage_of(self, step: int) -> Stage:
        """The stage in which step `step` (from 0) is taken."""
        return self.stages[self.stage_index(step)]

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


def _check_seed(data: SceneStream | TarData | CsvData | SceneData) -> None:
    """Refuse to train on the scenes that models are measured on."""
    seed = data.seed if isinstance(data, SceneStream) else data.scenes if isinstance(data, SceneData) else None
    if seed == SEED:
        raise StudioError(
            f"Scenes of seed {seed} are kept for evaluation, and a model that was trained on them could not be "
            "measured: use another seed for data."
        )


def check_shares(config: RunConfig, processes: int) -> None:
    """Whether a batch can be shared by processes, and a process's share by its parts.

    Raises:
        StudioError: not equally.
    """
    own, left = divmod(config.batch_size, processes)
    if left:
        raise StudioError(
            f"A batch of {config.batch_size:,} cannot be shared equally by {processes} processes: use a divisor."
        )
    if own % config.accumulation:
        raise StudioError(
            f"accumulation = {config.accumulation} does not split a process's {own:,} samples (batch_size = "
            f"{config.batch_size:,} over {processes}) into equal parts: use a divisor of {own:,}."
        )


def resolved(config: RunConfig, samples: int) -> RunConfig:
    """The config with samples and steps in place of epochs, for data of `samples` samples.

    An epoch is as many whole batches as the data hold.

    Raises:
        StudioError: the data hold less than a batch, or a stage would have no step.
    """
    per_epoch = samples // config.batch_size
    if not per_epoch:
        raise StudioError(
            f"The data hold {samples:,} samples, fewer than one batch of {config.batch_size:,}: use a smaller batch, "
            "or more data."
        )
    if config.is_resolved:
        return config
    lengths = [stage.samples or round(stage.epochs * per_epoch) * config.batch_size for stage in config.stages]
    if not all(lengths):
        raise StudioError(f"A stage is shorter than one step; an epoch has {per_epoch:,}: raise its epochs.")
    stages = tuple(replace(s, samples=n, epochs=0.0) for s, n in zip(config.stages, lengths, strict=True))
    warmup = config.optim.warmup_steps or round(config.optim.warmup_epochs * per_epoch)
    return replace(config, stages=stages, optim=replace(config.optim, warmup_steps=warmup, warmup_epochs=0.0))


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
    """Set one dotted key."""
    key, value = setting(override, "optim.lr=5e-4")
    *path, last = key.split(".")
    table = data
    for part in path:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise StudioError(f"{override!r} cannot be set: {part!r} is a value, not a table of settings.")
    table[last] = value
