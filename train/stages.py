"""The training of a stage: the model at its picture size, with everything around it that a step needs."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from models.build import ClipModule
from models.checkpoints import CheckpointInfo
from models.initialization import initial_clip
from models.patch_dropout import set_patch_dropout
from train.checkpointing import State
from train.compiling import compile_blocks
from train.config import RunConfig
from train.data.batch import normalised
from train.data.config import SceneData
from train.distributed import World
from train.ema import Ema
from train.feed import Data, preprocess_of
from train.finite import Skip, Stop
from train.optim import build_optimizer
from train.precision import stage_precision
from train.resolution import at_resolution
from train.settings import SceneStream
from train.state import restore
from train.step import StepRules, Trainer, make_trainer


@dataclass(frozen=True, eq=False)
class Learner:
    """A model, its optimiser and its moving average, if any."""

    clip: ClipModule
    optimizer: torch.optim.Optimizer
    ema: Ema | None


def new_learner(config: RunConfig, state: State | None, device: torch.device) -> Learner:
    """A learner as the seed makes it, or as it was saved.

    Raises:
        StudioError: the state is of another model.
    """
    # A state was saved after its last step, that is at the picture size of that step.
    stage = config.stage_of(max(0, state.facts.step - 1) if state else 0)
    clip = initial_clip(config.stage_model(stage), config.seed, config.initialization).to(device).train()
    optimizer = build_optimizer(clip, config.optim)
    ema = Ema(clip, config.ema) if config.ema else None
    if state:
        restore(state, clip, optimizer, ema)
    return Learner(clip, optimizer, ema)


def stage_trainer(config: RunConfig, index: int, learner: Learner, scaler: dict[str, Any], world: World) -> Trainer:
    """The trainer of stage `index`: a collective. `scaler` is the state of the one before; {} for none."""
    stage = config.stages[index]
    size = config.stage_model(stage)
    clip, optimizer, ema = at_resolution(learner.clip, learner.optimizer, learner.ema, size, config.optim)
    set_patch_dropout(clip, config.patch_dropout)
    if config.grad_checkpointing:
        clip.set_grad_checkpointing(True)
    if config.compile:
        compile_blocks(clip)
    rules = StepRules(
        config.gathering,
        config.accumulation,
        stage_precision(config, index, world.device),
        config.optim.grad_clip,
        Skip(config.skip_non_finite) if config.skip_non_finite else Stop(),
    )
    preprocess = preprocess_of(config, stage.image_size)
    prepare = partial(normalised, mean=preprocess.mean, std=preprocess.std)
    trainer = make_trainer(world, clip, optimizer, rules, ema, prepare)
    if scaler:
        trainer.scaler.load_state_dict(scaler)
    return trainer


@contextmanager
def averaged(trainer: Trainer) -> Iterator[None]:
    """While open, the model computes with the average of its weights, if there is one."""
    if trainer.ema is None:
        yield
        return
    with trainer.ema.in_place_of(trainer.clip):
        yield


def info_of(data: Data, index: int) -> CheckpointInfo:
    """What a checkpoint says of the model of stage `index`."""
    config = data.config
    stage = config.stages[index]
    scenes = isinstance(config.data, SceneStream | SceneData)
    return CheckpointInfo(
        config.title,
        "scenes" if scenes else "photographs",
        config.stage_model(stage),
        preprocess_of(config, stage.image_size),
        data.tokenizer.rule,
    )
