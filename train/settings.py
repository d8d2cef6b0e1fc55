"""The parts of a run's config: stages, optimiser, scenes without end, pictures, evaluation, log."""

import math
from dataclasses import dataclass
from typing import Literal

from models.errors import StudioError
from train.evaluation.protocols import Protocol
from train.scenes.scene import WEIGHTS

Schedule = Literal["cosine", "published"]
Decay = Literal["matrices", "published"]
Precision = Literal["auto", "float32", "bfloat16", "float16"]
TrackerName = Literal["tensorboard", "wandb", "trackio"]


@dataclass(frozen=True)
class Stage:
    """A part of a run: `samples` pictures of `image_size` pixels a side, or `epochs` times the data.

    Attributes:
        samples: a whole number of batches; 0 where `epochs` says how long it lasts.
        epochs: times that the data are seen; a resolved config has 0 here and `samples` instead.
        lr: 0 goes on with the cosine of the stages before; above 0, a cosine of its own begins at this rate, after a
            warm-up of a tenth of its steps, and spans the stages up to the next that has a rate.
        drawn: pixels a side at which the scenes of a stream are drawn and then preprocessed as any picture is; 0 draws
            them at `image_size`.
        weights: how often a scene of a stream holds one, two, three and four objects.
        precision: what the towers compute in; "" is that of the run.
    """

    image_size: int
    samples: int = 0
    epochs: float = 0.0
    lr: float = 0.0
    drawn: int = 0
    weights: tuple[float, float, float, float] = WEIGHTS
    precision: Precision | Literal[""] = ""


@dataclass(frozen=True)
class OptimConfig:
    """AdamW with linear warm-up to `lr`, then a cosine to `final_lr`.

    Attributes:
        warmup_steps: steps of warm-up.
        warmup_epochs: the same in times that the data are seen; a resolved config has 0 here.
        start_lr: where the warm-up starts.
        schedule: "cosine" meets `final_lr` at the last step; "published" is SLIP's, see `optim.learning_rate`.
        decay: which parameters decay: "matrices", but no positions, or "published", SLIP's rule by name.
        grad_clip: bounds the total gradient norm; inf for no bound.

    Raises:
        StudioError: a value with which nothing would be learned.
    """

    lr: float
    warmup_steps: int = 0
    warmup_epochs: float = 0.0
    start_lr: float = 0.0
    final_lr: float = 0.0
    schedule: Schedule = "cosine"
    weight_decay: float = 0.1
    decay: Decay = "matrices"
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-8
    grad_clip: float = 1.0

    def __post_init__(self) -> None:
        for name, low, high in (("lr", 0.0, math.inf), ("eps", 0.0, 1.0), ("beta1", -1.0, 1.0), ("beta2", -1.0, 1.0)):
            if not low < getattr(self, name) < high:
                raise StudioError(
                    f"optim.{name} = {getattr(self, name)} must lie above {max(low, 0)} and below {high}."
                )
        if not self.grad_clip > 0:
            raise StudioError(f"optim.grad_clip = {self.grad_clip} must lie above 0; inf clips nothing.")
        rest = (self.warmup_steps, self.warmup_epochs, self.start_lr, self.final_lr, self.weight_decay)
        if not all(0 <= value < math.inf for value in rest):
            raise StudioError(
                "optim.warmup_steps, warmup_epochs, start_lr, final_lr and weight_decay cannot be below 0 or infinite."
            )
        if self.warmup_steps and self.warmup_epochs:
            raise StudioError("optim has both warmup_steps and warmup_epochs: leave one of them out.")


@dataclass(frozen=True)
class SceneStream:
    """Scenes without end: sample i of the run is scene i of `seed`, as its stage draws it, and none comes twice.

    `tokenizer_captions` captions of the same seed train the tokenizer.
    """

    seed: int
    tokenizer_captions: int = 20_000


@dataclass(frozen=True)
class Pictures:
    """How the model wants its pictures: the statistics that pixels (0 to 1) are normalised by, and how they are scaled.

    The defaults are ImageNet's and bilinear, as SLIP has it and DiffCLIP after it.
    """

    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    interpolation: Literal["bicubic", "bilinear"] = "bilinear"


@dataclass(frozen=True)
class EvaluationConfig:
    """What is measured while the model trains, into evaluation.jsonl.

    Attributes:
        of: as { scenes = 200 }, { folder = "imagenet/val" }, { retrieval = { tars = "flickr/test" } }.
        every: steps between two measurements; 0 measures at the end alone.
    """

    of: tuple[Protocol, ...] = ()
    every: int = 0


@dataclass(frozen=True)
class LogConfig:
    """What the log holds beside loss, rate, norms of gradients and lambda; nothing of it changes the training.

    Attributes:
        norms_every: steps between two looks at the norms of weights and updates; 0 for none.
        probe_every: steps between two looks at the attention to a fixed batch; 0 for none.
        probe_samples: the size of that batch.
        trackers: where the log goes beside its file.
        project: the name under which trackers file the run.
        rate_seconds: how long the speed of matrix products is measured, for MFU; 0 leaves MFU out.
    """

    norms_every: int = 10
    probe_every: int = 100
    probe_samples: int = 16
    trackers: tuple[TrackerName, ...] = ()
    project: str = "diffclip-studio"
    rate_seconds: float = 0.5

    def __post_init__(self) -> None:
        if min(self.norms_every, self.probe_every, self.rate_seconds) < 0 or self.probe_samples < 1:
            raise StudioError(
                "log.norms_every, probe_every and rate_seconds cannot be below 0, and probe_samples must be 1 or more."
            )
