"""An evaluation between two steps that leaves the training as it was: weights, modes, gradients, random numbers."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from torch import nn

from models.build import ClipModule
from models.checkpoints import CheckpointInfo, wrap_model
from models.vocabulary import Tokenizer
from train.evaluation.protocols import Task, measure, shares
from train.evaluation.spread import ALONE, Ranks
from train.rng import replayed, rng_state


def evaluate_in_training(
    clip: ClipModule,
    info: CheckpointInfo,
    tokenizer: Tokenizer,
    tasks: Sequence[Task],
    ranks: Ranks = ALONE,
    workers: int = 0,
) -> dict[str, float]:
    """Measure the model as it is now, on the device it is on, in float32; a collective.

    Args:
        clip: the bare model, not what wraps it for several processes; or its moving average.
        info: names its preprocessing, at the picture size that it has now.
        tasks: opened once (`protocols.open_task`), and again when scenes shall be drawn at another size.

    Returns:
        a number for "TASK/MEASURE", as "zero-shot/scenes/top1", and for "TASK/skipped" the pictures that could not be
        read. The same on all ranks.

    Raises:
        Stopped: `ranks` said so; the model is as it was.
    """
    model = wrap_model(clip, info, tokenizer, "training", Path())
    device = clip.logit_scale.device
    line: dict[str, float] = {}
    with in_eval_mode(clip), replayed(rng_state(device), device):
        for task in tasks:
            result = measure(model, task, ranks, workers)
            line |= {f"{task.name}/{name}": measured.value for name, measured in shares(result).items()}
            line[f"{task.name}/skipped"] = float(math.fsum(result.skipped.values()))
    return line


@contextmanager
def in_eval_mode(module: nn.Module) -> Iterator[None]:
    """Every part in eval mode; afterwards each is as it was, also one that stays in eval mode in training."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training
