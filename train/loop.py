"""The training loop: from a config to a run's folder (run_folder.py says what lies in it), on one process or many.

A run that stopped, by a signal or by a fall of the machine, goes on where it was saved as if nothing had happened: its
data are a function of the step, and so are its random numbers.
"""

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from models.checkpoints import save_checkpoint
from train.accumulate import Samples
from train.checkpointing import Facts, load_state, save_state
from train.config import RunConfig
from train.data.batch import Batch
from train.data.skips import Tally, check_counts
from train.distributed import World, any_rank, barrier, gather, open_world
from train.feed import INDEX, Data, Feed, open_data
from train.flops import cost_of, matmul_rate
from train.meter import Meter
from train.optim import learning_rate
from train.precision import resolve_precision
from train.run_folder import CHECKPOINT, check_folder, claim_folder, run_record
from train.signals import stop_signals
from train.stages import Learner, averaged, info_of, new_learner, stage_trainer
from train.state import capture, seed_step
from train.step import StepResult, Trainer, train_step
from train.together import main_alone, main_first
from train.watching import Watch, evaluate_due, open_watch


def fit(config: RunConfig, run: Path) -> Path:
    """Train, or go on where the run in this folder stopped; returns the checkpoint folder, once finished.

    Under torchrun this is called by every process. A signal (SIGINT, SIGTERM, SIGUSR1) to any of them lets the step
    finish everywhere, saves the state once and returns the run's folder.

    Raises:
        StudioError: the folder holds another run, the data cannot be used, or the loss is no longer finite.
    """
    if config.threads:
        torch.set_num_threads(config.threads)
    with stop_signals() as stopped, open_world(config.device) as world:
        main_alone(world, lambda: check_folder(run))
        data = main_first(world, lambda: open_data(config, run.parent / INDEX))
        precision = resolve_precision(config.precision, world.device)
        record = run_record(data.config, precision, data.record())
        main_alone(world, lambda: claim_folder(run, record))
        state = load_state(run)
        learner = new_learner(data.config, state, world.device)
        facts = state.facts if state else Facts(0)
        # Nobody may write before all have read.
        barrier(world)
        rate = matmul_rate(world.device, precision, config.log.rate_seconds) if config.log.rate_seconds else 0.0
        with open_watch(data, run, world, facts.step, record) as watch:
            return _Training(data, run, world, precision, rate, stopped, watch).go_on(learner, facts)


class _Training:
    """One start of a run: what stays the same from its first step to its last."""

    def __init__(
        self,
        data: Data,
        run: Path,
        world: World,
        precision: torch.dtype,
        rate: float,
        stopped: Callable[[], bool],
        watch: Watch,
    ) -> None:
        self.data, self.config, self.run, self.world = data, data.config, run, world
        self.precision, self.rate, self.stopped, self.watch = precision, rate, stopped, watch
        self.end = min(self.config.steps, self.config.stop_after or self.config.steps)
        self.saved_step, self.saved_at = -1, time.monotonic()

    def go_on(self, learner: Learner, facts: Facts) -> Path:
        """All stages from where the facts stand to the end, or to a stop; returns what `fit` does."""
        self.saved_step = facts.step
        index = self.config.stage_index(max(0, facts.step - 1))
        trainer = self._trainer(index, learner, facts.scaler)
        while True:
            facts = self._stage(trainer, index, facts)
            if facts.step >= self.end or any_rank(self.world, self.stopped()):
                break
            # A state is of the picture size of its last step: none may be taken once the next stage has another.
            self._save(trainer, facts)
            index += 1
            learner = Learner(trainer.clip, trainer.optimizer, trainer.ema)
            trainer = self._trainer(index, learner, trainer.scaler.state_dict())
        # All wait until it is written, so that none ends while another still works.
        main_alone(self.world, lambda: self._save(trainer, facts))
        if facts.step < self.config.steps or self._evaluation_is_due(facts.step):
            return self.run
        main_alone(self.world, lambda: write_checkpoint(self.data, trainer, self.run))
        return self.run / CHECKPOINT

    def _trainer(self, index: int, learner: Learner, scaler: dict) -> Trainer:
        return stage_trainer(self.config, index, learner, scaler, self.world, self.precision)

    def _stage(self, trainer: Trainer, index: int, facts: Facts) -> Facts:
        """The steps of a stage that are left, as far as this start goes; returns where they have led."""
        config, world = self.config, self.world
        feed = self.data.stage(index, world)
        steps = range(facts.step, max(facts.step, min(self.end, config.first_step(index + 1))))
        flops = cost_of(config.stage_model(config.stages[index])).training
        meter = Meter(config.batch_size, world.size, world.device, flops, self.rate)
        self.watch.enter(feed)
        self._evaluate(trainer, index, facts)
        batches = feed.batches(steps, config.workers, world.device.type == "cuda") if steps else iter(())
        for step in steps:
            if any_rank(world, self.stopped()):
                break
            began = time.perf_counter()
            batch = next(batches)
            received = time.perf_counter()
            facts = self._count(feed, facts, batch, step)
            before = self.watch.weights_before(trainer, step + 1)
            result = self._step(trainer, batch, step, facts.skipped_in_a_row)
            facts = replace(facts, step=step + 1, skipped_in_a_row=result.skipped_in_a_row)
            self.watch.write(trainer, facts, result, before, meter.entries(began, received))
            if self._is_due(facts.step):
                self._save(trainer, facts)
            self._evaluate(trainer, index, facts)
        return facts

    def _step(self, trainer: Trainer, batch: Batch, step: int, skipped: int) -> StepResult:
        """One step with the rate and the random numbers that belong to it."""
        seed_step(self.config.seed, step, self.world.rank)
        rate = learning_rate(*self.config.cosine_of(step))
        for group in trainer.optimizer.param_groups:
            group["lr"] = rate
        batch = batch.to(self.world.device)
        return train_step(trainer, Samples(batch.pixels, batch.tokens, batch.valid), step + 1, skipped)

    def _count(self, feed: Feed, facts: Facts, batch: Batch, step: int) -> Facts:
        """What all ranks have seen and skipped so far; stops all of them where it is too much."""
        own = Tally().plus(batch)
        added = gather(self.world, torch.tensor([own.counts])).sum(0).tolist()
        counts = tuple(old + new for old, new in zip(facts.counts or (0,) * len(added), added, strict=True))
        check_counts(counts, self.config.skip, own.examples, feed.ends_epoch(step))
        return replace(facts, counts=counts)

    def _is_due(self, step: int) -> bool:
        """Whether this rank would save now; only rank 0 does, by its own clock."""
        minutes, every = self.config.save_minutes, self.config.save_steps
        late = minutes > 0 and time.monotonic() - self.saved_at > 60 * minutes
        return late or (every > 0 and step % every == 0)

    def _save(self, trainer: Trainer, facts: Facts) -> None:
        if self.world.is_main and facts.step != self.saved_step:
            self.watch.sync()
            save_state(self.run, capture(trainer, facts))
        self.saved_step, self.saved_at = facts.step, time.monotonic()

    def _evaluation_is_due(self, step: int) -> bool:
        return evaluate_due(self.config, step) and not self.watch.has_measured(step)

    def _evaluate(self, trainer: Trainer, index: int, facts: Facts) -> None:
        """Measure where it is due, with the state saved before; a stop puts it off to the next start."""
        if self._evaluation_is_due(facts.step) and not any_rank(self.world, self.stopped()):
            self._save(trainer, facts)
            self.watch.measure(trainer, index, facts.step)


def write_checkpoint(data: Data, trainer: Trainer, run: Path) -> Path:
    """Write what `models.load_model` opens into the run's folder: the average of the weights, if there is one.

    Raises:
        CheckpointError: it cannot be written.
    """
    folder, partial = run / CHECKPOINT, run / f"{CHECKPOINT}.tmp"
    shutil.rmtree(partial, ignore_errors=True)
    with averaged(trainer):
        save_checkpoint(partial, trainer.clip, info_of(data, len(data.config.stages) - 1), data.tokenizer)
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(partial, folder)
    return folder
