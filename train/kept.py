"""Weights of a run as folders that `models.load_model` opens: those of its end, and those kept on its way."""

import shutil
from pathlib import Path

from models.checkpoints import save_checkpoint
from train.config import RunConfig
from train.durable import replace_folder, sync_folder, writing
from train.feed import Data
from train.run_folder import CHECKPOINT, STEPS
from train.stages import averaged, info_of
from train.step import Trainer


def write_checkpoint(data: Data, trainer: Trainer, run: Path) -> Path:
    """Write the weights of the last step into the run's folder: their average, if there is one.

    Raises:
        StudioError: it cannot be written.
    """
    folder = run / CHECKPOINT
    _write(data, trainer, len(data.config.stages) - 1, folder)
    return folder


def keep_weights(data: Data, trainer: Trainer, run: Path, step: int) -> Path:
    """Write the weights after `step` steps beside those kept before, with the picture size of that step.

    Raises:
        StudioError: it cannot be written.
    """
    folder = run / STEPS / str(step)
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        sync_folder(run)
    _write(data, trainer, data.config.stage_index(step - 1), folder)
    return folder


def is_kept(config: RunConfig, step: int) -> bool:
    """Whether the weights after `step` steps are kept; those of the last step are the checkpoint's."""
    return config.keep_every > 0 and step % config.keep_every == 0 and step < config.steps


def kept_steps(run: Path) -> dict[int, Path]:
    """The folders of weights that were kept, by their step, in its order."""
    found = {int(path.name): path for path in (run / STEPS).glob("*") if path.name.isdecimal() and path.is_dir()}
    return dict(sorted(found.items()))


def forget_later(run: Path, step: int) -> None:
    """Remove weights of steps after `step`, from which the run goes on and writes them again, and what was cut.

    Raises:
        StudioError: they cannot be removed.
    """
    wanted = {path for kept, path in kept_steps(run).items() if kept <= step}
    with writing(run / STEPS):
        for path in set((run / STEPS).glob("*")) - wanted:
            if path.name.split(".")[0].isdecimal():
                shutil.rmtree(path)


def _write(data: Data, trainer: Trainer, stage: int, folder: Path) -> None:
    partial = folder.with_name(f"{folder.name}.tmp")
    with writing(folder), averaged(trainer):
        shutil.rmtree(partial, ignore_errors=True)
        save_checkpoint(partial, trainer.clip, info_of(data, stage), data.tokenizer)
        replace_folder(partial, folder)
