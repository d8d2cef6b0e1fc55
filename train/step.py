"""One optimiser step: gradient, agreement that it is finite, clipping, update, logit scale, moving average."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch.nn.utils import clip_grads_with_norm_

from models.build import ClipModule
from models.errors import StudioError
from train.accumulate import Change, Encoder, Samples, backward, parallel, unchanged
from train.distributed import World, any_rank, from_main
from train.ema import Ema
from train.finite import (
    GradientNorms,
    NonFiniteRule,
    Stop,
    agreed_finding,
    first_broken_gradient,
    first_broken_part,
    gradient_norms,
    layer_of,
    skipped_in_a_row,
)
from train.loss import GATHERINGS, Gathering
from train.rng import RngState, replayed

MAX_LOGIT_SCALE = math.log(100.0)


@dataclass(frozen=True)
class StepRules:
    """How steps are taken; the same for all steps of a run.

    Attributes:
        gathering: "full", the gradient of the global batch's loss, or "published", SLIP's.
        accumulation: parts in which a rank's batch is encoded; exact, for the time of one more forward pass.
        autocast: what the towers compute in; with float16, GradScaler keeps small gradients from vanishing.
        clip_norm: bound on the total norm of the gradient; infinite for none.
        non_finite: what to do about a loss or gradient that is not finite.

    Raises:
        StudioError: accumulation below 1, clip_norm not above 0, or a type that autocast does not know.
    """

    gathering: Gathering = "full"
    accumulation: int = 1
    autocast: torch.dtype = torch.float32
    clip_norm: float = math.inf
    non_finite: NonFiniteRule = field(default_factory=Stop)

    def __post_init__(self) -> None:
        if self.accumulation < 1:
            raise StudioError(f"accumulation = {self.accumulation} takes no part of the batch: use 1 or more.")
        if not self.clip_norm > 0:
            raise StudioError(f"clip_norm = {self.clip_norm} would undo every step: use above 0, or inf for none.")
        if self.autocast not in (torch.float32, torch.bfloat16, torch.float16):
            raise StudioError(f"autocast = {self.autocast} is none of float32, bfloat16 and float16: use one of them.")


@dataclass(frozen=True, eq=False)
class Trainer:
    """What a step changes: made by `make_trainer` once for a model, and again when another takes its place.

    Attributes:
        clip: the bare model, which is saved and evaluated.
        ema: its moving average, or None.
        scaler: of float16; it does nothing otherwise. Its state_dict belongs to the resume state.
    """

    encoder: Encoder
    clip: ClipModule
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    rules: StepRules
    ema: Ema | None = None


@dataclass(frozen=True)
class StepResult:
    """What became of a step, the same on all ranks.

    Attributes:
        loss: of the global batch.
        valid: samples of all ranks that took part.
        grad_norm: total norm of the gradient before clipping.
        layer_norms: the same of every layer.
        logit_scale: the factor on cosine similarity after the step.
        loss_scale: of float16; 1 otherwise.
        skipped: why the model was left as it is, a sentence without its full stop; "" where it was not.
        skipped_in_a_row: steps up to this one that the rule about finite numbers skipped; to be given to the next step.
    """

    loss: float
    valid: int
    grad_norm: float
    layer_norms: Mapping[str, float]
    logit_scale: float
    loss_scale: float
    skipped: str
    skipped_in_a_row: int


def make_trainer(
    world: World,
    clip: ClipModule,
    optimizer: torch.optim.Optimizer,
    rules: StepRules,
    ema: Ema | None = None,
    prepare: Change = unchanged,
) -> Trainer:
    """The CLIP, already on the world's device and in the optimiser, ready for steps: a collective.

    `prepare` makes model input of pixels (B, 3, height, width) as `Samples` hold them.

    Raises:
        StudioError: weights in half precision, which lose every small update.
    """
    half = [name for name, p in clip.named_parameters() if p.dtype in (torch.float16, torch.bfloat16)]
    if half:
        raise StudioError(
            f"{half[0]} is kept in half precision, where small updates vanish: keep the weights in float32 and set "
            "autocast instead."
        )
    scaler = torch.amp.GradScaler(world.device.type, enabled=rules.autocast == torch.float16)
    encoder = Encoder(world, parallel(world, clip), rules.autocast, prepare)
    return Trainer(encoder, clip, optimizer, scaler, rules, ema)


def train_step(trainer: Trainer, samples: Samples, step: int, already_skipped: int = 0) -> StepResult:
    """One step on this rank's samples of the global batch: a collective.

    `step` counts from 1 and is for messages. A step is skipped, and the model left as it is, where no sample of any
    rank is valid, where float16 overflowed and a smaller loss scale will do, and where the rule says so.

    Raises:
        NonFiniteError: loss or gradient is not finite and the rule ends the run: on all ranks, with one message that
            names the layer.
        StudioError: samples that cannot be accumulated in equal parts, or unequal numbers of samples.
    """
    clip, optimizer, scaler, rules = trainer.clip, trainer.optimizer, trainer.scaler, trainer.rules
    parts = tuple(samples.chunks(rules.accumulation))
    optimizer.zero_grad(set_to_none=True)
    done = backward(trainer.encoder, GATHERINGS[rules.gathering], parts, scaler.scale)
    scaler.unscale_(optimizer)
    norms = gradient_norms(clip)
    loss, valid, loss_scale = float(done.loss), int(done.valid), float(scaler.get_scale())
    finite = math.isfinite(loss) and not norms.non_finite
    skipped = "" if valid else "No sample of the batch could be used"
    if any_rank(trainer.encoder.world, not finite):
        if math.isfinite(loss) and loss_scale > 1.0:
            skipped = f"The gradient overflows float16 at a loss scale of {loss_scale:g}"
        else:
            skipped = _cause(trainer, step, loss, norms, parts, done.states)
            already_skipped = skipped_in_a_row(rules.non_finite, already_skipped, skipped)
    elif valid:
        already_skipped = 0
        _update(trainer, norms.total)
    scaler.update()
    if skipped:
        optimizer.zero_grad(set_to_none=True)
    return StepResult(
        loss,
        valid,
        norms.total,
        norms.layers,
        math.exp(float(clip.logit_scale.detach())),
        loss_scale,
        skipped,
        already_skipped,
    )


def _update(trainer: Trainer, norm: float) -> None:
    """Clip, step, keep the logit scale in its bounds, and average."""
    if norm > trainer.rules.clip_norm:
        clip_grads_with_norm_(
            trainer.clip.parameters(), trainer.rules.clip_norm, torch.tensor(norm, dtype=torch.float64)
        )
    trainer.scaler.step(trainer.optimizer)
    with torch.no_grad():
        trainer.clip.logit_scale.clamp_(0.0, MAX_LOGIT_SCALE)
    if trainer.ema is not None:
        trainer.ema.update(trainer.clip)


def _cause(
    trainer: Trainer,
    step: int,
    loss: float,
    norms: GradientNorms,
    parts: tuple[Samples, ...],
    states: tuple[RngState, ...],
) -> str:
    """What is not finite and where, the same on all ranks."""
    world = trainer.encoder.world
    if math.isfinite(loss):
        names = norms.non_finite
        name = first_broken_gradient(trainer.clip, names) if names else ""
        found = f", the gradient of {name} ({layer_of(trainer.clip)(name)}) is not finite" if name else ""
        # Gradients are averaged, so every rank has what one rank had.
        return from_main(world, f"The gradient norm of step {step} is {norms.total}{found}")
    found = ""
    for part, state in zip(parts, states, strict=True):
        if not found:
            found = _look_again(trainer, part, state)
    agreed = agreed_finding(world, found)
    return f"The loss of step {step} is {loss}" + (f", {agreed}" if agreed else "")


def _look_again(trainer: Trainer, part: Samples, state: RngState) -> str:
    """Encode a part as it was encoded, with a look at every module."""
    encoder = trainer.encoder
    with replayed(state, encoder.world.device):
        return first_broken_part(trainer.clip, encoder.prepare(part.pixels), lambda: encoder(encoder.towers, part))
