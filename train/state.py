"""What of a training goes into its resume state, and back: weights, optimiser, average, scaler."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from models.errors import StudioError
from train.checkpointing import Facts, State
from train.ema import Ema
from train.step import Trainer


def capture(trainer: Trainer, facts: Facts) -> State:
    """The state of a training between two steps; its tensors are the training's own and change with it."""
    ema = trainer.ema
    facts = replace(facts, scaler=trainer.scaler.state_dict(), ema_updates=ema.updates if ema else 0)
    return State(
        facts,
        dict(trainer.clip.state_dict()),
        optimizer_tensors(trainer.clip, trainer.optimizer),
        dict(ema.averages) if ema else {},
    )


def restore(state: State, clip: nn.Module, optimizer: torch.optim.Optimizer, ema: Ema | None) -> None:
    """Put a state back into a model, its optimiser and its average, of the picture size they were saved at.

    Raises:
        StudioError: the state is of another model.
    """
    try:
        clip.load_state_dict(dict(state.model))
    except RuntimeError as error:
        raise StudioError(
            f"The saved state is of another model ({' '.join(str(error).split())[:200]}): choose another --out."
        ) from error
    load_optimizer(clip, optimizer, state.optimizer)
    if ema is not None:
        ema.load_state_dict({"averages": state.ema, "updates": state.facts.ema_updates})


def optimizer_tensors(clip: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What an optimiser keeps of each parameter, by "PARAMETER/NAME"."""
    return {
        f"{name}/{key}": value
        for name, parameter in clip.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def load_optimizer(clip: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Give an optimiser of the same parameters what `optimizer_tensors` took."""
    names = {parameter: name for name, parameter in clip.named_parameters()}
    kept: dict[str, dict[str, Tensor]] = {}
    for path, value in tensors.items():
        name, _, key = path.rpartition("/")
        kept.setdefault(name, {})[key] = value
    order = [names[parameter] for group in optimizer.param_groups for parameter in group["params"]]
    plain = optimizer.state_dict()
    plain["state"] = {index: kept[name] for index, name in enumerate(order) if name in kept}
    optimizer.load_state_dict(plain)


def seed_step(seed: int, step: int, rank: int) -> None:
    """Let PyTorch's generators draw what belongs to (seed, step, rank), so that no generator needs to be saved."""
    words = np.random.SeedSequence([seed, step, rank]).generate_state(2, np.uint32)
    torch.manual_seed(int(words[0]) << 32 | int(words[1]))
