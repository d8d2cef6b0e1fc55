"""From a config to the batches of its steps: data, words, how pictures reach the model, what each rank takes."""

import hashlib
import os
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.errors import StudioError
from models.preprocess import Preprocess
from models.vocabulary import CLIP_VOCABULARY, ClipTokenizer, Tokenizer, TokenizerRule
from train.config import RunConfig, resolved
from train.data.augment import View
from train.data.batch import Batch
from train.data.config import Plain, SceneData
from train.data.loader import batches
from train.data.open import open_source
from train.data.order import Plan
from train.data.sample import Source
from train.data.scene_source import SceneSource
from train.data.scenes import scenes_preprocess, scenes_tokenizer
from train.data.skips import check_source
from train.distributed import World
from train.progress import shard_progress
from train.settings import Pictures, SceneStream

INDEX = "data-index"


@dataclass(frozen=True, eq=False)
class Feed:
    """The batches of one stage.

    Attributes:
        first: the step of the run that is step 0 of the plan.
    """

    source: Source
    plan: Plan
    view: View
    tokenizer: Tokenizer
    first: int

    def batches(self, steps: range, workers: int = 0, pin: bool = False) -> Generator[Batch, None, None]:
        """This rank's batches of the run's steps `steps`, all of them of the stage, in order."""
        own = range(steps.start - self.first, steps.stop - self.first)
        return batches(self.source, self.plan, self.view, self.tokenizer, own, workers, pin)

    def epoch(self, step: int) -> int:
        """The epoch (from 0) of a step of the run."""
        return self.plan.epoch_of(step - self.first)

    def ends_epoch(self, step: int) -> bool:
        """Whether an epoch ends with this step of the run."""
        return self.epoch(step + 1) > self.epoch(step)


@dataclass(frozen=True, eq=False)
class Data:
    """What a run learns from: its resolved config, its words, and its source, which a stream has one of a stage."""

    config: RunConfig
    tokenizer: Tokenizer
    source: Source | None

    def stage(self, index: int, world: World) -> Feed:
        """The batches of stage `index`."""
        config = self.config
        preprocess = preprocess_of(config, config.stages[index].image_size)
        if isinstance(config.data, SceneStream):
            source, first = stream_source(config, index), config.first_step(index)
            plan = Plan(len(source), config.batch_size, config.seed, "as it is", ranks=world.size, rank=world.rank)
            return Feed(source, plan, View(preprocess), self.tokenizer, first)
        source = self.source
        if isinstance(config.data, SceneData):
            source = SceneSource(config.data, config.data.drawn or config.stages[index].image_size)
        assert source is not None
        plan = Plan(len(source), config.batch_size, config.seed, ranks=world.size, rank=world.rank)
        return Feed(source, plan, View(preprocess, config.augment), self.tokenizer, 0)

    def record(self) -> dict[str, Any]:
        """What the data are, for the run's record: in words, how many samples, and their fingerprint."""
        if isinstance(self.config.data, SceneStream):
            sources = [stream_source(self.config, index) for index in range(len(self.config.stages))]
            prints = "".join(source.fingerprint() for source in sources)
            text = f"scenes of seed {self.config.data.seed}, each seen once"
            return _record(text, sum(map(len, sources)), hashlib.sha256(prints.encode()).hexdigest())
        assert self.source is not None
        return _record(self.source.describe(), len(self.source), self.source.fingerprint())


def _record(description: str, samples: int, fingerprint: str) -> dict[str, Any]:
    return {"description": description, "samples": samples, "fingerprint": fingerprint}


def open_data(config: RunConfig, cache: Path | None) -> Data:
    """Find the data of a config, and bring its lengths into samples and steps.

    `cache` is a folder in which the index of tar shards is kept. While they are indexed, a bar on stderr says how far.

    Raises:
        StudioError: there are no such data, too much of them is unusable, or the vocabulary does not fit.
    """
    source = None
    if isinstance(config.data, SceneStream):
        if not isinstance(config.augment, Plain):
            raise StudioError("Scenes without end (data.seed) are drawn as they are to be: leave augment out.")
    else:
        source = open_source(config.data, config.stages[0].image_size, cache, shard_progress())
        check_source(source, config.skip)
        config = resolved(config, len(source))
    return Data(config, tokenizer_of(config), source)


def index_folder(run: Path) -> Path:
    """Where the index of tars is kept: beside the run's folder, for other runs on the same data."""
    return Path(os.path.abspath(run)).parent / INDEX


def stream_source(config: RunConfig, index: int) -> SceneSource:
    """The scenes of a stage of a stream: the stream goes on where the stage before left it."""
    assert isinstance(config.data, SceneStream)
    stage, first = config.stages[index], sum(stage.samples for stage in config.stages[:index])
    data = SceneData(config.data.seed, stage.samples, first, stage.drawn, stage.weights)
    return SceneSource(data, stage.drawn or stage.image_size)


def preprocess_of(config: RunConfig, size: int) -> Preprocess:
    """How a model of this run wants its pictures, at `size` pixels a side."""
    if config.pictures is None and isinstance(config.data, SceneStream | SceneData):
        return scenes_preprocess(size)
    wanted = config.pictures or Pictures()
    return Preprocess(size, wanted.mean, wanted.std, mode="shortest", interpolation=wanted.interpolation)


def tokenizer_of(config: RunConfig) -> Tokenizer:
    """CLIP's tokenizer for a vocabulary of its size; for scenes, one that is trained on their captions.

    Raises:
        StudioError: a size that is neither CLIP's nor what the captions give.
    """
    size, context = config.model.text.vocab_size, config.model.text.context_length
    if size == CLIP_VOCABULARY:
        return ClipTokenizer(context, TokenizerRule("clip", config.truncation))
    match config.data:
        case SceneStream():
            stream = config.data
        case SceneData():
            stream = SceneStream(config.data.scenes, min(config.data.count, SceneStream.tokenizer_captions))
        case _:
            raise StudioError(
                f"model.text.vocab_size = {size}: captions of tars and CSV files are read with CLIP's vocabulary of "
                f"{CLIP_VOCABULARY:,} ids, set it to {CLIP_VOCABULARY}."
            )
    tokenizer = scenes_tokenizer(stream, size, context)
    if tokenizer.vocab_size != size:
        raise StudioError(
            f"model.text.vocab_size = {size}, but the captions give {tokenizer.vocab_size} ids: set it to "
            f"{tokenizer.vocab_size}."
        )
    return tokenizer
