"""Pictures and captions of a source -> unit embeddings, spread over ranks, wherever the model lies."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.errors import StudioError
from models.loaded import LoadedModel
from train.data.batch import normalised
from train.data.order import rank_share
from train.data.sample import REASONS, Reason, Source, told
from train.evaluation.reading import picture_batches
from train.evaluation.spread import ALONE, Ranks, gather_shares, gather_uneven

_TEXTS_AT_ONCE = 256


class PlacedModel(LoadedModel):
    """The same model, lock and all, whose inputs go to the device that its weights are on."""

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.module.logit_scale.device

    def encode_image(self, pixels: Tensor, normalize: bool = False) -> Tensor:
        """As LoadedModel's, of pictures on any device."""
        return super().encode_image(pixels.to(self.device), normalize)

    def encode_text(self, tokens: Tensor, normalize: bool = False) -> Tensor:
        """As LoadedModel's, of ids on any device."""
        return super().encode_text(tokens.to(self.device), normalize)


def placed(model: LoadedModel) -> PlacedModel:
    """The model with inputs sent to its device."""
    return PlacedModel(**vars(model))


@dataclass(frozen=True, eq=False)
class Pictures:
    """The embeddings of n pictures, the same on all ranks.

    Attributes:
        features: (n, E), of length 1, on the CPU; rows that could not be read mean nothing.
        readable: bool (n,).
        skipped: how many could not be read, by reason.
        captions: (number in 0 .. n - 1, captions) of the readable pictures of this rank alone.
    """

    features: Tensor
    readable: Tensor
    skipped: Mapping[Reason, int]
    captions: tuple[tuple[int, tuple[str, ...]], ...]


@dataclass(frozen=True, eq=False)
class Texts:
    """The embeddings of m captions, the same on all ranks.

    Attributes:
        features: (m, E), of length 1, on the CPU; captions of the same words have the same bits.
        pictures: (m,), the picture of each.
        repeated: captions whose words stood in an earlier one.
        cut: captions of which the model did not see the tail.
    """

    features: Tensor
    pictures: Tensor
    repeated: int
    cut: int


def embed_pictures(
    model: LoadedModel, source: Source, indices: NDArray[np.int64], ranks: Ranks = ALONE, workers: int = 0
) -> Pictures:
    """Embed the samples `indices` (n,) of a source; a collective.

    Raises:
        StudioError: there are none, or none can be read.
        Stopped: somebody asked for it.
    """
    if not len(indices):
        raise StudioError(f"{source.describe()}: there is no picture to measure with, give others.")
    positions, real = rank_share(len(indices), ranks.size, ranks.rank)
    own = np.where(real, indices[positions], -1)
    settings, here = model.preprocess_settings, placed(model)
    features, status, captions = [], [], []
    ranks.go_on()
    with closing(picture_batches(source, settings, own, workers)) as batches:
        for batch in batches:
            pixels = normalised(batch.pixels.to(here.device), settings.mean, settings.std)
            features.append(here.encode_image(pixels, normalize=True).float().cpu())
            status.append(batch.status)
            captions += batch.captions
            ranks.go_on()
    every = gather_shares(ranks, torch.cat(status), len(indices))
    counts = Counter[Reason](REASONS[int(code) - 1] for code in every[every > 0])
    if not bool((every == 0).any()):
        raise StudioError(f"{source.describe()}: no picture could be read ({told(counts)}), repair the data.")
    texts = tuple((int(place), some) for place, some in zip(positions, captions, strict=True) if some)
    return Pictures(gather_shares(ranks, torch.cat(features), len(indices)), every == 0, dict(counts), texts)


def embed_captions(model: LoadedModel, pictures: Pictures, ranks: Ranks = ALONE) -> Texts:
    """Embed the captions of the pictures that could be read, in the order of the pictures; a collective.

    Raises:
        StudioError: the model has no tokenizer.
        Stopped: somebody asked for it.
    """
    texts = [text for _, some in pictures.captions for text in some]
    owners = torch.tensor([place for place, some in pictures.captions for _ in some], dtype=torch.long)
    ids = torch.tensor([_identity(text) for text in texts], dtype=torch.long)
    features = gather_uneven(ranks, _embedded(model, texts, pictures.features.shape[1], ranks))
    ids, owners = gather_uneven(ranks, ids), gather_uneven(ranks, owners)
    cut = gather_uneven(ranks, torch.tensor([sum(bool(model.tokenizer.cut_text(text)) for text in texts)]))
    # Two batches may give one text two last bits, and its ties would be broken by chance.
    _, first, inverse = np.unique(ids.numpy(), return_index=True, return_inverse=True)
    return Texts(features[first[inverse]], owners, len(ids) - len(first), int(cut.sum()))


def _embedded(model: LoadedModel, texts: Sequence[str], width: int, ranks: Ranks) -> Tensor:
    here, parts = placed(model), [torch.zeros(0, width)]
    most = int(ranks.gather(torch.tensor([len(texts)])).max())
    for start in range(0, most, _TEXTS_AT_ONCE):
        ranks.go_on()
        some = list(texts[start : start + _TEXTS_AT_ONCE])
        if some:
            parts.append(here.encode_text(model.tokenize(some), normalize=True).float().cpu())
    return torch.cat(parts)


def _identity(text: str) -> int:
    """A number that is the same for the same words on all ranks."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8], "little", signed=True)
