"""The loops that training.py holds against each other, each in a process of its own: `training_loops.py TASK`.

TASK is JSON: a `Task`. A loop trains in turns: it answers every line on its input with a turn of `steps` steps and a
line on its output, {"wall": seconds, "processor": seconds}, and waits in between. It ends when its input ends. What a
loop sets for its process, as how memory is kept, so stays its own.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Python puts this script's folder first, where other scripts may have the names of packages.
sys.path[:] = [str(ROOT), *(path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent)]

import torch  # noqa: E402
from open_clip import create_loss  # noqa: E402
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg  # noqa: E402
from open_clip.transform import PreprocessCfg, image_transform_v2  # noqa: E402
from torch import nn  # noqa: E402

from models.config import ModelConfig  # noqa: E402
from models.initialization import initial_clip  # noqa: E402
from models.tokenizer import DomainTokenizer, load_tokenizer  # noqa: E402
from train.config import RunConfig, load_config  # noqa: E402
from train.data.open import open_source  # noqa: E402
from train.feed import Data, preprocess_of  # noqa: E402
from train.loop import fit  # noqa: E402
from train.optim import build_optimizer  # noqa: E402

# More than are ever taken: a loop ends when its input does.
STEPS = 1000


@dataclass(frozen=True)
class Task:
    """What a process trains.

    Attributes:
        loop: "ours"; "open_clip", open_clip's loop with the model as we build it; "plain open_clip", the same loop with
            open_clip's own model of the same size.
        config: a TOML file of a run; its model at the size of its first stage, optimiser and batch are taken.
        tars, tokenizer: the shards (folder of *.tar), and the tokenizer's file.
        folder: an empty folder for what the loop writes.
        steps: of a turn. Norms are logged once a turn.
    """

    loop: str
    config: str
    tars: str
    tokenizer: str
    folder: str
    steps: int


class Turns:
    """Called with the number of steps that were taken so far; waits where a turn ends."""

    def __init__(self, steps: int) -> None:
        self.steps, self.began = steps, (0.0, 0.0)

    def __call__(self, done: int) -> None:
        """Report the turn that ends with step `done`, if one does, and wait for the next.

        Raises:
            SystemExit: there is no next one.
        """
        if done and done % self.steps == 0:
            wall, processor = (end - start for start, end in zip(self.began, now(), strict=True))
            print(json.dumps({"wall": wall, "processor": processor}), flush=True)
            self.wait()

    def wait(self) -> None:
        """Wait until the next turn is asked for.

        Raises:
            SystemExit: there is none.
        """
        if not sys.stdin.readline():
            raise SystemExit(0)
        self.began = now()


def now() -> tuple[float, float]:
    """Seconds of the wall clock and of this process's time on a processor, all its threads together."""
    return time.perf_counter(), time.process_time()


def run_config(task: Task) -> RunConfig:
    """The run of this task: float32, one thread, no loader process, no state, and open_clip's augmentation."""
    image_size = load_config(Path(task.config)).stages[0].image_size
    batch = load_config(Path(task.config)).batch_size
    return load_config(
        Path(task.config),
        [
            f"stages=[{{ samples = {STEPS * batch}, image_size = {image_size} }}]",
            f"data={{ tars = {json.dumps(task.tars)} }}",
            'augment={ scale = [0.9, 1.0], interpolation = "bicubic" }',
            'pictures={ mean = [0.5, 0.5, 0.5], std = [0.25, 0.25, 0.25], interpolation = "bicubic" }',
            "precision=float32",
            "device=cpu",
            "threads=1",
            "workers=0",
            "save_minutes=0",
            f"log.norms_every={task.steps}",
        ],
    )


def open_tars(config: RunConfig, tokenizer: DomainTokenizer, cache: Path | None) -> Data:
    """The shards as the data of a run with the scenes' own words."""
    return Data(config, tokenizer, open_source(config.data, config.stages[0].image_size, cache))  # type: ignore[arg-type]


def train_ours(task: Task, turns: Turns) -> None:
    """Our loop."""
    tokenizer = load_tokenizer(Path(task.tokenizer))
    turns.wait()
    fit(run_config(task), Path(task.folder) / "run", lambda c, cache: open_tars(c, tokenizer, cache), turns)


def train_open_clip(task: Task, turns: Turns) -> None:
    """open_clip's loop over its own reading of the shards."""
    # Only here: our loop runs without the packages that these import.
    from open_clip_train.data import get_data
    from open_clip_train.params import parse_args
    from open_clip_train.scheduler import cosine_lr
    from open_clip_train.train import train_one_epoch

    config = run_config(task)
    torch.set_num_threads(config.threads)
    logging.basicConfig(filename=Path(task.folder) / "log.txt", level=logging.INFO)
    model = config.stage_model(config.stages[0])
    plain = task.loop == "plain open_clip"
    clip = plain_clip(model, config.seed) if plain else initial_clip(model, config.seed, config.initialization)
    clip.output_dict = True  # type: ignore[assignment]  # as open_clip's own command builds it
    shards = "::".join(map(str, sorted(Path(task.tars).glob("*.tar"))))
    options = {
        "--train-data": shards,
        "--dataset-type": "webdataset",
        "--train-num-samples": STEPS * config.batch_size,
        "--batch-size": config.batch_size,
        "--workers": config.workers,
        "--precision": "fp32",
        "--grad-clip-norm": config.optim.grad_clip,
    }
    args = parse_args([str(part) for option in options.items() for part in option])
    # What its command adds to these on a machine without other processes.
    args.device, args.rank, args.world_size, args.distributed = "cpu", 0, 1, False
    args.distill, args.wandb = False, False
    preprocess = preprocess_of(config, config.stages[0].image_size)
    view = image_transform_v2(
        PreprocessCfg(size=preprocess.input_size, mean=preprocess.mean, std=preprocess.std), is_train=True
    )
    data = get_data(args, (view, None), tokenizer=load_tokenizer(Path(task.tokenizer)))
    optimizer = build_optimizer(clip, config.optim)
    rate = cosine_lr(optimizer, config.optim.lr, config.optim.warmup_steps, STEPS)

    def scheduler(step: int) -> None:
        # Asked before each step for the number of those before it: there a turn ends.
        turns(step)
        rate(step)

    turns.wait()
    train_one_epoch(clip, data, create_loss(args), 0, optimizer, None, scheduler, None, args)


def plain_clip(config: ModelConfig, seed: int) -> nn.Module:
    """A CLIP of this size as open_clip makes it of a config of its own."""
    vision, text = config.vision, config.text
    torch.manual_seed(seed)
    return CLIP(
        config.embed_dim,
        CLIPVisionCfg(
            layers=vision.layers,
            width=vision.width,
            head_width=vision.head_width,
            patch_size=vision.patch_size,
            image_size=vision.image_size,
        ),
        CLIPTextCfg(
            layers=text.layers,
            width=text.width,
            heads=text.heads,
            vocab_size=text.vocab_size,
            context_length=text.context_length,
        ),
    )


def main() -> None:
    """Train as the task says, turn by turn."""
    task = Task(**json.loads(sys.argv[1]))
    (train_ours if task.loop == "ours" else train_open_clip)(task, Turns(task.steps))


if __name__ == "__main__":
    main()
