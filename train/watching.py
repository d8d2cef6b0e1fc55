"""Looking at a training while it goes on: its log, the probe, measurements, trackers, the bar on the terminal."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from models.errors import StudioError
from train.checkpointing import Facts
from train.config import RunConfig
from train.data.sample import REASONS
from train.distributed import World, any_rank, from_main, gather
from train.evaluation.in_training import evaluate_in_training
from train.evaluation.protocols import Task, open_task
from train.evaluation.spread import Ranks, Stopped
from train.feed import Data, Feed
from train.logbook import Logbook, average_entry, lambda_entries, rounded, weight_norms
from train.probe import Probe, is_out_of_memory, look, make_probe
from train.progress import progress_bar
from train.run_folder import EVALUATION, LOG
from train.stages import averaged, info_of
from train.step import StepResult, Trainer
from train.together import main_alone
from train.trackers import About, flat, open_trackers


def evaluate_due(config: RunConfig, step: int) -> bool:
    """Whether something is to be measured after `step` steps: every so many, and at the end."""
    every = config.evaluation.every
    return bool(config.evaluation.of) and step > 0 and (step == config.steps or (every > 0 and step % every == 0))


@contextmanager
def open_watch(data: Data, run: Path, world: World, step: int, record: Mapping[str, Any]) -> Iterator["Watch"]:
    """The watch over a run that goes on after `step` steps, a collective; logs are cut to these steps."""
    watch = Watch(data, run, world, step, record)
    try:
        yield watch
    finally:
        watch.close()


class Watch:
    """All ranks have one; rank 0's writes."""

    def __init__(self, data: Data, run: Path, world: World, step: int, record: Mapping[str, Any]) -> None:
        self.data, self.config, self.world = data, data.config, world
        self.tasks: list[Task] = []
        self.feed: Feed | None = None
        self.probe: Probe | None = None
        self.looks = self.config.log.probe_every > 0
        self.log: Logbook | None = None
        self.measurements: Logbook | None = None
        main_alone(world, lambda: self._open_books(run, step))
        last = self.measurements.last if self.measurements else None
        self.measured = from_main(world, int(last["step"]) if last else 0)
        names = self.config.log.trackers if world.is_main else ()
        about = About(run, self.config.name, self.config.log.project, record, step)
        self.trackers = open_trackers(names, about)
        end = min(self.config.steps, self.config.stop_after or self.config.steps)
        self.bar = progress_bar(self.config.name, step, end, world.is_main)

    def _open_books(self, run: Path, step: int) -> None:
        self.log = Logbook(run / LOG, step)
        if self.config.evaluation.of:
            self.measurements = Logbook(run / EVALUATION, step)

    def enter(self, feed: Feed) -> None:
        """Get ready for the picture size of a stage.

        Raises:
            StudioError: what is to be measured is not there.
        """
        side = feed.view.preprocess.input_size[0]
        self.tasks = [open_task(protocol, 2 * side) for protocol in self.config.evaluation.of]
        self.feed, self.probe = feed, None

    def weights_before(self, trainer: Trainer, step: int) -> dict[str, Tensor] | None:
        """A copy of the weights before step `step` (from 1), where its update is to be measured."""
        if not self.world.is_main or not _is_turn(step, self.config.log.norms_every):
            return None
        return {name: p.detach().clone() for name, p in trainer.clip.named_parameters()}

    def write(
        self,
        trainer: Trainer,
        facts: Facts,
        result: StepResult,
        before: Mapping[str, Tensor] | None,
        wall_clock: Mapping[str, float],
    ) -> None:
        """Write the line of the step that led to `facts`.

        Raises:
            StudioError: it cannot be written.
        """
        if self.log is None:
            return
        line: dict[str, Any] = {
            "step": facts.step,
            "samples": facts.step * self.config.batch_size,
            "image_size": self.config.stage_of(facts.step - 1).image_size,
            "loss": result.loss,
            "lr": trainer.optimizer.param_groups[0]["lr"],
            "logit_scale": result.logit_scale,
            "grad_norm": result.grad_norm,
            "valid": result.valid,
            **wall_clock,
            **average_entry(trainer.ema),
            **({"loss_scale": result.loss_scale} if trainer.scaler.is_enabled() else {}),
            **({"skipped": result.skipped} if result.skipped else {}),
            **_skips(facts),
            **lambda_entries(trainer.clip),
        }
        if before is not None:
            line["norms"] = {
                "gradient": {layer: rounded(norm) for layer, norm in result.layer_norms.items()},
                "weights": weight_norms(trainer.clip),
                "update": weight_norms(trainer.clip, before),
            }
        line |= self._look(trainer, facts.step)
        self.log.write(line)
        self._track(line, facts.step)
        self.bar.set_postfix(
            loss=f"{result.loss:.3f}", lr=f"{line['lr']:.1e}", waits=f"{wall_clock['data_wait']:.0%}", refresh=False
        )
        self.bar.update()

    def _look(self, trainer: Trainer, step: int) -> dict[str, Any]:
        """The probe's entry, every so many steps; what cannot be looked at, or not for want of memory, is told once."""
        settings = self.config.log
        if self.feed is None or not self.looks or not _is_turn(step, settings.probe_every):
            return {}
        try:
            self.probe = self.probe or make_probe(self.feed, settings.probe_samples, self.world.device)
            return {"probe": look(trainer.clip, self.probe)} if self.probe else {}
        except StudioError as error:
            told = str(error)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            told = f"memory is too short for {settings.probe_samples} samples: set log.probe_samples lower."
        # The probe is given up, not the run.
        self.looks, self.probe = False, None
        print(f"warning: no attention is probed: {told}", file=sys.stderr)
        return {"unprobed": told}

    def has_measured(self, step: int) -> bool:
        """Whether the measurement after `step` steps was made: the same on all ranks."""
        return self.measured >= step

    def measure(self, trainer: Trainer, index: int, step: int, stopped: Callable[[], bool]) -> dict[str, float] | None:
        """What the model as it is after `step` steps scores, and its average: a collective.

        Where any rank is `stopped` meanwhile, all leave it, with None, and it counts as not done.
        """
        world, began = self.world, time.perf_counter()
        ranks = Ranks(world.rank, world.size, partial(gather, world), lambda: any_rank(world, stopped()))
        info, tokenizer = info_of(self.data, index), self.data.tokenizer
        workers = self.config.workers
        try:
            line = evaluate_in_training(trainer.clip, info, tokenizer, self.tasks, ranks, workers)
            if trainer.ema is not None:
                with averaged(trainer):
                    found = evaluate_in_training(trainer.clip, info, tokenizer, self.tasks, ranks, workers)
                line |= {f"average/{name}": value for name, value in found.items()}
        except Stopped:
            return None
        self.measured = step
        return {**line, "seconds": rounded(time.perf_counter() - began)}

    def write_measured(self, line: Mapping[str, float], step: int) -> None:
        """Write what was measured after `step` steps.

        Raises:
            StudioError: it cannot be written.
        """
        if self.measurements is not None:
            self.measurements.write({"step": step, "samples": step * self.config.batch_size, **line})
            self._track({"evaluation": {key: value for key, value in line.items() if key != "seconds"}}, step)

    def _track(self, line: Mapping[str, Any], step: int) -> None:
        if self.trackers:
            # The step is told beside the numbers; among them, trackio has that name for itself and warns at every line.
            numbers = flat({key: value for key, value in line.items() if key != "step"})
            for tracker in self.trackers:
                tracker.log(numbers, step)

    def sync(self) -> None:
        """Flush the logs to the disk."""
        for book in (self.log, self.measurements):
            if book is not None:
                book.sync()

    def close(self) -> None:
        """Close files, trackers and the bar."""
        self.bar.close()
        for book in (self.log, self.measurements):
            if book is not None:
                book.close()
        for tracker in self.trackers:
            tracker.close()


def _is_turn(step: int, every: int) -> bool:
    """Whether a step (from 1) is the first or every so manyth."""
    return every > 0 and (step == 1 or step % every == 0)


def _skips(facts: Facts) -> dict[str, Any]:
    """Samples that could not be used so far, by reason, where there are any."""
    counts = {reason: count for reason, count in zip(REASONS, facts.counts[1:], strict=True) if count}
    return {"unusable": counts} if counts else {}
