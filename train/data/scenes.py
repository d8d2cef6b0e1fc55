"""How models of scenes want pictures and words."""

from models.preprocess import Preprocess
from models.tokenizer import DomainTokenizer, train_tokenizer
from train.scenes import describe_scene
from train.settings import SceneStream

MEAN, STD = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)


def scenes_preprocess(size: int) -> Preprocess:
    """How models trained on scenes want pictures of any kind."""
    return Preprocess(size, MEAN, STD, mode="shortest", interpolation="bicubic")


def scenes_tokenizer(data: SceneStream, vocab_size: int, context: int) -> DomainTokenizer:
    """The tokenizer of a run, trained on the captions of its first scenes."""
    captions = (describe_scene(data.seed, index).caption for index in range(data.tokenizer_captions))
    return train_tokenizer(captions, vocab_size, context)
