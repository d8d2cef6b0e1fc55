"""The training loop: from a config to a run's folder (run_folder.py says what lies in it), on one process or many.

A run that stopped, by a signal or by a fall of the machine, goes on where it was saved as if nothing had happened: its
data are a function of the step, and so are its random numbers.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from models.allocator import keep_freed_memory
from models.errors import StudioError
from train.accumulate import Samples
from train.checkpointing import Facts, digest, load_state, save_state
from train.config import RunConfig, check_shares
from train.data.batch import Batch
from train.data.remarks import remarks
from train.data.skips import Tally, check_counts, check_epoch, plus
from train.distributed import World, any_rank, gather, open_world
from train.feed import Data, Feed, index_folder, open_data
from train.flops import cost_of, matmul_rate
from train.kept import forget_later, is_kept, keep_weights, write_checkpoint
from train.lock import locked
from train.meter import Meter
from train.optim import learning_rate
from train.precision import resolve_precision
from train.run_folder import CHECKPOINT, Changes, check_folder, claim_folder, note_changes, run_record
from train.signals import stop_signals, stoppable
from train.stages import Learner, new_learner, stage_trainer
from train.state import capture, seed_step
from train.step import StepResult, Trainer, train_step
from train.together import agree, each, main_alone, main_first
from train.watching import Watch, evaluate_due, open_watch


def _nothing(step: int) -> None:
    """What is done after step `step` where nobody asks for more."""


def fit(
    config: RunConfig,
    run: Path,
    opened: Callable[[RunConfig, Path | None], Data] = open_data,
    after_step: Callable[[int], object] = _nothing,
    anyway: bool = False,
) -> Path:
    """Train, or go on where the run in this folder stopped; returns the checkpoint folder, once finished.

    Who trains from a program may give `opened` to bring data or words that no config names, and `after_step`, which is
    called with the number of each step (from 1) when it is logged. `anyway` lets a run go on with another optimiser.

    Under torchrun this is called by every process. A signal (SIGINT, SIGTERM, SIGUSR1) to any of them lets the step
    finish everywhere, saves the state once and returns the run's folder; a measurement that it interrupts is made by
    the next start. While the data are opened, SIGTERM and SIGUSR1 leave that at once, and SIGINT ends the program.

    Raises:
        StudioError: the folder holds another run or another program writes into it, the data cannot be used, the loss
            is no longer finite, something cannot be written, or the GPU has too little memory; on all ranks.
    """
    if config.threads:
        torch.set_num_threads(config.threads)
    with open_world(config.device) as world, ExitStack() as held:
        if world.device.type == "cpu":
            keep_freed_memory()
        check_shares(config, world.size)
        main_alone(world, lambda: check_folder(run))
        asked, stoppably = held.enter_context(stoppable())
        data = main_first(world, lambda: stoppably(lambda: opened(config, index_folder(run))))
        if data is None:
            if world.is_main:
                print(
                    "stopped before the first step, while the data were opened; the same command begins again",
                    file=sys.stderr,
                )
            return run
        later = held.enter_context(stop_signals())

        def stopped() -> bool:
            return asked() or later()

        if world.is_main:
            for remark in remarks(data.source) if data.source else ():
                print(f"warning: {remark}", file=sys.stderr)
        precision = resolve_precision(config.precision, world.device)
        record = run_record(data.config, precision, data.record())
        agree(
            world,
            [record["data"][key] for key in ("samples", "fingerprint")],
            f"The processes see different data at what the config names, one of them {record['data']['description']}: "
            "bring the same files to all machines.",
        )
        changes: list[Changes] = []
        main_alone(world, lambda: held.enter_context(locked(run)))
        main_alone(world, lambda: changes.append(claim_folder(run, record, anyway)))
        state = each(world, lambda: load_state(run))
        # Nobody writes before all have read.
        agree(
            world,
            digest(state) if world.size > 1 else "",
            f"The processes find different states in {run}: the folder must be one that all machines share.",
        )
        facts = state.facts if state else Facts(0)
        main_alone(world, lambda: note_changes(run, record, changes[0], facts.step))
        main_alone(world, lambda: forget_later(run, facts.step))
        with _memory_told(data.config, world):
            learner = each(world, lambda: new_learner(data.config, state, world.device))
            with open_watch(data, run, world, facts.step, record) as watch:
                return _Training(data, run, world, stopped, watch, after_step).go_on(learner, facts)


@contextmanager
def _memory_told(config: RunConfig, world: World) -> Iterator[None]:
    """While open, a GPU's want of memory is a sentence."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        own = config.batch_size // world.size
        raise StudioError(
            f"{world.device} has too little memory for {own} samples a process in {config.accumulation} "
            f"part{'' if config.accumulation == 1 else 's'}: raise accumulation to a larger divisor of {own}, or set "
            "grad_checkpointing = true; the same command then goes on."
        ) from error


class _Training:
    """One start of a run: what stays the same from its first step to its last."""

    def __init__(
        self,
        data: Data,
        run: Path,
        world: World,
        stopped: Callable[[], bool],
        watch: Watch,
        after_step: Callable[[int], object],
    ) -> None:
        self.data, self.config, self.run, self.world = data, data.config, run, world
        self.stopped, self.watch = stopped, watch
        self.after_step = after_step
        self.end = min(self.config.steps, self.config.stop_after or self.config.steps)
        self.saved_step, self.saved_at = 0, time.monotonic()
        # Of what rank 0 writes on its own; the others hear of it before the next step.
        self.failed: StudioError | None = None

    def go_on(self, learner: Learner, facts: Facts) -> Path:
        """All stages from where the facts stand to the end, or to a stop; returns what `fit` does."""
        self.saved_step = facts.step
        index = self.config.stage_index(max(0, facts.step - 1))
        trainer = self._trainer(index, learner, facts.scaler)
        while True:
            facts = self._stage(trainer, index, facts)
            if facts.step >= self.end or self._halts():
                break
            # A state is of the picture size of its last step: none may be taken once the next stage has another.
            self._noting(lambda: self._save(trainer, facts))  # noqa: B023 (called at once)
            index += 1
            learner = Learner(trainer.clip, trainer.optimizer, trainer.ema)
            trainer = self._trainer(index, learner, trainer.scaler.state_dict())
        main_alone(self.world, self._raise_failed)
        # All wait until it is written, so that none ends while another still works.
        main_alone(self.world, lambda: self._save(trainer, facts))
        if facts.step < self.config.steps or self._evaluation_is_due(facts.step):
            return self.run
        main_alone(self.world, lambda: write_checkpoint(self.data, trainer, self.run))
        return self.run / CHECKPOINT

    def _trainer(self, index: int, learner: Learner, scaler: dict) -> Trainer:
        return stage_trainer(self.config, index, learner, scaler, self.world)

    def _stage(self, trainer: Trainer, index: int, facts: Facts) -> Facts:
        """The steps of a stage that are left, as far as this start goes; returns where they have led."""
        config, world = self.config, self.world
        feed = self.data.stage(index, world)
        steps = range(facts.step, max(facts.step, min(self.end, config.first_step(index + 1))))
        flops = cost_of(config.stage_model(config.stages[index]), config.patch_dropout).training
        seconds = config.log.rate_seconds
        rate = matmul_rate(world.device, trainer.rules.autocast, seconds) if seconds else 0.0
        meter = Meter(config.batch_size, world.size, world.device, flops, rate)
        each(world, lambda: self.watch.enter(feed))
        self._evaluate(trainer, index, facts)
        workers = config.workers if steps else 0
        with closing(each(world, lambda: feed.batches(steps, workers, world.device.type == "cuda"))) as batches:
            for step in steps:
                if self._halts():
                    break
                began = time.perf_counter()
                batch = next(batches)
                received = time.perf_counter()
                facts = self._counted(trainer, feed, facts, batch, step)
                before = self.watch.weights_before(trainer, step + 1)
                result = self._step(trainer, batch, step, facts.skipped_in_a_row)
                facts = replace(facts, step=step + 1, skipped_in_a_row=result.skipped_in_a_row)
                entries = meter.entries(began, received)
                self._noting(lambda: self.watch.write(trainer, facts, result, before, entries))  # noqa: B023
                self.after_step(facts.step)
                self._keep(trainer, facts.step)
                if self._is_due(facts.step):
                    self._noting(lambda: self._save(trainer, facts))  # noqa: B023
                self._evaluate(trainer, index, facts)
        return facts

    def _halts(self) -> bool:
        """Whether a rank was asked to stop, or could not write: a collective."""
        return any_rank(self.world, self.stopped() or self.failed is not None)

    def _noting(self, write: Callable[[], object]) -> None:
        """Let this rank write; a failure is kept for all to raise together."""
        try:
            write()
        except StudioError as error:
            self.failed = self.failed or error

    def _raise_failed(self) -> None:
        if self.failed:
            raise self.failed

    def _step(self, trainer: Trainer, batch: Batch, step: int, skipped: int) -> StepResult:
        """One step with the rate and the random numbers that belong to it."""
        seed_step(self.config.seed, step, self.world.rank)
        rate = learning_rate(*self.config.cosine_of(step))
        for group in trainer.optimizer.param_groups:
            group["lr"] = rate
        batch = batch.to(self.world.device)
        return train_step(trainer, Samples(batch.pixels, batch.tokens, batch.valid), step + 1, skipped)

    def _counted(self, trainer: Trainer, feed: Feed, facts: Facts, batch: Batch, step: int) -> Facts:
        """What all ranks have seen and skipped so far; stops all of them where it is too much, with the state saved."""
        own = Tally().plus(batch)
        added = gather(self.world, torch.tensor([own.counts])).sum(0).tolist()
        counts, of_epoch = plus(facts.counts, added), plus(facts.epoch_counts, added)
        try:
            check_epoch(of_epoch, self.config.skip, own.examples)
            check_counts(counts, self.config.skip, own.examples, feed.ends_epoch(step))
        except StudioError:
            main_alone(self.world, self._raise_failed)
            main_alone(self.world, lambda: self._save(trainer, facts))
            raise
        return replace(facts, counts=counts, epoch_counts=() if feed.ends_epoch(step) else of_epoch)

    def _is_due(self, step: int) -> bool:
        """Whether this rank would save now; only rank 0 does, by its own clock."""
        minutes, every = self.config.save_minutes, self.config.save_steps
        late = minutes > 0 and time.monotonic() - self.saved_at > 60 * minutes
        return late or (every > 0 and step % every == 0)

    def _save(self, trainer: Trainer, facts: Facts) -> None:
        if self.world.is_main and facts.step != self.saved_step:
            self.watch.sync()
            save_state(self.run, capture(trainer, facts), self.saved_step)
        self.saved_step, self.saved_at = facts.step, time.monotonic()

    def _keep(self, trainer: Trainer, step: int) -> None:
        """Keep a copy of the weights where it is due: before the state is saved, which never is ahead of it."""
        if self.world.is_main and is_kept(self.config, step):
            self._noting(lambda: keep_weights(self.data, trainer, self.run, step))

    def _evaluation_is_due(self, step: int) -> bool:
        return evaluate_due(self.config, step) and not self.watch.has_measured(step)

    def _evaluate(self, trainer: Trainer, index: int, facts: Facts) -> None:
        """Measure where it is due, with the state saved before; a stop puts it off to the next start."""
        if not self._evaluation_is_due(facts.step):
            return
        self._noting(lambda: self._save(trainer, facts))
        if self._halts():
            return
        found = self.watch.measure(trainer, index, facts.step, self.stopped)
        if found is not None:
            self._noting(lambda: self.watch.write_measured(found, facts.step))
