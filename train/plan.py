"""What a run will take, without training: steps, epochs, parameters, memory, operations, time."""

from dataclasses import dataclass
from pathlib import Path

import torch

from models.errors import StudioError
from train.config import RunConfig, check_shares, resolved
from train.data.open import open_source
from train.data.sample import counted
from train.distributed import resolve_device
from train.flops import Cost, cost_of
from train.precision import stage_precision
from train.progress import shard_progress
from train.settings import SceneStream
from train.timing import measured_speed


@dataclass(frozen=True)
class Given:
    """A speed that is known: samples a second of all processes together."""

    samples_per_second: float


@dataclass(frozen=True)
class Measured:
    """A speed to be measured by a few steps of the run on this machine."""


@dataclass(frozen=True)
class Unknown:
    """No speed, and so no time."""


Speed = Given | Measured | Unknown


@dataclass(frozen=True)
class StagePlan:
    """One stage: how long it is and what a sample costs in it."""

    steps: int
    samples: int
    image_size: int
    cost: Cost


def plan(
    config: RunConfig, given: int, processes: int, speed: Speed, cache: Path | None = None
) -> list[tuple[str, str]]:
    """The plan of a run as (label, text); `given` is the size of the data, 0 to look at them.

    `cache` is the folder in which the run will look for the index of tar shards; None keeps none.

    Raises:
        StudioError: the data are not there or fill no batch, or processes or their parts cannot share a batch.
    """
    if processes < 1:
        raise StudioError(f"--processes {processes} trains nothing: use 1 or more.")
    check_shares(config, processes)
    config, samples = sized(config, given, cache)
    stages = stage_plans(config)
    return [*plan_lines(config, samples, stages, processes), ("time", _time(config, stages, processes, speed))]


def sized(config: RunConfig, samples: int, cache: Path | None = None) -> tuple[RunConfig, int]:
    """The resolved config and the number of samples of its data: as given, or found by looking.

    Raises:
        StudioError: the data are not there and their size was not given.
    """
    if isinstance(config.data, SceneStream):
        return config, config.samples
    if not samples:
        try:
            samples = len(open_source(config.data, config.stages[0].image_size, cache, shard_progress()))
        except StudioError as error:
            raise StudioError(f"{error} Without the data, give their size with --samples.") from error
    return resolved(config, samples), samples


def stage_plans(config: RunConfig) -> list[StagePlan]:
    """The stages of a resolved config."""
    return [
        StagePlan(
            stage.samples // config.batch_size,
            stage.samples,
            stage.image_size,
            cost_of(config.stage_model(stage), config.patch_dropout),
        )
        for stage in config.stages
    ]


def plan_lines(config: RunConfig, samples: int, stages: list[StagePlan], processes: int) -> list[tuple[str, str]]:
    """What can be said without knowing a speed, as (label, text)."""
    last, own = stages[-1].cost, config.batch_size // processes
    total = sum(stage.samples * stage.cost.training for stage in stages)
    parts = own / config.accumulation
    # In the order of Adam: weight, gradient, two moments; float32 each.
    standing = last.parameters * 4 * (5 if config.ema else 4)
    twice = config.grad_checkpointing
    most = max(stage.cost.checkpointed_bytes if twice else stage.cost.activation_bytes for stage in stages) * parts
    lengths = ", then ".join(f"{stage.steps:,} at {stage.image_size} pixels" for stage in stages)
    per_epoch = samples // config.batch_size
    epochs = sum(stage.steps for stage in stages) / per_epoch
    return [
        ("run", f"{config.name}: {config.title}"),
        ("data", f"{counted(samples, 'sample')}, {counted(per_epoch, 'step')} an epoch"),
        ("steps", f"{config.steps:,} of {config.batch_size:,} samples: {lengths}"),
        ("epochs", f"{epochs:.4g}, {config.samples:,} samples seen"),
        ("parameters", f"{last.parameters:,}"),
        (
            "operations",
            "; ".join(
                f"{(s.cost.vision + s.cost.text) / 1e9:.4g} GFLOP a sample at {s.image_size} pixels "
                f"(vision {s.cost.vision / 1e9:.4g}, text {s.cost.text / 1e9:.4g})"
                for s in {stage.image_size: stage for stage in stages}.values()
            )
            + (f", patch dropout {config.patch_dropout:g} counted" if config.patch_dropout else "")
            + f"; the run {total:.3g} FLOP, with backward passes",
        ),
        (
            "memory",
            f"{_bytes(standing)} a process for weights, gradients, moments{' and averages' if config.ema else ''}; "
            f"about {_bytes(most)} for activations of {own} samples in {config.accumulation} part"
            f"{'s' if config.accumulation > 1 else ''}{', computed twice,' if twice else ''} in float32, half of it in "
            "half precision (estimate)",
        ),
    ]


def _time(config: RunConfig, stages: list[StagePlan], processes: int, speed: Speed) -> str:
    match speed:
        case Given():
            seconds = config.samples / speed.samples_per_second
            return f"{duration(seconds)} at {speed.samples_per_second:g} samples a second (given)"
        case Measured():
            return _measured_time(config, stages, processes)
        case _:
            return "give --speed SAMPLES_A_SECOND, or --measure it"


def _measured_time(config: RunConfig, stages: list[StagePlan], processes: int) -> str:
    if config.threads:
        torch.set_num_threads(config.threads)
    device = resolve_device(config.device, 0)
    seconds, speeds = 0.0, {}
    for index, stage in enumerate(stages):
        kind = stage.image_size, stage_precision(config, index, device)
        if kind not in speeds:
            speeds[kind] = measured_speed(config, index, processes, device) * processes
        seconds += stage.samples / speeds[kind]
    told = ", ".join(
        f"{speed:.4g} samples a second at {size} pixels in {str(dtype).removeprefix('torch.')}"
        for (size, dtype), speed in speeds.items()
    )
    return (
        f"{duration(seconds)} at {told} (measured by steps of {config.batch_size // processes:,} samples on this "
        f"machine's {device.type}, for {processes} process{'es' if processes > 1 else ''} alike; without "
        "reading data)"
    )


def duration(seconds: float) -> str:
    """ "3 days 4 h", "2 h 5 min", "40 s"."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    if minutes < 60 * 24:
        return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
    return f"{counted(minutes // 1440, 'day')} {minutes % 1440 // 60} h"


def _bytes(count: float) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"
