"""How fast a machine takes the steps of a run: its own steps, on random pictures and texts."""

import time

import torch

from models.errors import StudioError
from train.accumulate import Samples
from train.config import RunConfig
from train.distributed import World
from train.flops import synchronize
from train.probe import is_out_of_memory
from train.stages import new_learner, stage_trainer
from train.step import train_step

# After a first step, which also compiles: two, of which the faster counts, or one that takes longer than these seconds.
STEPS, ENOUGH = 2, 20.0


def measured_speed(config: RunConfig, index: int, processes: int, device: torch.device) -> float:
    """Samples a second of one process in stage `index` of a resolved config, without reading data or waiting.

    A step is one of training: a process's share of the batch in as many parts, with patch dropout, checkpointing, the
    optimiser and the moving average as the config has them.

    Raises:
        StudioError: the share of a batch finds no memory.
    """
    own, world = config.batch_size // processes, World(device=device)
    vision, text = config.stage_model(config.stages[index]).vision, config.model.text
    samples = Samples(
        torch.randint(0, 256, (own, 3, *vision.input_size), dtype=torch.uint8, device=device),
        torch.randint(1, text.vocab_size, (own, text.context_length), device=device),
        torch.ones(own, dtype=torch.bool, device=device),
    )
    best = 0.0
    try:
        trainer = stage_trainer(config, index, new_learner(config, None, device), {}, world)
        for step in range(1 + STEPS):
            began = time.perf_counter()
            train_step(trainer, samples, step + 1)
            synchronize(device)
            seconds = time.perf_counter() - began
            best = max(best, own / seconds) if step else best
            if step and seconds > ENOUGH:
                break
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise StudioError(
            f"{device} has too little memory to time {own} samples a process in {config.accumulation} part"
            f"{'' if config.accumulation == 1 else 's'}: raise accumulation, or set grad_checkpointing = true."
        ) from error
    return best
